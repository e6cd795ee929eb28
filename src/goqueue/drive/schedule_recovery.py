"""What a start finds unfinished: firings whose messages may or may not be in their log, entries whose batch is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from goqueue.base.delays import SCHEDULED_HEADER
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.records import Firing, OriginBatch
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_firing import scheduled_mark
from goqueue.drive.schedule_index import Due, ScheduleIndex
from goqueue.drive.schedule_log import ScheduleLog
from goqueue.format.batch import SCHEDULE_PRODUCER_ID, Buffer, read_header, split
from goqueue.format.search import has
from goqueue.format.slices import readable, slices

_APPLIED_AT_ONCE: Final = 5_000
_MARK: Final = SCHEDULED_HEADER.encode()


def catch_up(index: ScheduleIndex, log: ScheduleLog, log_id: str) -> None:
    """Brings the index up to its log, which may grow meanwhile: what comes then is noted by who appends it. Blocks."""
    end_offset = log.end_offset
    applied = index.open(log_id, end_offset)
    records = []
    for offset, record in log.records(applied):
        records.append((offset, record))
        if len(records) >= _APPLIED_AT_ONCE:
            index.apply(records, offset + 1)
            records = []
    index.apply(records, end_offset)
    index.forget_old_ends()


def missing_of(firing: Firing, partition: Partition) -> list[tuple[Offset, int]]:
    """The entries of a firing that are not in the target log. Blocks."""
    start = max(firing.end_offset, partition.log.start_offset)
    wanted = {scheduled_mark(offset, count): (offset, count) for offset, count in firing.entries}
    for mark in _marks(partition, start, not firing.has_producer_id):
        wanted.pop(mark, None)
        if not wanted:
            break
    return list(wanted.values())


def already_in(partition: Partition, dues: Iterable[Due]) -> set[Offset]:
    """Which of these overdue entries are in the target log although no firing is on record. Blocks.

    That is what a power cut can leave where the node does not wait for its disk.
    """
    wanted = {scheduled_mark(due.offset, due.count): due for due in dues}
    since: Millis = min(due.due_ms for due in wanted.values())
    place = partition.log.offset_at_time(since)
    found: set[Offset] = set()
    for mark in _marks(partition, place[0], False) if place is not None else ():
        if mark in wanted:
            found.add(wanted[mark].offset)
    return found


def _marks(partition: Partition, start: Offset, of_anybody: bool) -> Iterable[bytes]:
    """The schedule marks of messages from an offset on: those that the schedule delivered, or anybody's."""
    for batch in partition.log.batches(min(start, partition.log.end_offset)):
        if of_anybody or read_header(batch).producer_id == SCHEDULE_PRODUCER_ID:
            yield from _marks_of(batch)


def _marks_of(batch: Buffer) -> Iterable[bytes]:
    header = read_header(batch)
    if header.is_control or (not header.codec and not has(batch, _MARK)):
        return
    # A producer can put anything under a right CRC; what cannot be read is not one of ours.
    for record in readable(one for one in slices(batch, header) if has(one.batch, _MARK)):
        for name, value in record.headers:
            if name == SCHEDULED_HEADER and value is not None:
                yield value


def came(origin: OriginBatch, partition: Partition) -> bool:
    """Whether the rest of an entry's batch is in the log; what retention or compaction took was there. Blocks."""
    log = partition.log
    if origin.offset >= log.end_offset:
        return False
    if origin.offset < log.start_offset:
        return True
    try:
        batch = next(split(log.read(origin.offset, 1, log.end_offset, wait=True)), None)
    except GoQueueError:
        return True  # damaged: it was there
    if batch is None:
        return True
    header = read_header(batch)
    if header.base_offset != origin.offset:
        return log.meta.gaps_to > origin.offset
    theirs = (origin.producer_id, origin.producer_epoch, origin.base_sequence)
    return (header.producer_id, header.producer_epoch, header.base_sequence) == theirs
