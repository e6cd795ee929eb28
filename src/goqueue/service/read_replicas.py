"""Consumers read from a replica that is near to them (KIP-392): a leader sends them there, a follower answers them.

A follower answers up to its own high watermark, which no leader goes back behind, and only while it is in sync, hears
from its leader and may still believe what it was told of the cluster. Otherwise the reader is sent back to the leader.
"""

from __future__ import annotations

from typing import Protocol

from goqueue.base.errors import NotLeader
from goqueue.base.features import NEAREST_REPLICA
from goqueue.base.ids import Epoch, Offset, TopicPartition
from goqueue.core.cluster.image import Image
from goqueue.core.replication.leader import Replica
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import ShardMap
from goqueue.drive.shard_roles import ShardRoles


class ReadReplicas(Protocol):
    """Asked for readers that say where they stand."""

    def nearest(self, at: TopicPartition, rack: str, offset: Offset) -> int | None:
        """Another node that such a reader should ask, of a partition that is led here; None if it is right here."""
        ...

    def check_followed(self, partition: Partition, claimed: Epoch) -> None:
        """An error word if the partition may not be read at this node, which does not lead it."""
        ...


class ClusterReadReplicas:
    """Of a node in a cluster."""

    def __init__(self, image: Image, shards: ShardMap, me: Replica) -> None:
        self._image = image
        self._shards = shards
        self._roles: ShardRoles | None = None
        self._me = me

    def follow(self, roles: ShardRoles) -> None:
        """These are the shards that it is about; before that there are none."""
        self._roles = roles

    def nearest(self, at: TopicPartition, rack: str, offset: Offset) -> int | None:
        nodes, shard = self._image.nodes(), self._shards.of_partition(at)
        leading, me = None if self._roles is None else self._roles.led.get(shard), nodes.get(self._me.node)
        if leading is None or me is None or me.rack == rack or not self._image.features().get(NEAREST_REPLICA):
            return None
        topic = self._image.topic(at.topic)
        near = [
            node
            for node in leading.record.in_sync
            if (one := nodes.get(node)) is not None
            and (one.rack, one.leaving) == (rack, False)
            and NEAREST_REPLICA in one.features
            and shard not in one.damaged
        ]
        if topic is None or not near:
            return None
        return leading.reader_at(near, topic.id, at.partition, offset)

    def check_followed(self, partition: Partition, claimed: Epoch) -> None:
        shard = self._shards.of_partition(partition.at)
        if self._roles is None or not partition.shard.counts(*self._me) or not self._roles.follows_well(shard):
            raise NotLeader("This node does not lead the partition, and is not in sync; ask the leader.")
        partition.compare_epoch(claimed)
