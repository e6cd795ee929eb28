"""Where a backup's files come from: a node that runs, or the data directory of one that does not."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from goqueue import __version__
from goqueue.api.backups import BackupPart
from goqueue.base.limits import DESCRIPTORS_SPARE
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Misused
from goqueue.cli.processes import was_shared
from goqueue.client import Client, GoQueueClientError
from goqueue.client import backups as calls
from goqueue.drive.disk_note import check_alone
from goqueue.log.data_dir import DataDir
from goqueue.log.real_disk import RealDisk
from goqueue.log.snapshot import SnapshotFile, files_of, process_directories

_PARTS_ASKED = 64  # of which a node is asked for the digests at once: 256 MiB


class BackupSource(Protocol):
    """Files of one moment."""

    taken_ms: int
    version: str
    files: list[SnapshotFile]
    nodes: list[int]

    def read(self, parts: Sequence[BackupPart]) -> bytes: ...

    def digests(self, parts: Sequence[BackupPart]) -> Iterator[str]:
        """SHA-256, in hexadecimal; computed as they are taken."""
        ...


class NodeSource:
    """A node holds its files while this reads them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        begun = client.perform(calls.begin_backup())
        self.id, self.taken_ms, self.version, self.pause_ms = begun.id, begun.taken_ms, begun.version, begun.pause_ms
        self.nodes = begun.nodes
        self.files = list(self._list())

    def _list(self) -> Iterator[SnapshotFile]:
        after: int | None = 0
        while after is not None:
            page = self._client.perform(calls.backup_files(self.id, after))
            yield from (SnapshotFile(file.path, file.size_bytes, file.version) for file in page.files)
            after = page.next

    def read(self, parts: Sequence[BackupPart]) -> bytes:
        return self._client.perform(calls.read_backup(self.id, parts))

    def digests(self, parts: Sequence[BackupPart]) -> Iterator[str]:
        for at in range(0, len(parts), _PARTS_ASKED):
            told = self._client.perform(calls.read_backup(self.id, parts[at : at + _PARTS_ASKED], digests=True)).hex()
            yield from (told[start : start + 64] for start in range(0, len(told), 64))

    def end(self) -> None:
        self._client.perform(calls.end_backup(self.id))


@contextmanager
def running(server: str) -> Iterator[NodeSource]:
    with connect(server, timeout=120.0) as client:
        source = NodeSource(client)
        try:
            yield source
        finally:
            with contextlib.suppress(GoQueueClientError):  # it ends by itself if nobody reads it
                source.end()


class DirectorySource:
    """Nobody writes to the directory meanwhile."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.taken_ms = time.time_ns() // 1_000_000
        self.version = __version__
        self.files = files_of(data, is_stopped=True)
        self.nodes: list[int] = []

    def read(self, parts: Sequence[BackupPart]) -> bytes:
        return b"".join(map(self._read, parts))

    def digests(self, parts: Sequence[BackupPart]) -> Iterator[str]:
        return (hashlib.sha256(self._read(part)).hexdigest() for part in parts)

    def _read(self, part: BackupPart) -> bytes:
        with (self._data / self.files[part.file].path).open("rb") as file:
            return os.pread(file.fileno(), part.size, part.position)


@contextmanager
def stopped(data: Path) -> Iterator[DirectorySource]:
    """Of one node, or of all processes of a machine. Raises `DataDirInUse` if one runs there."""
    if not (data / "metadata").is_dir():
        raise Misused(f"{data} is not a node's data directory: it has no metadata.")
    with contextlib.ExitStack() as stack:
        for place in (data, *process_directories(data)):
            held = DataDir(place)
            held.acquire()
            stack.callback(held.release)
        if not was_shared(data):
            _check_alone(data)
        yield DirectorySource(data)


def _check_alone(data: Path) -> None:
    disk = RealDisk(data, DESCRIPTORS_SPARE)
    try:
        check_alone(disk)
    finally:
        disk.close()
