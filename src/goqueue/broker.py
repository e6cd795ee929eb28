"""A node without doors: storage, the coordinators of its shards and the verbs, wired together. A simulation builds one
on a simulated disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, cast

from goqueue import __version__
from goqueue.base.entropy import new_uuid
from goqueue.base.errors import NotLoaded
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import CLOCK_LATE_MS
from goqueue.base.settings import Settings
from goqueue.base.topic_config import TopicConfig
from goqueue.clustering import BrokerParts, Clustering, routing_of
from goqueue.core.delivery.records import Record as QueueRecord
from goqueue.core.delivery.records import ViewId
from goqueue.core.groups.coordinator import Coordinator
from goqueue.core.groups.records import Record as GroupRecord
from goqueue.core.groups.settings import group_settings_of
from goqueue.core.traces.span import Span
from goqueue.drive.announcing import Announcing
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.clock_watch import ClockWatch, Timekeeper
from goqueue.drive.coordinators import GROUPS_CODEC, GROUPS_TOPIC, SCHEMAS_TOPIC, TRANSACTIONS_TOPIC, GroupHost
from goqueue.drive.delivery_runner import DELIVERIES_TOPIC, DeliveryRunner
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.host import Host
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import PerShard
from goqueue.drive.redrive_notes import RedriveNotes
from goqueue.drive.schedule_index import IN_MEMORY
from goqueue.drive.schedule_log import SCHEDULE_TOPIC
from goqueue.drive.schedule_runner import ScheduleParts
from goqueue.drive.schedule_targets import DueTargets
from goqueue.drive.schedules import Schedules
from goqueue.drive.scrubber import Scrubber
from goqueue.drive.topic_table import TopicTable
from goqueue.log.recovery import Recovered
from goqueue.node_services import NodeServices
from goqueue.service.acls import Acls
from goqueue.service.audit_trail import AuditTrail
from goqueue.service.browse import Browsing
from goqueue.service.cluster_view import LedShards, NoFollowers
from goqueue.service.consume import Consuming
from goqueue.service.coordinator_events import GroupEvents
from goqueue.service.copy_targets import CopyTargets
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.environment import Environment
from goqueue.service.fetch import Fetching
from goqueue.service.groups import Groups
from goqueue.service.groups_anywhere import GroupsAnywhere
from goqueue.service.handing import Handing
from goqueue.service.health import Health
from goqueue.service.hooks import Hooks
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.lease_allocator import LeaseAllocator
from goqueue.service.leasing import Leasing
from goqueue.service.lending import Lending
from goqueue.service.node_config import NodeConfig
from goqueue.service.partition_writer import PartitionWriter
from goqueue.service.positions import Positions
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish, OnceVerbs
from goqueue.service.queue_events import QueueEvents
from goqueue.service.queue_rules import QueueRules
from goqueue.service.queue_stats import QueueStats
from goqueue.service.queue_views import QueueViews
from goqueue.service.quotas import Quotas
from goqueue.service.redriven import AllCopies
from goqueue.service.reset import ResetOffsets
from goqueue.service.routed_leasing import RoutedLeasing
from goqueue.service.router import NodeCalls
from goqueue.service.routing import Routing
from goqueue.service.scheduling import DelayEvents, Scheduling
from goqueue.service.shard_loading import ShardBooks, ShardClocks
from goqueue.service.shard_sizes import ShardSizes
from goqueue.service.share_offsets import ShareOffsets
from goqueue.service.sharing import Sharing
from goqueue.service.tenant_limits import TenantLimits
from goqueue.service.topics import Topics
from goqueue.service.trace_building import TraceParts
from goqueue.service.transfer import Transfer
from goqueue.service.txn_partitions import TransactionWrites
from goqueue.service.unreadable import UnreadableRecords
from goqueue.service.view_news import ViewNews
from goqueue.transacting import TransactionParts, TransactionPlaces

S = TypeVar("S")
_OPENED_S: Final = 0.005


class Broker:
    """The verbs are there once; of each coordinator there is one for every shard."""

    def __init__(self, node: NodeServices, schedule_index: str = IN_MEMORY, calls: NodeCalls | None = None) -> None:
        """`calls` lead to the other nodes if the node's own links do not; a node alone has none."""
        self.node = node
        settings, disk, offload, clock, entropy = node.settings, node.disk, node.offload, node.clock, node.entropy
        self.offload, self.clock, self.entropy, self.metrics = offload, clock, entropy, node.metrics
        self.space, self.flusher, self.storage_stats = node.space, node.flusher, node.storage_stats
        self.schema_host, self.schemas, self.validation = node.schema_host, node.schemas, node.validation
        self.traces, self._trace_parts = node.recording.traces, TraceParts(node.recording)
        self.metadata, self.producer_ids, self.client_quotas = node.metadata, node.producer_ids, node.quotas
        self.acls, writes = Acls(self.metadata, node.access_control), TransactionWrites(lambda: self.txn_questions)
        self.quotas, defaults = Quotas(self.metadata), _topic_defaults(settings)
        self.table = TopicTable(
            self.metadata, node.opener, defaults, OWN_TOPICS, self._topics_changed, settings.cluster.replication_factor
        )
        node.follow_metadata(self.table.metadata_changed)
        telling = None if node.member is None else Announcing(node.member, self.metadata, self.table)
        announce = None if telling is None else telling.announce_metadata
        self.node_config = NodeConfig(self.metadata, settings.node.id, self.table, defaults, announce)
        node.follow_metadata(self.node_config.metadata_changed)
        limits = TenantLimits(node.quotas, self.metadata.image, self.table, clock)
        tracing, told = self._trace_parts.begin(self.table), None if telling is None else telling.announce
        hooks = Hooks(node.access, self.validation, limits, tracing, writes, told)
        self.elsewhere = elsewhere = Elsewhere(node.shard_map, node.peers, node.peer_verbs)
        self.cleaner = Cleaner(self._logs, self.flusher, offload, clock, settings.log)
        self.scrubber = Scrubber(self._logs, self.cleaner, offload, settings.log)
        self.topics = Topics(self.table, settings.topics, self.space, clock, entropy, hooks)
        environment = Environment(clock, entropy, self.metrics)
        self.routing = routing_of(node, calls, self.topics, environment)
        routed, decoding = self.routed, node.decoding
        writer = PartitionWriter(clock, self.metrics, hooks.trace)
        delay_events = DelayEvents(self.metrics, hooks.trace)
        targets = DueTargets(self.table, writer.deliver, lambda: self.space.is_full)
        parts = ScheduleParts(targets, delay_events, clock, offload, settings.log.fsync)
        self.schedules = Schedules(node.shard_map, parts, schedule_index, self.table.name_of)
        self.scheduling = Scheduling(self.schedules, delay_events, self.topics, hooks)
        self.publish = Publish(self.topics, self.space, self.schedules, writer, hooks, decoding)
        self.fetching = Fetching(self.topics, self.metrics, hooks, node.read_replicas)
        unreadable = UnreadableRecords(self.metrics)
        self.browsing = Browsing(self.topics, self.fetching, decoding, unreadable)
        verbs = OnceVerbs(self.publish, routed(self.publish), routed(self.browsing), routed(self.scheduling))
        self.publish_once = DeduplicatedPublish(self.topics, verbs, clock, settings.sqs.deduplication_ids_max)
        self.health = Health(self.table, self.space, self.storage_stats, clock, __version__, node.member)
        group_settings = group_settings_of(settings.groups)
        self._counts: dict[str, int] = {}  # of partitions, by topic; made anew, never changed

        def group_host(shard: int) -> GroupHost:
            events = GroupEvents(
                lambda: self._tell_topics([shard]),
                self._groups_wrote,
                lambda records: self.positions.wait_heard(records),
            )
            others, check_new = partial(self._groups_elsewhere, shard), partial(limits.new_group, self.group_hosts)
            return Host(
                lambda: Coordinator(group_settings, self._counts, others, check_new),
                GROUPS_CODEC,
                events,
                clock,
                offload,
            )

        self.group_hosts = PerShard(node.shard_map, group_host)
        self.groups = Groups(self.group_hosts, self.topics, entropy, lambda: self.positions.catch_up())
        far = None if elsewhere.is_alone else GroupsAnywhere(self.groups, elsewhere)
        known = far or self.groups
        rules = QueueRules(self.topics, known.rules_of_share, known.keeps_order)
        traced = self._trace_parts.begin_leases(self.topics, lambda view: self.deliveries.knows(view))
        queue_events = QueueEvents(
            loaded=lambda: None,
            written=_untraced if traced is None else traced.moved,
            ready=lambda view: self._allocator.ready(view),
            dead=lambda view: self.transfer.begin(view),
            moved=lambda view: self.positions.moved(view),
            answered=lambda group, owner: self._answered(group, owner),
        )
        self.delivery_runners = PerShard(
            node.shard_map,
            lambda shard: DeliveryRunner(
                rules.policy,
                replace(queue_events, loaded=lambda: self._queues_loaded(shard)),
                clock,
                offload,
                self.cleaner.retire,
            ),
        )
        self.deliveries = DeliveryShards(self.delivery_runners, queue_events)
        self.feeds = LaneReaders(decoding, unreadable, known.takes_uncommitted)
        news = None if far is None else ViewNews(elsewhere, far)
        self.positions = Positions(self.deliveries, known, self.topics, self.feeds, news)
        views = QueueViews(self.deliveries, self.topics, rules, self.feeds, self.positions, far)
        handing = Handing(self.deliveries, self.topics, environment, traced)
        lending = Lending(self.deliveries, self.topics, environment, traced)
        self._allocator = LeaseAllocator(self.deliveries, views, handing, lending, environment, limits)
        copies = AllCopies(environment)
        graves = CopyTargets(self.topics, self.publish, self.feeds, copies, elsewhere)
        self.transfer = Transfer(self.deliveries, self.topics, graves, self.feeds, copies, traced)
        self.leasing = Leasing(self._allocator, self.deliveries, views, self.transfer, queue_events, environment)
        self.sharing = Sharing(self.leasing, self.deliveries, views, known, self.topics, environment)
        self.share_offsets = ShareOffsets(self.deliveries, self.positions, self.groups, self.topics, elsewhere)
        self.letters = DeadLetterView(self.deliveries, self.topics, rules, self.feeds, clock, settings.sqs.group)
        self.queue_stats = QueueStats(self.deliveries, self.topics, self.positions, self.feeds)
        self.redrives = Redrives(
            self.letters, self.transfer, copies.redriven, self.topics, RedriveNotes(disk, offload), environment
        )
        places = TransactionPlaces(self.table, self.topics, self.groups, self.leasing, self.schedules, self.publish)
        txns = TransactionParts(node, places, writes, elsewhere, self._trace_parts.tracing, self.routing)
        self.txn_effects, self.txn_coordinators, self.transactions = txns.effects, txns.coordinators, txns.verbs
        self.txn_questions, self.txn_recovery = txns.questions, txns.recovery
        self.staged, self.txn_publish = txns.staged, txns.publish
        books = ShardBooks(self.group_hosts, self.delivery_runners, self.schedules, self.txn_coordinators)
        clocks = ShardClocks(books, lambda: (partition for partition, _ in self._logs()))
        self.timekeepers: list[Timekeeper] = [self.schedules, self._trace_parts, clocks]
        leases = self._leases = _leases_of(self.routing, self.leasing, self.positions.told)
        self.consuming = Consuming(self.groups, self.topics, leases, settings.queue.in_flight_max)
        self._answered = self.consuming.answered if self.routing is None else self.routing.news.answered
        self.reset = ResetOffsets(self.groups, routed(self.browsing))
        self.shard_sizes = ShardSizes(self.table, lambda: self.lags)
        self.audit_trail = AuditTrail(settings.security.audit_log, offload)
        if self.routing is not None:
            self.routing.serve_all(self)
        self._clock_watch = ClockWatch(clock, self.timekeepers, self.metrics.clock_stepped)
        held = BrokerParts(self.table, books, self.cleaner, txns.shard_recovery, self.feeds, self.publish_once)
        node.follow_metadata(lambda _: self._make_shards() if len(self.group_hosts) else None)
        member = node.member
        self.clustering = None if member is None else Clustering(node, member, held, self.open_internal_partition)

    def routed(self, service: S) -> S:
        """What a door asks whose clients ask any node; the service itself if there is no other."""
        return service if self.routing is None else self.routing.front(service)

    @property
    def unstable_anywhere(self) -> Callable[[str], Awaitable[set[TopicPartition]]] | None:
        """Where open transactions of all nodes are about to move a group; None if there is one node."""
        if self.routing is None:
            return None
        return cast(Callable[[str], Awaitable[set[TopicPartition]]], self.routed(self.transactions).unstable)

    async def start(self) -> list[Recovered]:
        """What recovery found."""
        await self.node.start()
        found = await self._open()
        await self._load(await self.traces.start())
        self._clock_watch.start()
        return found

    async def stop(self) -> None:
        """Everything that was accepted is safe when this returns."""
        self.stop_waiting()
        await self._clock_watch.stop()
        if self.clustering is not None:
            await self.clustering.stop()
        await self._drain()
        await self.node.stop()
        await self.table.close()
        await self.node.close()

    @property
    def lags(self) -> LedShards:
        return NoFollowers() if self.clustering is None else self.clustering

    def _logs(self) -> Iterator[tuple[Partition, TopicConfig]]:
        for topic in self.table.all():
            for partition in topic.partitions:
                yield partition, topic.config

    async def _open(self) -> list[Recovered]:
        self.node_config.load()
        self._make_shards()
        found = await self.table.load()
        await self.node.begin_journal()
        self._counts = self._partition_counts()
        self._doubt_a_late_clock()
        return found

    def _make_shards(self) -> None:
        """At the start, and when topics of another replication factor bring some."""
        count = len(self.metadata.image.shards())
        for kind in (self.group_hosts, self.delivery_runners, self.schedules):
            kind.make(count)
        self.txn_coordinators.make(count)

    async def _load_each(self, topic: str, load: Callable[[int, Partition], Awaitable[object]]) -> None:
        """Every shard's partition of an internal topic, side by side."""
        partitions = [
            await self.open_internal_partition(topic, shard) for shard in range(len(self.metadata.image.shards()))
        ]
        await asyncio.gather(*(load(shard, partition) for shard, partition in enumerate(partitions)))

    async def _load(self, spans: Sequence[Span]) -> None:
        """Coordinators go on where they were, in order. `spans` are the traces of before."""
        self._trace_parts.recall(spans)
        if self.clustering is not None:
            await self.clustering.start()  # which loads those of a shard when this node leads it
        else:
            await self._load_all()
        self.transfer.resume()
        await self.redrives.recover()
        self.cleaner.start()
        self.scrubber.start()

    async def _load_all(self) -> None:
        await self.node.load_schemas(await self.open_internal_partition(SCHEMAS_TOPIC))
        await self._load_each(GROUPS_TOPIC, lambda shard, partition: self.group_hosts[shard].load(partition))
        await self._load_each(DELIVERIES_TOPIC, lambda shard, partition: self.delivery_runners[shard].load(partition))
        await self._load_each(SCHEDULE_TOPIC, self.schedules.start)
        await self._load_transactions()
        for runner in self.delivery_runners:
            runner.resume()

    def _doubt_a_late_clock(self) -> None:
        """Nothing was published for long, if the clock is right: the node was down, or the clock was set meanwhile."""
        partitions = [partition for topic in self.topics.all() for partition in topic.partitions]
        newest_ms = max((partition.newest_ms for partition in partitions), default=-1)
        if 0 <= newest_ms < self.clock.now_ms() - CLOCK_LATE_MS:
            self.clock.stepped()

    def _queues_loaded(self, shard: int) -> None:
        """Also after records of queue views could not be made durable; polls that wait look again."""
        runner, shard_of = self.delivery_runners[shard], self.node.shard_map.of_partition
        runner.forget(lambda view: self.topics.find(view.topic) is None or shard_of(view.at) != shard)
        loaded = list(runner.views.values())
        self.positions.recover(loaded)
        self.transfer.recover(loaded)
        self._allocator.wake_all()

    async def _load_transactions(self) -> None:
        """What is in doubt is finished while leases still hold: its acks must find them."""
        await self._load_each(TRANSACTIONS_TOPIC, self.txn_coordinators.load)
        await self.txn_recovery.abort_orphans()
        await self.txn_coordinators.tried()
        await self.txn_recovery.pass_lost_epochs()

    async def open_internal_partition(self, name: str, shard: int = 0) -> Partition:
        """A shard's partition of an internal topic, which is made by the first start."""
        if self.table.get(name) is None:
            await self.table.create_own(name, new_uuid(self.entropy), self.clock.now_ms())
        return await _opened(self.table, name, shard)

    def _groups_wrote(self, records: Sequence[GroupRecord]) -> None:
        self.positions.heard(records)
        self.consuming.heard(records)
        self.sharing.heard(records)
        self.groups.heard(records)

    def _partition_counts(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self.topics.all()}

    def _topics_changed(self, deleted: str | None) -> None:
        if deleted is not None:
            for host in self.group_hosts:
                host.tell(lambda groups, now: groups.topic_deleted(deleted))
            self.metrics.forget_topic(deleted)
            self.schedules.topic_deleted()
            self.deliveries.forget(lambda view: view.topic == deleted)
            self.feeds.forget(deleted)
        self._counts = self._partition_counts()
        self._tell_topics(range(len(self.group_hosts)))
        if self.clustering is not None:
            self.clustering.logs_changed()

    def _tell_topics(self, shards: Iterable[int]) -> None:
        counts = self._counts
        for shard in shards:
            if self.node.shard_map.is_led(shard):
                self.group_hosts[shard].tell(lambda groups, now: groups.topics_changed(counts, now))

    def _groups_elsewhere(self, shard: int, exact: bool) -> int:
        here = self.group_hosts[shard] if self.node.shard_map.is_led(shard) else None
        return sum(host.machine.count(exact) for host in self.group_hosts if host is not here and host.is_loaded)

    def stop_waiting(self) -> None:
        """Long polls, tails and rebalances end, so that a stop need not wait for them."""
        self.health.stop()
        self.fetching.stop()
        self.consuming.stop()
        self.leasing.stop()
        self._leases.stop()
        for host in self.group_hosts:
            host.stop_waiting()

    async def _drain(self) -> None:
        """Everything that was accepted is in the logs when this returns."""
        await self.elsewhere.stop()
        await self.redrives.stop()
        await self.transfer.stop()
        await self.txn_coordinators.stop()
        await self.positions.stop()
        for runner in self.delivery_runners:
            await runner.stop()
        await self.schedules.stop()
        for host in self.group_hosts:
            await host.stop()
        await self.scrubber.stop()
        await self.cleaner.stop()


def _topic_defaults(settings: Settings) -> TopicConfig:
    cluster = settings.cluster
    return settings.topics.defaults(cluster.min_insync_default, cluster.unclean_leader_election)


def _leases_of(
    routing: Routing | None, leasing: Leasing, told: Callable[[str], Awaitable[None]]
) -> Leasing | RoutedLeasing:
    """At all nodes; at this one if it is alone."""
    return leasing if routing is None else routing.leasing(leasing, told)


async def _opened(table: TopicTable, name: str, number: int) -> Partition:
    """Of a shard that is new the logs are being opened."""
    while (topic := table.get(name)) is not None and len(topic.partitions) <= number:  # noqa: ASYNC110
        await asyncio.sleep(_OPENED_S)
    if topic is None:
        raise NotLoaded(f"The topic {name} is being made; try again in a moment.")
    return topic.partitions[number]


def _untraced(view: ViewId, records: Sequence[QueueRecord]) -> None:
    """Nobody wants to know."""
