"""What anybody may ask of a partition: where it begins and ends, how far it may be read, its size, if it failed."""

from __future__ import annotations

from goqueue.base.commands import Isolation
from goqueue.base.errors import CorruptBatch, StorageFailed
from goqueue.base.ids import Epoch, Millis, Offset, TopicPartition
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.partition import PartitionState
from goqueue.core.partition_txns import Aborted
from goqueue.format.batch import BatchHeader
from goqueue.log.epoch_history import end_of_epoch, epoch_of
from goqueue.log.partition_log import PartitionLog


class PartitionMarks:
    """Questions, without effect. Services ask these and never the log or the state behind them."""

    __slots__ = ("__weakref__", "at", "log", "state")

    def __init__(self, at: TopicPartition, log: PartitionLog, state: PartitionState) -> None:
        self.at = at
        self.log = log
        self.state = state

    @property
    def start_offset(self) -> Offset:
        """The first offset that is still there."""
        return self.log.start_offset

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self.log.end_offset

    @property
    def sure_end(self) -> Offset:
        """No leader of the partition has less than this. A node alone has its log."""
        return self.log.end_offset if self.state.is_alone else self.state.high_watermark

    @property
    def high_watermark(self) -> Offset:
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        return self.state.last_stable_offset

    def read_limit(self, isolation: Isolation) -> Offset:
        """How far a reader may go."""
        return self.state.read_limit(isolation)

    def lease_limit(self, isolation: Isolation) -> Offset:
        """How far messages may be put under leases. Where every answer waits for the disk that is further than anybody
        may read: a lease and its message become safe together, and who takes them is answered then."""
        state = self.state
        return state.lease_limit(isolation, state.leases_go_ahead and self.log.failure is None)

    @property
    def has_unreadable_leases(self) -> bool:
        """Messages may be under leases that nobody may read yet."""
        return self.state.is_alone and self.state.high_watermark < self.state.end_offset

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether a reader of committed data gets a batch that is below the last stable offset."""
        return not header.is_control and not self.is_aborted(header)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch that is below the last stable offset is part of an aborted transaction. Of one that was
        deleted since it was read that is not known any more: nobody gets it."""
        if header.is_control or not header.is_transactional:
            return False
        if header.last_offset < self.start_offset:
            return True
        return self.state.txns.is_aborted(header.producer_id, header.base_offset)

    def aborted_between(self, begin: Offset, end: Offset) -> list[Aborted]:
        """Aborted transactions with messages from `begin` up to `end`."""
        return self.state.txns.overlapping(begin, end)

    @property
    def has_aborted(self) -> bool:
        return bool(self.state.txns.aborted)

    @property
    def message_count(self) -> int:
        """No message while a replica has not heard yet up to where they are acknowledged."""
        return max(0, self.state.high_watermark - self.log.start_offset)

    @property
    def leader_epoch(self) -> Epoch:
        return self.state.leader_epoch

    @property
    def leader(self) -> int:
        return self.state.shard.leader

    @property
    def shard(self) -> ShardRecord:
        """Who leads it and who holds it."""
        return self.state.shard

    @property
    def is_replicated(self) -> bool:
        """Other nodes may have to take over what is written here before it counts."""
        return not self.state.is_alone

    def has_too_few(self, min_insync_replicas: int) -> bool:
        """Fewer replicas are in sync than `acks=all` asks for."""
        return self.state.has_too_few(min_insync_replicas)

    def check_epoch(self, claimed: Epoch) -> None:
        """An error word if who asks believes in another leader epoch; -1 means that it does not say."""
        self.state.check_epoch(claimed)

    def compare_epoch(self, claimed: Epoch) -> None:
        """The same at a node that may follow."""
        self.state.compare_epoch(claimed)

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch in which an offset was written; behind the end, the one it would be written in."""
        return epoch_of(self.log.notes.meta.epochs, offset) if offset < self.log.end_offset else self.state.leader_epoch

    def epoch_end(self, epoch: Epoch) -> tuple[Epoch, Offset] | None:
        """The largest epoch that is not larger, and where it ends for readers; None if the epoch is not known here."""
        if not 0 <= epoch <= self.state.leader_epoch:
            return None
        if epoch == self.state.leader_epoch:
            return epoch, self.state.high_watermark
        return end_of_epoch(self.log.notes.meta.epochs, epoch, self.state.high_watermark)

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that were written and read since it was opened."""
        return self.log.bytes_written, self.log.bytes_read

    @property
    def segment_count(self) -> int:
        return len(self.log.segments)

    @property
    def newest_ms(self) -> Millis:
        """The time of its newest record; -1 if it has none."""
        return self.log.newest_ms

    def time_at(self, offset: Offset) -> Millis | None:
        """About when the message at an offset was published; None if that cannot be told. May wait: not on the loop."""
        try:
            return self.log.time_at(offset)
        except (OSError, CorruptBatch):
            return None  # dropped meanwhile, or damaged

    @property
    def failure(self) -> StorageFailed | None:
        """Why it takes no more writes."""
        return self.log.failure

    def damaged_ranges(self) -> list[tuple[Offset, Offset]]:
        """First and last offsets of what cannot be read."""
        segments = self.log.segments
        return [(region.first_offset, region.next_offset - 1) for one in segments for region in one.damage]
