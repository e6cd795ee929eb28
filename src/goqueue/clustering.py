"""A broker whose shards other nodes hold too: which it leads, which it follows, and what it does when that changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from goqueue.core.cluster.traffic import ShardTraffic
from goqueue.core.replication.copy_rates import CopyState
from goqueue.core.replication.leader import FollowerLag
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.cluster_shards import ClusterShards
from goqueue.drive.coordinators import SCHEMAS_TOPIC
from goqueue.drive.log_mending import LogMending
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.drive.partition import Partition
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.schema_follower import SchemaFollower
from goqueue.drive.shard_damage import ShardDamage
from goqueue.drive.shard_roles import ReplicationSettings
from goqueue.drive.topic_records import SINGLE_SHARD
from goqueue.drive.topic_table import TopicTable
from goqueue.drive.traffic_watch import TrafficWatch
from goqueue.node_services import NodeServices
from goqueue.service.environment import Environment
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.router import DO, NodeCalls, Router
from goqueue.service.routing import Routing
from goqueue.service.shard_loading import ShardBooks, ShardLoading
from goqueue.service.tenant_holdings import TenantHoldings
from goqueue.service.topics import Topics
from goqueue.service.txn_shard_recovery import ShardTransactionRecovery


class BrokerParts(NamedTuple):
    """What a shard's role is about."""

    table: TopicTable
    books: ShardBooks
    cleaner: Cleaner
    recovery: ShardTransactionRecovery
    feeds: LaneReaders
    publish_once: DeduplicatedPublish


class Clustering:
    """Made with the broker, started when every partition is open."""

    def __init__(
        self,
        node: NodeServices,
        member: ClusterMember,
        parts: BrokerParts,
        internal: Callable[[str, int], Awaitable[Partition]],
    ) -> None:
        """`internal` is a shard's partition of an internal topic, which is made if need be."""
        self._node = node
        self._parts = parts
        self._internal = internal
        mending = LogMending(parts.cleaner, node.offload)
        looking = node.offload, node.storage_stats
        self._damage = ShardDamage(
            member, node.metadata, self._replicas, mending, looking, lambda: self.shards.logs_changed()
        )
        settings = node.settings
        skew_ms = settings.cluster.clock_skew_ms
        loading = ShardLoading(parts.books, internal, self._recover, self._forget, self._damage.check, skew_ms)
        replication = ReplicationSettings(settings.log.fsync == "always", settings.cluster.lag_ms)
        self.shards = ClusterShards(member, node.metadata, parts.table, loading, parts.cleaner)
        self.shards.begin(node.shard_map, node.clock, replication)
        self.logs_changed = self.shards.logs_changed
        self._schemas: SchemaFollower | None = None
        if node.read_replicas is not None and self.shards.roles is not None:
            node.read_replicas.follow(self.shards.roles)
        self._traffic = TrafficWatch(parts.table, node.clock)
        self._holdings = TenantHoldings(
            node.quotas, node.authentication.sessions, parts.table, parts.books, member, node.clock
        )
        node.follow_metadata(self.shards.metadata_changed, first=True)

    async def start(self) -> None:
        """Coordinators are loaded when their shard is led here."""
        for topic in OWN_TOPICS:
            await self._internal(topic, 0)
        self._schemas = SchemaFollower(await self._internal(SCHEMAS_TOPIC, 0), self._node.load_schemas)
        await self._schemas.start()
        await self._damage.begin()
        self.shards.start()
        self._damage.start()
        self._traffic.start()
        self._holdings.start()

    async def stop(self) -> None:
        if self._node.member is not None:
            await self._node.member.step_aside()
        if self._schemas is not None:
            await self._schemas.stop()
        await self._holdings.stop()
        await self._traffic.stop()
        await self._damage.stop()
        await self.shards.stop()

    @property
    def is_held(self) -> bool:
        return self._node.member is not None and self._node.member.is_held

    def lags(self) -> dict[int, dict[int, FollowerLag]]:
        """How far the followers of shards that are led here are behind, by shard and node."""
        assert self.shards.roles is not None
        now = self._node.clock.now_ms()
        return {shard: led.lags(now) for shard, led in self.shards.roles.led.items()}

    def copies(self, shard: int) -> dict[int, CopyState]:
        """What replicas of a shard that is led here lack, if they are not in sync."""
        assert self.shards.roles is not None
        rates, led, now = self.shards.roles.server.rates, self.shards.roles.led[shard], self._node.clock.now_ms()
        missing = [node for node in led.record.replicas if node not in led.record.in_sync]
        return {node: CopyState(led.bytes_lacking(node), rates.per_s(shard, node, now)) for node in missing}

    def traffic(self, shard: int) -> ShardTraffic:
        return self._traffic.rates.of(shard)

    def _replicas(self, shard: int) -> list[PartitionReplica]:
        return self.shards.replicas(shard)

    async def _recover(self, shard: int) -> None:
        """What its last leader left is finished in the background: it may need shards that are taken over as well. The
        schemas are known before the shard is served that has them."""
        if shard == SINGLE_SHARD and self._schemas is not None:
            await self._schemas.look()
        self._parts.recovery.begin(shard)

    def _forget(self, shard: int) -> None:
        """Others wrote to these partitions: what was read of them before may not be there any more."""
        held = list(self._parts.table.in_shard(shard))
        self._parts.publish_once.forget({topic.record.id for topic, _ in held})
        for _, partition in held:
            self._parts.feeds.forget_partition(partition.at)


def routing_of(node: NodeServices, calls: NodeCalls | None, topics: Topics, environment: Environment) -> Routing | None:
    """How verbs find the node that carries them out; None if there is one node. `calls` lead to the others if the
    node's own links do not."""
    calls = calls or node.peers
    if calls is None:
        return None
    router = Router(node.shard_map, calls)
    node.follow_metadata(router.metadata_changed)
    node.peer_verbs[DO] = router.carry_out
    return Routing(router, topics, environment, node.producer_ids)
