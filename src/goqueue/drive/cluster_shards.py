"""The shards of a node in a cluster: their partitions as replicas, their roles, and the topics that others change."""

from __future__ import annotations

import asyncio

from goqueue.base.clock import Clock
from goqueue.base.ids import Offset
from goqueue.base.metadata import Change
from goqueue.base.replication import LogKey
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.partition import Partition
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.per_shard import ShardMap
from goqueue.drive.shard_roles import ReplicationSettings, ShardCoordinators, ShardRoles
from goqueue.drive.topic_follower import TopicFollower
from goqueue.drive.topic_table import TopicTable


class ClusterShards:
    """`begin`, then `start` when every partition is open."""

    def __init__(
        self,
        member: ClusterMember,
        metadata: ImageFollower,
        table: TopicTable,
        coordinators: ShardCoordinators,
        cleaner: Cleaner,
    ) -> None:
        self._member = member
        self._metadata = metadata
        self._table = table
        self._coordinators = coordinators
        self._cleaner = cleaner
        self._topics = TopicFollower(table, self.logs_changed)
        self._tasks = BackgroundTasks("replicas")
        self._dropping: set[Partition] = set()
        self.roles: ShardRoles | None = None
        self._clock: Clock | None = None

    def begin(self, shards: ShardMap, clock: Clock, settings: ReplicationSettings) -> None:
        self._clock = clock
        self.roles = ShardRoles(
            self._member, self._metadata, shards, self.replicas, self._coordinators, (clock, settings)
        )

    def start(self) -> None:
        assert self.roles is not None
        self._topics.start()
        self.roles.start()

    async def stop(self) -> None:
        assert self.roles is not None
        await self._topics.stop()
        await self.roles.stop()
        await self._tasks.stop()

    def metadata_changed(self, change: Change) -> None:
        assert self.roles is not None
        self.roles.metadata_changed()
        self._topics.metadata_changed(change)

    def logs_changed(self) -> None:
        """Topics were made, changed or deleted."""
        assert self.roles is not None
        self.roles.logs_changed()

    def replicas(self, shard: int) -> list[PartitionReplica]:
        """The logs of a shard, as they are now."""
        assert self._clock is not None
        own, factor = self._own_minimum(shard), self._metadata.image.shard(shard).wanted
        return [
            PartitionReplica(
                LogKey(topic.record.id, partition.at.partition),
                partition,
                min(own if topic.is_internal and own else topic.config.min_insync_replicas, factor),
                self._clock,
                self._begin_at,
            )
            for topic, partition in self._table.in_shard(shard)
        ]

    def _own_minimum(self, shard: int) -> int:
        """How many have to be in sync for what the broker keeps about the topics in a shard: as many as the one asks
        for that asks for most. 0 where ids are kept too: then it is the usual number."""
        if shard in self._metadata.image.id_shards():
            return 0
        users = (topic for topic, _ in self._table.in_shard(shard) if not topic.is_internal)
        return max((topic.config.min_insync_replicas for topic in users), default=0)

    def _begin_at(self, partition: Partition, start: Offset) -> None:
        """The leader dropped what is before: so does this node, in the background."""
        if partition not in self._dropping:
            self._dropping.add(partition)
            self._tasks.spawn(self._drop_head(partition, start)).add_done_callback(
                lambda _: self._dropping.discard(partition)
            )

    async def _drop_head(self, partition: Partition, start: Offset) -> None:
        await self._cleaner.drop_head(partition, start)
        await asyncio.sleep(1)
