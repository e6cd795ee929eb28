"""Where backups are kept: a directory of objects, each named by the SHA-256 of its bytes, and one manifest a backup.

Objects never change, so any tool that copies new files can carry the directory elsewhere. A manifest names the parts of
each file; it appears when everything that it names is safe. What an interrupted backup copied is noted meanwhile, and
is not copied again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.failures import Failed
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.private import DIR_MODE, FILE_MODE, make_private_dirs

FORMAT: Final = 2  # of a backup of several nodes; of one node it is 1
_MANIFESTS: Final = "backups"
_OBJECTS: Final = "objects"
_SUFFIX: Final = ".json"
_COPIED: Final = "unfinished"


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


class BackupStore:
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """One at a time writes to it."""
        make_private_dirs(self.path)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Failed(f"Another backup writes to {self.path}; wait until it ends.") from None
        finally:
            os.close(fd)

    # --- objects -----------------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Its name. One that is there already is not written again."""
        name = hashlib.sha256(data).hexdigest()
        path = self._object(name)
        if not path.exists() or path.stat().st_size != len(data):
            path.parent.mkdir(DIR_MODE, parents=True, exist_ok=True)
            write_safely(path, data)
        return name

    def get(self, name: str) -> bytes | None:
        """None if it is damaged or missing."""
        try:
            data = self._object(name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == name else None

    def size(self, name: str) -> int:
        """-1 if it is missing."""
        try:
            return self._object(name).stat().st_size
        except OSError:
            return -1

    def _object(self, name: str) -> Path:
        return self.path / _OBJECTS / name[:2] / name

    # --- manifests ---------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Of backups, the oldest first."""
        return sorted(path.stem for path in (self.path / _MANIFESTS).glob(f"*{_SUFFIX}"))

    def manifest(self, name: str) -> Manifest:
        path = self.path / _MANIFESTS / f"{name}{_SUFFIX}"
        if not path.exists():
            raise Failed(f"There is no backup {name!r} in {self.path}; `goqueue backup {self.path} --list` shows them.")
        found = decode_crc_json(path.read_bytes(), Manifest)
        if found is None:
            raise Failed(f"The backup {name} is damaged: {path} cannot be read. Use another one.")
        if found.format > FORMAT:
            raise Failed(f"The backup {name} was made by GoQueue {found.version}; use that version or a later one.")
        return found

    def finish(self, name: str, manifest: Manifest) -> None:
        path = self.path / _MANIFESTS / f"{name}{_SUFFIX}"
        path.parent.mkdir(DIR_MODE, parents=True, exist_ok=True)
        self._sync_objects()
        write_safely(path, encode_crc_json(manifest))
        sync_directory(path.parent)
        sync_directory(self.path)
        self._unfinished.unlink(missing_ok=True)

    def _sync_objects(self) -> None:
        for directory in sorted((self.path / _OBJECTS).glob("*")):
            sync_directory(directory)
        if (self.path / _OBJECTS).exists():
            sync_directory(self.path / _OBJECTS)

    # --- what need not be copied -------------------------------------------------------------------------

    def copied(self) -> dict[str, BackupEntry]:
        """Files by path, as the newest backup and an unfinished one have them; only those whose objects are there."""
        found: dict[str, BackupEntry] = {}
        for name in self.names()[-1:]:
            with contextlib.suppress(Failed):
                found = {entry.path: entry for entry in self.manifest(name).files}
        found |= {entry.path: entry for entry in self._read_unfinished()}
        sizes: dict[str, int] = {}
        return {path: entry for path, entry in found.items() if self._has(entry.parts, sizes)}

    def _has(self, parts: Sequence[ObjectPart], sizes: dict[str, int]) -> bool:
        for part in parts:
            if part.object not in sizes:
                sizes[part.object] = self.size(part.object)
        return all(part.position + part.size <= sizes[part.object] for part in parts)

    def note(self, entries: Sequence[BackupEntry]) -> None:
        """These are copied whole, should the backup end here."""
        with self._unfinished.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))

    def _read_unfinished(self) -> Iterator[BackupEntry]:
        if self._unfinished.exists():
            for line in self._unfinished.read_bytes().splitlines():
                with contextlib.suppress(msgspec.MsgspecError):  # the last line may be cut
                    yield from_json(line, BackupEntry)

    @property
    def _unfinished(self) -> Path:
        return self.path / _COPIED

    # --- pruning -----------------------------------------------------------------------------------------

    def keep(self, count: int) -> int:
        """Deletes all but the newest backups, and the objects that no other names; returns how many backups went.

        Manifests go first: what is interrupted leaves objects that nobody needs, and the next call finds them.
        """
        names = self.names()
        gone, kept = names[:-count], names[-count:]
        needed = set().union(*(self.manifest(name).objects for name in kept))
        for name in gone:
            (self.path / _MANIFESTS / f"{name}{_SUFFIX}").unlink()
        for path in (self.path / _OBJECTS).glob("*/*"):
            if path.name not in needed:
                path.unlink()
        return len(gone)


def write_safely(path: Path, data: bytes) -> None:
    """It is there whole, or not at all."""
    beside = path.with_name(f"{path.name}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    beside.replace(path)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
