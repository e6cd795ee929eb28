"""What the journal of the last run holds, until the logs have it.

Each log takes what it lacks when it is opened: batches behind its end, in order. What it has is passed over, and so is
what was written before the log was cut, or by a topic of another id. A log that the journal speaks of is synced then,
so that nothing here is needed any more. Damage is named, and what follows it is used as far as it fits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import pairwise

from goqueue.format.batch import BatchHeader, read_header, split
from goqueue.log.disk import Disk
from goqueue.log.home import unless_full
from goqueue.log.journal_entries import (
    BLOCK,
    FILES,
    JournalEntry,
    JournalPart,
    encode_entry,
    entries_of,
    has_entries,
    parts_of,
    read_label,
)
from goqueue.log.partition_log import PartitionLog
from goqueue.log.stats import StorageStats

logger = logging.getLogger(__name__)


class JournalReplay:
    """`read` once, then `take` for every log, then `end`. All of it blocks."""

    def __init__(self, disk: Disk, stats: StorageStats) -> None:
        self._disk = disk
        self._stats = stats
        self._parts: dict[str, list[JournalPart]] = {}  # by directory, in order
        self._newest: JournalEntry | None = None
        self.key = b""  # empty if there is none yet
        self.next_number = 1
        self.next_file = 0  # the one to begin with
        self.damaged = 0  # entries

    def read(self) -> None:
        found = {path: data for path in FILES if (data := self._disk.read_file(path))}
        labels = {path: read_label(data) for path, data in found.items()}
        # Both have the same key: that of a file whose label is damaged is in the other.
        keys = [key for key in labels.values() if key is not None]
        self.key = keys[0] if keys else b""
        for path, data in found.items():
            if labels[path] is None and has_entries(data):
                self._name_damage(1, {"file": path, "position": 0})
        entries = [entry for path, data in found.items() for key in {*keys} for entry in entries_of(path, data, key)]
        self._sort(sorted(entries, key=_number))

    def _sort(self, entries: list[JournalEntry]) -> None:
        """By log; entries that were not needed any more are left out."""
        if not entries:
            return
        self._newest = newest = entries[-1]
        self.next_number = newest.number + 1
        self.next_file = 1 - FILES.index(newest.file)
        live = [entry for entry in entries if entry.number >= newest.live_from]
        self._look_for_gaps(newest.live_from, live)
        for entry in live:
            for part in parts_of(entry):
                self._parts.setdefault(part.directory, []).append(part)

    def _look_for_gaps(self, first: int, live: list[JournalEntry]) -> None:
        if live[0].number > first:
            self._name_damage(live[0].number - first, {"before": live[0].position, "file": live[0].file})
        for one, following in pairwise(live):
            if following.number > one.number + 1:
                facts = {"file": one.file, "position": one.position + one.size, "number": one.number + 1}
                self._name_damage(following.number - one.number - 1, facts)

    def _name_damage(self, entries: int, facts: dict[str, object]) -> None:
        self.damaged += entries
        self._stats.journal_damaged += entries
        logger.error("damaged entry in the journal", extra={"entries": entries, **facts})

    def take(self, log: PartitionLog, topic_id: str, taken: Callable[[], None] = lambda: None) -> int:
        """Gives a log what it lacks, and makes it safe; the bytes that it lacked. `taken` is called before that."""
        parts = [part for part in self._parts.pop(log.home.directory, ()) if _is_of(part, topic_id)]
        replayed = self._replay(log, _since_last_cut(parts, log.notes.cuts)) if parts else 0
        taken()
        if not parts:
            return 0
        log.needs_sync()
        if (job := log.begin_sync()) is not None:
            job.run()
            log.finish_sync(job)
        return replayed

    def _replay(self, log: PartitionLog, parts: Iterable[JournalPart]) -> int:
        replayed = 0
        for part in parts:
            for batch in split(part.batches):
                header = read_header(batch)
                if header.next_offset <= log.end_offset:
                    continue
                if not _fits(log, header):
                    self._name_missing(log, header)
                    return replayed
                log.restore(batch, header)
                replayed += header.size
                self._stats.journal_replayed += 1
        return replayed

    def _name_missing(self, log: PartitionLog, header: BatchHeader) -> None:
        """Neither the log nor the journal has what comes before; what follows cannot take its place."""
        log.once_held(header.base_offset)
        facts = {"log": log.home.directory, "from": log.end_offset, "to": header.base_offset}
        logger.error("offsets are neither in the log nor in the journal", extra=facts)

    def end(self) -> None:
        """Every log there is was opened: notes that nothing here is needed, before anything is written over."""
        for directory in self._parts:
            logger.warning("no log for what the journal holds, left out", extra={"log": directory})
        self._parts.clear()
        if (newest := self._newest) is not None and (newest.parts or newest.live_from < newest.number):
            with unless_full():
                self._void(newest)

    def _void(self, newest: JournalEntry) -> None:
        """Behind the newest entry; in a file that is full up, in the other one, which is free then."""
        file, position = self._disk.open(newest.file, spare=True), newest.position + newest.size
        self.next_file = 1 - FILES.index(newest.file)
        if position + BLOCK > file.size:
            file, position = self._disk.open(FILES[self.next_file], create=True, spare=True), BLOCK
            self.next_file = 1 - self.next_file
        file.write(position, encode_entry(self.key, self.next_number, self.next_number, ()))
        file.sync()
        self.next_number += 1


def _number(entry: JournalEntry) -> int:
    return entry.number


def _is_of(part: JournalPart, topic_id: str) -> bool:
    return not topic_id or not part.topic_id or part.topic_id == topic_id


def _since_last_cut(parts: list[JournalPart], cuts: int) -> list[JournalPart]:
    """Those of the newest count of cuts. If the log has lost its note of that, the journal knows better."""
    newest = max(part.cuts for part in parts)
    return [part for part in parts if part.cuts == newest] if newest >= cuts else []


def _fits(log: PartitionLog, header: BatchHeader) -> bool:
    """Right behind the end; or behind the last batch, where the log was made to begin in the middle of the next."""
    reached = log.segments[-1].next_offset if log.segments else 0
    return header.base_offset in (log.end_offset, reached)
