"""A partition as replication sees it, whether this node leads it or follows."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.base.clock import Clock
from goqueue.base.errors import DamagedRange
from goqueue.base.ids import Epoch, Offset
from goqueue.base.replication import LogKey
from goqueue.drive.partition import Partition
from goqueue.drive.topic_records import SINGLE
from goqueue.log.epoch_history import NO_EPOCH, end_of_epoch
from goqueue.log.reader import NeedsVerification
from goqueue.log.segment import Segment
from goqueue.log.verifying import is_as_sealed, is_sound, misplaced_in


class PartitionReplica:
    """A `ReplicaLog`."""

    def __init__(
        self,
        key: LogKey,
        partition: Partition,
        minimum: int,
        clock: Clock,
        drop_head: Callable[[Partition, Offset], None],
    ) -> None:
        self.key = key
        self.partition = partition
        self.minimum = minimum
        self._clock = clock
        self._drop_head = drop_head
        self._unreadable: Offset = -1
        self._proven: Segment | None = None  # it looked wrong, and was not

    @property
    def is_everywhere(self) -> bool:
        """Nodes that do not hold its shard have it too."""
        return self.partition.at.topic in SINGLE

    @property
    def start_offset(self) -> Offset:
        return self.partition.start_offset

    @property
    def end_offset(self) -> Offset:
        return self.partition.end_offset

    @property
    def synced_offset(self) -> Offset:
        return self.partition.log.synced_offset

    @property
    def high_watermark(self) -> Offset:
        return self.partition.high_watermark

    @property
    def last_epoch(self) -> Epoch:
        epochs = self.partition.log.notes.meta.epochs
        return epochs[-1].epoch if epochs else NO_EPOCH

    def end_of_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        return end_of_epoch(self.partition.log.notes.meta.epochs, epoch, self.partition.end_offset)

    def bytes_from(self, offset: Offset) -> int:
        return self.partition.log.bytes_from(offset)

    def read_tail(self, offset: Offset, bytes_max: int) -> bytes:
        """Nothing where it is damaged here: another replica is to lead."""
        log, end = self.partition.log, self.partition.end_offset
        try:
            batches = log.read(offset, bytes_max, end, wait=True)
            if not self._is_misplaced(offset, batches) or not self.partition.others_have_it:
                return batches
            self._unreadable = offset
            return b""
        except NeedsVerification:
            log.roll()
        except (DamagedRange, OSError):
            self._unreadable = offset
            return b""
        return self.read_tail(offset, bytes_max)

    def read_range(self, first: Offset, end: Offset, bytes_max: int) -> bytes:
        """For a replica that has lost it, to which no batches say that compaction left none: an error if it is damaged
        here too. Waits for the device."""
        log = self.partition.log
        batches = log.read(first, bytes_max, end, wait=True)
        there = [one for one in log.segments if first < one.next_offset and one.base_offset < end]
        is_damaged = self._is_misplaced(first, batches) if batches else not all(map(_is_whole, there))
        if is_damaged:
            raise DamagedRange("The leader is damaged there too.", first_offset=first, next_offset=end)
        return batches

    def _is_misplaced(self, offset: Offset, batches: bytes) -> bool:
        found = misplaced_in(self.partition.log, offset, batches)
        if found is None or found is self._proven:
            return False
        if is_as_sealed(found):
            self._proven = found  # a log that was brought from elsewhere may have epochs of its own
        return found is not self._proven

    def is_readable(self, offset: Offset) -> bool:
        return offset != self._unreadable

    def take(self, batches: bytes) -> int:
        return self.partition.take(batches, self._clock.now_ms())

    async def wait_synced(self) -> None:
        await self.partition.wait_written()

    def cut(self, offset: Offset) -> None:
        self.partition.cut(offset, self._clock.now_ms())

    def begin_anew(self, start: Offset) -> None:
        self.partition.begin_anew(start, self._clock.now_ms())

    async def look_for_producers(self) -> None:
        """Once the log was mended."""
        await self.partition.producers.look_again(self._clock.now_ms())

    def begin_without_files(self) -> None:
        self.partition.begin_without_files(self._clock.now_ms())

    @property
    def deleted_to(self) -> Offset:
        return self.partition.log.notes.meta.deleted_to

    def note_deleted(self, to: Offset) -> None:
        self.partition.log.note_deleted(to)

    def begin_at(self, start: Offset) -> None:
        self._drop_head(self.partition, start)

    def mark(self, high_watermark: Offset) -> None:
        self.partition.replicated(high_watermark)


def _is_whole(segment: Segment) -> bool:
    if segment.seal is not None:
        return is_as_sealed(segment)
    if not is_sound(segment, segment.length):
        raise NeedsVerification
    return True
