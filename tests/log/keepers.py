"""A log as a node has it: synced itself, or with a journal that its small writes are entrusted to."""

from __future__ import annotations

from goqueue.base.limits import KIB
from goqueue.log.disk import Disk
from goqueue.log.journal import LogJournal
from goqueue.log.journal_replay import JournalReplay
from goqueue.log.stats import StorageStats
from tests.log.logs import open_at, sync

_KEY = b"unguessd"
_JOURNAL_BYTES = 48 * KIB  # so small that its files take turns


class Alone:
    """It is synced itself."""

    segment_bytes = 600
    safe_every = 3  # messages

    def __init__(self, disk: Disk) -> None:
        self.log, _ = open_at(disk, self.segment_bytes)

    @property
    def entrusted(self) -> int:
        """How many entries the journal got."""
        return 0

    def make_safe(self) -> None:
        """What was appended is promised afterwards."""
        sync(self.log)

    def close(self) -> None:
        """As a process ends that is killed: nothing more is synced."""
        self.log.close()


class Journaled(Alone):
    """What a round brings goes into the journal, unless the log's file is new; the log is synced when that fills up."""

    segment_bytes = 1_500
    safe_every = 1

    def __init__(self, disk: Disk) -> None:
        self._stats = stats = StorageStats()
        replay = JournalReplay(disk, stats)
        replay.read()
        super().__init__(disk)
        replay.take(self.log, "")
        replay.end()
        assert replay.damaged == 0, "a torn write was taken for damage"
        self.journal = LogJournal(disk, _JOURNAL_BYTES, stats)
        self.journal.open(replay.key or _KEY, replay.next_number, replay.next_file)

    @property
    def entrusted(self) -> int:
        return self._stats.journal_entries

    def make_safe(self) -> None:
        share = self.log.mark.begin(64 * KIB)
        job = None if share is None else self.journal.begin([share])
        if job is not None:
            job.run()
            self.journal.finish(job)
            for one in job.shares:
                self.log.finish_journal(one)
        if self.log.synced_offset < self.log.end_offset:
            super().make_safe()
        if self.journal.is_filling:
            self._settle()

    def _settle(self) -> None:
        if self.journal.switch():
            super().make_safe()
            self.journal.release()
