"""Backups of a running node: its files as they are at one moment, held until somebody has read them.

The moment is one turn of the event loop in which nothing is cleaned up and no metadata is written. What was
acknowledged before it is in the backup, and nothing of what came after: no group, lease or schedule speaks of a message
that is not there. To the node that starts from it, it looks as if it had been killed then.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from goqueue import __version__
from goqueue.api.backups import BackupFileOut, BackupFilesOut, BackupOut, BackupPart
from goqueue.base.clock import Clock
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import BackupRefused, InvalidField, Overloaded, StorageFailed, UnknownBackup
from goqueue.base.limits import (
    BACKUP_FILES_LISTED_MAX,
    BACKUP_IDLE_S,
    BACKUP_READ_BYTES_MAX,
    BACKUP_WAIT_S,
    BACKUPS_MAX,
)
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating
from goqueue.log.private import DIR_MODE
from goqueue.log.snapshot import PROCESS_DIRECTORY, SNAPSHOTS, SnapshotFile, link_files

logger = logging.getLogger(__name__)

_LOOK_S: Final = 30.0
_STILL_S_MAX: Final = 1.0
_ATTEMPTS: Final = 5  # a topic that is just being deleted takes files away
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EMLINK, errno.ENOSYS)


class _Held(msgspec.Struct):
    shown: BackupOut
    directory: Path
    files: list[SnapshotFile]
    used_at: float


class HeldHere(msgspec.Struct, frozen=True):
    """Of one node of several. `place` is its data directory within that of all processes of a machine."""

    shown: BackupOut
    place: str


class BackupPorts(msgspec.Struct, frozen=True):
    """What a backup needs of the node."""

    offload: Offload
    clock: Clock
    entropy: Entropy


class Backups:
    """The verbs. `metadata` is None if the node is one of several, whose metadata is elsewhere."""

    def __init__(self, data: Path, cleaner: Cleaner, metadata: EmbeddedMetadata | None, ports: BackupPorts) -> None:
        self._data = data
        self._cleaner = cleaner
        self._metadata = metadata
        self._offload, self._clock, self._entropy = ports.offload, ports.clock, ports.entropy
        self._held: dict[str, _Held] = {}
        self._looking = Repeating(_LOOK_S, self._end_unused)

    async def start(self) -> None:
        """What an earlier run left is of no use to anybody."""
        await self._remove(self._data / SNAPSHOTS)
        self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()
        await self._remove(self._data / SNAPSHOTS)

    async def begin(self) -> BackupOut:
        """Of a node that is alone; of several, `service/cluster_backups.py` begins one."""
        assert self._metadata is not None
        if len(self._held) >= BACKUPS_MAX:
            raise BackupRefused(f"{BACKUPS_MAX} backups are under way; end one, or wait until it ends.")
        try:
            async with asyncio.timeout(BACKUP_WAIT_S), self._cleaner.quiet(), self._metadata.quiet():
                held = self._hold(new_uuid(self._entropy))
        except TimeoutError:
            raise Overloaded("The node compacts a log or changes its metadata; try again in a moment.") from None
        self._held[held.shown.id] = held
        return held.shown

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """While it is held, no file of a log is replaced or deleted."""
        async with asyncio.timeout(BACKUP_WAIT_S) as waiting, self._cleaner.quiet():
            waiting.reschedule(None)
            yield

    async def hold(self, name: str, still_s: float) -> HeldHere:
        """One node of several: it holds its files, and then does nothing for so long, before it answers."""
        try:
            async with asyncio.timeout(still_s / 4), self._cleaner.quiet():
                held = self.hold_now(name)
                _stand_still(still_s)
        except TimeoutError:
            raise Overloaded("The node compacts a log; try again in a moment.") from None
        paused = msgspec.structs.replace(held.shown, pause_ms=held.shown.pause_ms + round(still_s * 1000))
        return HeldHere(paused, held.place)

    def hold_now(self, name: str) -> HeldHere:
        held = self._held[name] = self._hold(name)
        own = self._data.name
        return HeldHere(held.shown, f"{own}/" if PROCESS_DIRECTORY.fullmatch(own) else "")

    def holds(self, name: str) -> bool:
        return name in self._held

    def _hold(self, name: str) -> _Held:
        """Blocks the loop, for that is what makes it one moment."""
        began = time.perf_counter()
        directory = self._data / SNAPSHOTS / name
        files = self._linked(directory)
        pause_ms = round((time.perf_counter() - began) * 1000, 3)
        size = sum(file.size_bytes for file in files)
        shown = BackupOut(name, self._clock.now_ms(), __version__, len(files), size, pause_ms)
        logger.info("backup begun", extra={"backup": name, "files": len(files), "pause_ms": pause_ms})
        return _Held(shown, directory, files, time.monotonic())

    def _linked(self, directory: Path) -> list[SnapshotFile]:
        for left in reversed(range(_ATTEMPTS)):
            try:
                directory.mkdir(DIR_MODE, parents=True)
                directory.parent.chmod(DIR_MODE)
                return link_files(self._data, directory, is_alone=self._metadata is not None)
            except OSError as error:
                shutil.rmtree(directory, ignore_errors=True)
                if error.errno in _NO_LINKS:
                    raise BackupRefused(
                        f"The file system of {self._data} has no hard links ({error.strerror}). Stop the node, and "
                        "back up its data directory."
                    ) from error
                if not left or error.errno != errno.ENOENT:
                    raise StorageFailed(f"The files cannot be held for a backup: {error.strerror}.") from error
        raise AssertionError("it returned or raised")

    def list(self) -> list[BackupOut]:
        return [held.shown for held in self._held.values()]

    async def files(self, name: str, after: int) -> BackupFilesOut:
        """From a place in the list on, as many as fit an answer."""
        held = self._find(name)
        page = held.files[after : after + BACKUP_FILES_LISTED_MAX]
        end = after + len(page)
        shown = [BackupFileOut(file.path, file.size_bytes, file.version) for file in page]
        return BackupFilesOut(shown, end if end < len(held.files) else None)

    async def read(self, name: str, parts: Sequence[BackupPart], digests: bool = False) -> bytes:
        """The bytes of parts of files, or their digests."""
        held = self._find(name)
        for part in parts:
            if part.file >= len(held.files) or part.position + part.size > held.files[part.file].size_bytes:
                raise InvalidField(f"File {part.file} has no such part.", field="parts")
        if not digests and sum(part.size for part in parts) > BACKUP_READ_BYTES_MAX:
            raise InvalidField(f"One request reads at most {BACKUP_READ_BYTES_MAX} bytes.", field="parts")
        return await self._offload(lambda: _read(held.directory, parts, digests))

    async def end(self, name: str) -> None:
        held = self._find(name)
        del self._held[name]
        await self._remove(held.directory)

    def _find(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            raise UnknownBackup(f"No backup {name[:64]} is under way; begin one.")
        held.used_at = time.monotonic()
        return held

    async def _end_unused(self) -> None:
        """Nobody reads it any more, and it keeps files from being deleted."""
        since = time.monotonic() - BACKUP_IDLE_S
        for held in [held for held in self._held.values() if held.used_at < since]:
            logger.warning("a backup that nobody reads is ended", extra={"backup": held.shown.id})
            self._held.pop(held.shown.id, None)
            await self._remove(held.directory)

    async def _remove(self, directory: Path) -> None:
        await self._offload(lambda: shutil.rmtree(directory, ignore_errors=True))


def _stand_still(seconds: float) -> None:
    """Blocks the loop: nothing happens at this node meanwhile."""
    time.sleep(min(seconds, _STILL_S_MAX))


def _read(directory: Path, parts: Sequence[BackupPart], digests: bool) -> bytes:
    found: list[bytes] = []
    for part in parts:
        fd = os.open(directory / str(part.file), os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, part.size, part.position)
        finally:
            os.close(fd)
        if len(data) < part.size:
            raise StorageFailed("A file is shorter than it was when the backup began; begin another.")
        found.append(digest_of(data) if digests else data)
    return b"".join(found)


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
