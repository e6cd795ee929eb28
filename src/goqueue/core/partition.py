"""How far a partition may be read and by whom it may be written. Pure: told what happened, it moves its marks.

On one node the high watermark is the end of the log, or, where every answer waits for the disk, the end of what is
synced: nobody reads what a power cut could take back. With replicas it is where replication puts it. The last stable
offset bounds readers of committed data.
"""

from __future__ import annotations

from typing import Final

from goqueue.base.commands import Acks, Isolation
from goqueue.base.errors import FencedEpoch, NotEnoughReplicas, NotLeader, TakingOver, UnknownEpoch
from goqueue.base.ids import Epoch, Offset
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.partition_txns import PartitionTxns

ALONE: Final = ShardRecord(0, 0, (0,), (0,))


class PartitionState:
    """The marks of one partition."""

    __slots__ = (
        "_reads_wait_for_sync",
        "end_offset",
        "high_watermark",
        "is_alone",
        "is_led",
        "is_served",
        "leader_epoch",
        "leases_go_ahead",
        "shard",
        "txns",
    )

    def __init__(
        self,
        end_offset: Offset,
        reads_wait_for_sync: bool,
        shard: ShardRecord = ALONE,
        txns: PartitionTxns | None = None,
    ) -> None:
        self._reads_wait_for_sync = reads_wait_for_sync
        self.is_led = self.is_served = False
        self.led_by(shard)
        self.end_offset = end_offset
        self.high_watermark = end_offset if self.is_alone else 0
        self.txns = PartitionTxns() if txns is None else txns

    @property
    def last_stable_offset(self) -> Offset:
        """Where the first open transaction begins, or the high watermark."""
        return self.txns.stable(self.high_watermark)

    def led_by(self, shard: ShardRecord) -> None:
        """What is written from now on is of the shard's epoch."""
        self.shard = shard
        self.leader_epoch = shard.epoch
        self.is_alone = len(shard.replicas) <= 1 and not shard.starts  # those of a cluster name the starts that count
        self.leases_go_ahead = self.is_alone and self._reads_wait_for_sync  # the answer waits until both are safe
        if self.is_alone:
            self.is_led = self.is_served = True

    def check_served(self) -> None:
        """`NotLeader` if another node answers for the partition, or nobody does yet."""
        if self.is_led and not self.is_served:
            raise TakingOver("This node takes the partition over; it is served in a moment.")
        if not self.is_served:
            raise NotLeader("Another node leads the partition, or nobody does yet; ask for the leader again.")

    def check_epoch(self, claimed: Epoch) -> None:
        """Raises if the caller believes in another leader; -1 means that it does not say."""
        self.check_served()
        self.compare_epoch(claimed)

    def compare_epoch(self, claimed: Epoch) -> None:
        """The same, whether this node leads or not."""
        if claimed < 0 or claimed == self.leader_epoch:
            return
        if claimed < self.leader_epoch:
            raise FencedEpoch(f"The leader's epoch is {self.leader_epoch}, not {claimed}; ask for the leader again.")
        raise UnknownEpoch(f"The leader's epoch is {self.leader_epoch} here, and not yet {claimed}; try again.")

    def check_acks(self, acks: Acks, min_insync_replicas: int) -> None:
        """`NotEnoughReplicas` if `acks=all` asks for more than there are; `NotLeader` if others write here."""
        self.check_served()
        if acks is Acks.ALL and self.has_too_few(min_insync_replicas):
            raise NotEnoughReplicas(
                f"acks=all needs {min_insync_replicas} in-sync replicas and there are {len(self.shard.in_sync)}; "
                "lower min.insync.replicas or publish with acks=leader."
            )

    def has_too_few(self, min_insync_replicas: int) -> bool:
        """Fewer are in sync than are asked for. All that there are is enough in a cluster, as it is with Kafka."""
        asked = min_insync_replicas if self.is_alone else min(min_insync_replicas, self.shard.wanted)
        return len(self.shard.in_sync) < self.shard.needed(asked)

    def appended(self, end_offset: Offset) -> bool:
        """The log grew. True if readers can go further."""
        self.end_offset = end_offset
        return self.is_alone and not self._reads_wait_for_sync and self._advance(end_offset)

    def synced(self, end_offset: Offset) -> bool:
        """Everything below is on disk. True if readers can go further."""
        return self.is_alone and self._advance(end_offset)

    def replicated(self, high_watermark: Offset) -> bool:
        """Everybody in sync has everything below. True if readers can go further."""
        return self._advance(min(high_watermark, self.end_offset))

    def truncated(self, end_offset: Offset) -> None:
        self.end_offset = end_offset
        self.high_watermark = min(self.high_watermark, end_offset)
        self.txns.cut_tail(end_offset)

    def begun_anew(self, offset: Offset) -> None:
        """The log is empty and begins there."""
        self.end_offset = self.high_watermark = offset

    def read_limit(self, isolation: Isolation) -> Offset:
        return self.high_watermark if isolation is Isolation.READ_UNCOMMITTED else self.last_stable_offset

    def lease_limit(self, isolation: Isolation, is_ahead: bool) -> Offset:
        """How far messages may be put under leases; `is_ahead` says that those go ahead of what anybody may read."""
        end = self.end_offset if is_ahead else self.high_watermark
        return end if isolation is Isolation.READ_UNCOMMITTED else self.txns.stable(end)

    def _advance(self, to: Offset) -> bool:
        moved = to > self.high_watermark
        if moved:
            self.high_watermark = to
        return moved
