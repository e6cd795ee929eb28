"""Where backups are kept: objects, each named by the SHA-256 of its bytes, and one manifest a backup.

They are in a directory or in a bucket. Objects never change, so any tool that copies new files can carry them
elsewhere. A manifest names the parts of each file; it appears when everything that it names is safe. What an
interrupted backup copied is noted meanwhile, and is not copied again. Files with other names are somebody else's.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.backup_bucket import BucketPlace
from goqueue.cli.backup_directory import DirectoryPlace
from goqueue.cli.backup_place import TEMPORARY, BackupDamaged, BackupPlace
from goqueue.cli.backup_s3 import SCHEME
from goqueue.cli.failures import Failed, Misused
from goqueue.log.crc_json import decode_crc_json, encode_crc_json

FORMAT: Final = 2  # of a backup of several nodes; of one node it is 1
_MANIFESTS: Final = "backups"
_OBJECTS: Final = "objects"
_SUFFIX: Final = ".json"
_COPIED: Final = "unfinished"
_NAME: Final = r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z"
_MANIFEST_KEY: Final = re.compile(rf"{_MANIFESTS}/({_NAME}){re.escape(_SUFFIX)}")
_OBJECT_KEY: Final = re.compile(rf"{_OBJECTS}/([0-9a-f]{{2}})/\1[0-9a-f]{{62}}")
_ADDRESS: Final = re.compile(r"s3:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class ObjectPart(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of an object."""

    object: str
    position: int
    size: int


class BackupEntry(msgspec.Struct, frozen=True):
    """A file of the data directory."""

    path: str
    size_bytes: int
    version: str
    parts: list[ObjectPart]


class Manifest(msgspec.Struct, frozen=True):
    """One backup."""

    format: int
    taken_ms: int
    version: str  # of GoQueue
    files: list[BackupEntry]
    nodes: list[int] = []  # of a cluster

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def objects(self) -> set[str]:
        return {part.object for file in self.files for part in file.parts}


def place_of(target: str) -> BackupPlace:
    scheme, separator, rest = target.partition("://")
    if separator and f"{scheme.lower()}{separator}" == SCHEME:
        return BucketPlace(f"{SCHEME}{rest}")
    if _ADDRESS.match(target):
        raise Misused(f"Backups cannot be kept in {target}. Write a directory, s3://BUCKET or s3://BUCKET/PREFIX.")
    return DirectoryPlace(Path(target))


class BackupStore:
    def __init__(self, place: BackupPlace) -> None:
        self._place = place
        self.name = place.name

    def changing(self) -> AbstractContextManager[None]:
        """One at a time writes to it."""
        return self._place.changing()

    def renew(self) -> None:
        """To be called every few seconds while `changing`. Raises `Failed` if another one writes now."""
        self._place.renew()

    # --- objects -----------------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Its name. One that is there already is not written again."""
        name = hashlib.sha256(data).hexdigest()
        if self._place.size(_object(name)) != len(data):
            self._place.write(_object(name), data)
        return name

    def get(self, name: str) -> bytes | None:
        """None if it is damaged or missing."""
        try:
            data = self._place.read(_object(name))
        except BackupDamaged:
            return None
        return data if data is not None and hashlib.sha256(data).hexdigest() == name else None

    # --- manifests ---------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Of backups, the oldest first."""
        return sorted(found[1] for key in self._place.keys(_MANIFESTS) if (found := _MANIFEST_KEY.fullmatch(key)))

    def manifest(self, name: str) -> Manifest:
        data = self._read(_manifest(name))
        if data is None:
            raise _NoManifest(
                f"There is no backup {name!r} in {self.name}; `goqueue backup {self.name} --list` shows them."
            )
        found = decode_crc_json(data, Manifest)
        if found is None:
            raise _NoManifest(
                f"The backup {name} is damaged: {self.name}/{_manifest(name)} cannot be read. Use another one."
            )
        if found.format > FORMAT:
            raise _NoManifest(
                f"The backup {name} was made by GoQueue {found.version}; use that version or a later one."
            )
        return found

    def _read(self, key: str) -> bytes | None:
        """What is damaged is empty."""
        try:
            return self._place.read(key)
        except BackupDamaged:
            return b""

    def finish(self, name: str, manifest: Manifest) -> None:
        self._place.settle()
        self._place.confirm()
        self._place.write(_manifest(name), encode_crc_json(manifest))
        self._place.settle()
        self._place.delete(_COPIED)

    # --- what need not be copied -------------------------------------------------------------------------

    def copied(self) -> dict[str, BackupEntry]:
        """Files by path, as the newest backup and an unfinished one have them; only those whose objects are there."""
        found: dict[str, BackupEntry] = {}
        for name in self.names()[-1:]:
            with contextlib.suppress(_NoManifest):
                found = {entry.path: entry for entry in self.manifest(name).files}
        found |= {entry.path: entry for entry in self._read_unfinished()}
        sizes: dict[str, int] = {}
        return {path: entry for path, entry in found.items() if self._has(entry.parts, sizes)}

    def _has(self, parts: Sequence[ObjectPart], sizes: dict[str, int]) -> bool:
        for part in parts:
            if part.object not in sizes:
                sizes[part.object] = self._place.size(_object(part.object))
        return all(part.position + part.size <= sizes[part.object] for part in parts)

    def note(self, entries: Sequence[BackupEntry]) -> None:
        """These are copied whole, should the backup end here."""
        self._place.append(_COPIED, b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))

    def _read_unfinished(self) -> Iterator[BackupEntry]:
        for line in (self._read(_COPIED) or b"").splitlines():
            with contextlib.suppress(msgspec.MsgspecError):  # the last line may be cut
                yield from_json(line, BackupEntry)

    # --- pruning -----------------------------------------------------------------------------------------

    def keep(self, count: int) -> int:
        """Deletes all but the newest backups, and the objects that no other names; returns how many backups went.

        Manifests go first: what is interrupted leaves objects that nobody needs, and the next call finds them.
        """
        names = self.names()
        if not names:
            raise Failed(f"No backup is found in {self.name}, so nothing is deleted there.")
        kept = names[-count:]
        needed = {_object(found) for name in kept for found in self.manifest(name).objects}
        needed |= {_manifest(name) for name in kept}
        self._place.confirm()
        for folder in (_MANIFESTS, _OBJECTS):
            for key in self._place.keys(folder):
                if key not in needed and _is_own(key):
                    self._place.delete(key)
            self._place.settle()
        return len(names) - len(kept)


class _NoManifest(Failed):
    """There is no such backup, or it cannot be used."""


def _is_own(key: str) -> bool:
    written = key.removesuffix(TEMPORARY)
    return bool(_MANIFEST_KEY.fullmatch(written) or _OBJECT_KEY.fullmatch(written))


def _object(name: str) -> str:
    return f"{_OBJECTS}/{name[:2]}/{name}"


def _manifest(name: str) -> str:
    return f"{_MANIFESTS}/{name}{_SUFFIX}"
