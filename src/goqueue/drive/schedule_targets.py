"""The logs that delayed messages are delivered to: written when messages are due, searched by a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from goqueue.base.delays import SCHEDULED_HEADER
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.due import Due, Target, scheduled_mark
from goqueue.core.schedule.records import Firing, OriginBatch
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.format.batch import SCHEDULE_PRODUCER_ID, Buffer, read_header, split
from goqueue.format.records import NewRecord
from goqueue.format.search import has
from goqueue.format.slices import readable, slices

_MARK = SCHEDULED_HEADER.encode()

Write = Callable[[Topic, Partition, list[NewRecord]], None]


class DueTargets:
    """Found by topic id: a topic that was deleted takes its messages with it, also if another has its name."""

    def __init__(self, table: TopicTable, write: Write, is_full: Callable[[], bool]) -> None:
        self._table = table
        self._write = write
        self._is_full = is_full

    def has_topic(self, topic_id: str) -> bool:
        return self._table.name_of(topic_id) is not None

    def topic_id(self, name: str) -> str:
        topic = self._table.get(name)
        assert topic is not None
        return topic.record.id

    def _find(self, topic_id: str, number: int) -> tuple[Topic, Partition] | None:
        topic = self._table.get(self._table.name_of(topic_id) or "")
        return None if topic is None or number >= len(topic.partitions) else (topic, topic.partitions[number])

    def partition(self, topic_id: str, number: int) -> Partition | None:
        found = self._find(topic_id, number)
        return None if found is None else found[1]

    def target(self, topic_id: str, number: int) -> Target | None:
        found = self._find(topic_id, number)
        if found is None:
            return None
        topic, partition = found
        is_writable = partition.failure is None and not self._is_full()
        return Target(partition.end_offset, topic.config.max_message_bytes, is_writable)

    def deliver(self, topic_id: str, number: int, records: list[NewRecord]) -> Offset | None:
        """Where the log ends with them; None if it is gone, and they with it."""
        found = self._find(topic_id, number)
        if found is None:
            return None
        topic, partition = found
        try:
            if records:
                self._write(topic, partition, records)
        except GoQueueError:
            if partition.is_closed:
                return None
            raise
        return partition.end_offset


def missing_of(schedule: int, firing: Firing, partition: Partition) -> set[tuple[Offset, int]]:
    """The entries of a firing that are not in the target log. Blocks."""
    start = max(firing.end_offset, partition.log.start_offset)
    wanted = {scheduled_mark(schedule, offset, count): (offset, count) for offset, count in firing.entries}
    for mark in _marks(partition, start, not firing.has_producer_id):
        wanted.pop(mark, None)
        if not wanted:
            break
    return set(wanted.values())


def already_in(schedule: int, partition: Partition, dues: Iterable[Due]) -> set[Offset]:
    """Which of these overdue entries are in the target log although no firing is on record. Blocks.

    That is what a power cut can leave where the node does not wait for its disk.
    """
    wanted = {scheduled_mark(schedule, due.offset, due.count): due for due in dues}
    since: Millis = min(due.due_ms for due in wanted.values())
    place = partition.log.offset_at_time(since)
    marks = _marks(partition, place[0], False) if place is not None else ()
    return {wanted[mark].offset for mark in marks if mark in wanted}


def _marks(partition: Partition, start: Offset, of_anybody: bool) -> Iterator[bytes]:
    """The schedule marks of messages from an offset on: those that the schedule delivered, or anybody's."""
    for batch in partition.log.batches(min(start, partition.log.end_offset)):
        if of_anybody or read_header(batch).producer_id == SCHEDULE_PRODUCER_ID:
            yield from _marks_of(batch)


def _marks_of(batch: Buffer) -> Iterator[bytes]:
    header = read_header(batch)
    if header.is_control or (not header.codec and not has(batch, _MARK)):
        return
    # A producer can put anything under a right CRC; what cannot be read is not one of ours.
    for record in readable(one for one in slices(batch, header) if has(one.batch, _MARK)):
        for name, value in record.headers:
            if name == SCHEDULED_HEADER and value is not None:
                yield value


def is_there(origin: OriginBatch, partition: Partition) -> bool:
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
        return log.notes.meta.gaps_to > origin.offset
    theirs = (origin.producer_id, origin.producer_epoch, origin.base_sequence)
    return (header.producer_id, header.producer_epoch, header.base_sequence) == theirs
