"""One backup: what the store has already is named, the rest is copied, small files many at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from goqueue.api.backups import BackupPart
from goqueue.base.limits import BACKUP_PARTS_MAX, BACKUP_READ_BYTES_MAX
from goqueue.cli.backup_source import BackupSource
from goqueue.cli.backup_store import FORMAT, BackupEntry, BackupStore, Manifest, ObjectPart
from goqueue.log.snapshot import SnapshotFile
from goqueue.service.cluster_backups import STORE

_CHUNK: Final = BACKUP_READ_BYTES_MAX


_Twin: TypeAlias = tuple[str, str, int]
_OF_NODE: Final = re.compile(r"node-\d+/")


class Copied(msgspec.Struct):
    """What a backup did."""

    files: int = 0
    size_bytes: int = 0
    copied_bytes: int = 0


class BackupCopy:
    """`progress` is told how many bytes are done."""

    def __init__(self, source: BackupSource, store: BackupStore, progress: Callable[[int], None]) -> None:
        self._source = source
        self._store = store
        self._progress = progress
        self._parts: dict[int, list[ObjectPart]] = {}
        self._twins: dict[_Twin, list[ObjectPart]] = {}  # whole files, which other replicas have too
        self._pack: list[BackupPart] = []  # of several files, read at once and kept as one object
        self._done = 0
        self.copied = Copied()

    def run(self) -> Manifest:
        known = self._store.copied()
        for number, file in enumerate(self._source.files):
            self._copy(number, file, known.get(file.path))
        self._flush()
        files = [self._entry(number) for number in range(len(self._source.files))]
        self.copied.files, self.copied.size_bytes = len(files), sum(file.size_bytes for file in files)
        is_one = all(file.path != STORE for file in files)
        format_ = 1 if is_one else FORMAT
        return Manifest(format_, self._source.taken_ms, self._source.version, files, self._source.nodes)

    def _copy(self, number: int, file: SnapshotFile, known: BackupEntry | None) -> None:
        self._parts[number] = []
        if known is not None and file.version and (known.version, known.size_bytes) == (file.version, file.size_bytes):
            self._parts[number] = self._twins[_twin_of(file)] = known.parts
            self._count(file.size_bytes)
            return
        twin = _twin_of(file)
        if file.version and twin in self._twins:
            self._parts[number] = self._twins[twin]
            self._count(file.size_bytes)
            return
        if known is not None:
            self._take_over(number, file, known)
        begun = sum(part.size for part in self._parts[number])
        for position in range(begun, file.size_bytes, _CHUNK):
            self._add(BackupPart(number, position, min(_CHUNK, file.size_bytes - position)))
        if file.version and not any(part.file == number for part in self._pack):
            self._store.note([self._entry(number)])
            self._twins[twin] = self._parts[number]

    def _take_over(self, number: int, file: SnapshotFile, known: BackupEntry) -> None:
        """The beginning of a log that grew, as far as it is the same: whole objects, asked for by their digests."""
        asked: list[BackupPart] = []
        position = 0
        for part in known.parts:
            if part.position or part.size != _CHUNK or position + _CHUNK > file.size_bytes:
                break
            asked.append(BackupPart(number, position, _CHUNK))
            position += _CHUNK
        for part, digest in zip(known.parts, self._source.digests(asked), strict=False):
            if digest != part.object:
                return
            self._parts[number].append(part)
            self._count(part.size)

    def _add(self, part: BackupPart) -> None:
        size = sum(one.size for one in self._pack)
        if size + part.size > _CHUNK or len(self._pack) >= BACKUP_PARTS_MAX:
            self._flush()
        self._pack.append(part)
        if part.size == _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if not self._pack:
            return
        pack, self._pack = self._pack, []
        data = self._source.read(pack)
        name = self._store.put(data)
        for part, position in zip(pack, _positions(pack), strict=True):
            self._parts[part.file].append(ObjectPart(name, position, part.size))
        self.copied.copied_bytes += len(data)
        self._count(len(data))
        ended = [part.file for part in pack if self._is_whole(part.file)]
        self._store.note([self._entry(number) for number in ended if self._source.files[number].version])

    def _is_whole(self, number: int) -> bool:
        return sum(part.size for part in self._parts[number]) == self._source.files[number].size_bytes

    def _count(self, size: int) -> None:
        self._store.renew()
        self._done += size
        self._progress(self._done)

    def _entry(self, number: int) -> BackupEntry:
        file = self._source.files[number]
        return BackupEntry(file.path, file.size_bytes, file.version, self._parts[number])


def _positions(pack: list[BackupPart]) -> Iterator[int]:
    position = 0
    for part in pack:
        yield position
        position += part.size


def _twin_of(file: SnapshotFile) -> _Twin:
    """The same for the same file of another node of the cluster."""
    return _OF_NODE.sub("", file.path, count=1), file.version, file.size_bytes
