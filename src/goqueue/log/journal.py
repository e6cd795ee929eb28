"""The journal: one file for the small writes of all logs, so that one sync makes a whole round safe.

Two preallocated files are written in turn. What a round writes is promised when its one sync returns; the logs are
synced at leisure, and a file is free again when every log that has something in it was. Where there is no room, and for
large writes, a round syncs the logs themselves: a journal that is not there costs time, never messages.

It runs on the event loop, but for `JournalJob.run` and what opens and closes the files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.limits import MIB
from goqueue.log.disk import Disk, File
from goqueue.log.home import NO_RESOURCES, NO_SPACE, unless_full
from goqueue.log.journal_entries import BLOCK, FILES, encode_entry, encode_label, room_for
from goqueue.log.journal_share import JournalShare
from goqueue.log.stats import StorageStats

logger = logging.getLogger(__name__)

_ZEROS: Final = bytes(MIB)
_SPARED: Final = 16  # a journal is made only where there is room for so many of its files


class JournalJob(msgspec.Struct):
    """Writes one entry and syncs it; `run` on any thread."""

    file: File
    position: int
    size: int
    key: bytes
    number: int
    live_from: int
    shares: Sequence[JournalShare]
    seconds: float = 0.0  # how long the sync took

    def run(self) -> None:
        entry = encode_entry(self.key, self.number, self.live_from, [share.read() for share in self.shares])
        began = time.perf_counter()
        self.file.write(self.position, entry)
        self.file.sync()
        self.seconds = time.perf_counter() - began


class LogJournal:
    """Closed until `open`, and again after a failure."""

    def __init__(self, disk: Disk, total_bytes: int, stats: StorageStats) -> None:
        self._disk = disk
        self._file_bytes = total_bytes // 2 // BLOCK * BLOCK
        self._stats = stats
        self._files: list[File] = []
        self._key = b""
        self._active = 0
        self._position = BLOCK
        self._number = 0  # of the next entry
        self._opened_at = 0
        self._firsts = [0, 0]  # the number of the first entry in each file
        self._other_is_free = True
        self._noted_from = 0  # the oldest entry that is needed, as the last entry says

    # --- life --------------------------------------------------------------------------------------------

    def open(self, key: bytes, number: int, active: int = 0) -> None:
        """With nothing in it that is needed. The entries count from `number` on, in the file `active` first. Blocks."""
        if (files := self._prepared(key)) is None:
            logger.warning("no space for a journal; every log is synced by itself")
            self.discard()
            return
        self._key, self._number, self._firsts, self._files = key, number, [number, number], files
        self._active, self._noted_from, self._opened_at = active, number, number

    def _prepared(self, key: bytes) -> list[File] | None:
        """None if there is too little space: the journal must not take what is left from the logs."""
        is_there = all(self._size(path) == self._file_bytes for path in FILES)
        if not is_there and self._disk.usage().free_bytes < _SPARED * self._file_bytes:
            return None
        try:
            files = [self._prepare(path, key) for path in FILES]
            self._disk.sync_dir("")
        except OSError as error:
            if error.errno not in (*NO_SPACE, *NO_RESOURCES):
                raise
            return None
        return files

    def _size(self, path: str) -> int:
        try:
            return self._disk.size(path)
        except FileNotFoundError:
            return 0

    def _prepare(self, path: str, key: bytes) -> File:
        """Zeros, not only reserved space: a block that was never written costs the file system a commit of its own."""
        file = self._disk.open(path, create=True, spare=True)
        if file.size != self._file_bytes:
            file.truncate(0)
            for at in range(0, self._file_bytes, MIB):
                file.append([_ZEROS[: self._file_bytes - at]])
            file.sync()
        if file.read(0, BLOCK) != encode_label(key):
            file.write(0, encode_label(key))
            file.sync()
        return file

    def close(self) -> None:
        """After every log was synced: notes that nothing here is needed. Blocks."""
        files, self._files = self._files, []
        if files and self._number > self._opened_at and self._position + BLOCK <= self._file_bytes:
            note = JournalJob(files[self._active], self._position, BLOCK, self._key, self._number, self._number, ())
            with unless_full():
                note.run()

    def discard(self) -> None:
        """After every log was synced: the node does without. Blocks."""
        if any(self._size(path) for path in FILES):
            for path in FILES:
                self._disk.remove(path)
            self._disk.sync_dir("")

    # --- rounds ------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return bool(self._files)

    @property
    def is_filling(self) -> bool:
        """More than half of the file is used, and the other is free: time to sync the logs."""
        return self._other_is_free and self._position > self._file_bytes // 2

    def begin(self, shares: Sequence[JournalShare]) -> JournalJob | None:
        """The next entry; None if there is no room for it. One at a time.

        The last block of a file is kept for an entry without shares: before the other file is written over, an entry
        says that it is free, or a write that is torn there would look like damage.
        """
        if not self._files:
            return None
        size = room_for((one.directory, one.log.notes.meta.topic_id, one.size) for one in shares)
        if self._position + size + BLOCK <= self._file_bytes:
            return self._job(size, shares)
        has_room = self._position + BLOCK <= self._file_bytes
        return self._job(BLOCK, ()) if has_room and self._other_is_free and not self._is_noted else None

    def _job(self, size: int, shares: Sequence[JournalShare]) -> JournalJob:
        live_from = self._firsts[self._active if self._other_is_free else 1 - self._active]
        return JournalJob(self._files[self._active], self._position, size, self._key, self._number, live_from, shares)

    @property
    def _is_noted(self) -> bool:
        """The last entry says that the other file is free."""
        return self._noted_from >= self._firsts[self._active]

    def finish(self, job: JournalJob) -> None:
        self._position += job.size
        self._number += 1
        self._noted_from = job.live_from
        self._stats.journal_entries += 1
        self._stats.journal_bytes += job.size

    def fail(self, why: OSError) -> None:
        """What was promised stays; what comes is not entrusted to it any more, unless it was only too busy."""
        self._stats.journal_failures += 1
        if why.errno not in (*NO_SPACE, *NO_RESOURCES):
            logger.critical("the journal failed; every log is synced by itself", extra={"error": str(why)})
            self._files = []

    # --- turns -------------------------------------------------------------------------------------------

    def switch(self) -> bool:
        """From now on the other file is written to; False if that is not free, or no entry says so."""
        if not self._other_is_free or not self._is_noted:
            return False
        self._active = 1 - self._active
        self._firsts[self._active] = self._number
        self._position, self._other_is_free = BLOCK, False
        return True

    def release(self) -> None:
        """Every log with something in the other file was synced."""
        self._other_is_free = True
