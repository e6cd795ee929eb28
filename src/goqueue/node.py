"""The root: the one place that builds and wires things, starts them in order and stops them in reverse."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from goqueue import __version__
from goqueue.base.clock import Clock, SystemClock
from goqueue.base.entropy import Entropy, SystemEntropy, new_uuid
from goqueue.base.settings import Settings, parse_address
from goqueue.base.topic_config import TopicConfig
from goqueue.core.groups.settings import GroupSettings
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.flusher import Flusher
from goqueue.drive.group_runner import GROUPS_CONFIG, GROUPS_TOPIC, GroupRunner
from goqueue.drive.identity import Identity, load_identity
from goqueue.drive.offload import Offload, Threads
from goqueue.drive.partition import Partition
from goqueue.drive.partition_opener import PartitionOpener
from goqueue.drive.space_watch import SpaceWatch
from goqueue.drive.topic_table import TopicRecord, TopicTable
from goqueue.edge.kafka.admin import AdminHandler
from goqueue.edge.kafka.cluster import ClusterHandler
from goqueue.edge.kafka.configs import ConfigHandler
from goqueue.edge.kafka.door import handlers
from goqueue.edge.kafka.fetch import FetchHandler
from goqueue.edge.kafka.groups import GroupHandler
from goqueue.edge.kafka.listener import Dispatcher, KafkaListener
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.offsets import OffsetHandler
from goqueue.edge.kafka.produce import ProduceHandler
from goqueue.edge.kafka.producers import ProducerHandler
from goqueue.edge.rest.app import Pages, build_app
from goqueue.edge.rest.groups import GroupRoutes
from goqueue.edge.rest.messages import MessageRoutes
from goqueue.edge.rest.node_routes import NodeRoutes
from goqueue.edge.rest.requests import Bodies
from goqueue.edge.rest.server import RestServer, listen
from goqueue.edge.rest.topics import TopicRoutes
from goqueue.log.data_dir import DataDir
from goqueue.log.disk import Disk
from goqueue.log.real_disk import RealDisk
from goqueue.log.recovery import Recovered
from goqueue.log.space import SpaceGuard
from goqueue.log.stats import StorageStats
from goqueue.service.browse import Browsing
from goqueue.service.consume import Consuming
from goqueue.service.fetch import Fetching
from goqueue.service.groups import Groups
from goqueue.service.health import Health
from goqueue.service.hooks import Hooks
from goqueue.service.metrics import BrokerMetrics, GroupCollector, MetricsPage, StorageCollector
from goqueue.service.producers import ProducerIds
from goqueue.service.publish import Publish
from goqueue.service.reset import ResetOffsets
from goqueue.service.storage import Storage
from goqueue.service.topics import Topics

logger = logging.getLogger(__name__)


class Started(msgspec.Struct, frozen=True):
    """What a start found, for the person who asked for it."""

    version: str
    data_dir: str
    addresses: dict[str, str]
    fsync: str
    topics: int
    partitions: int
    messages: int
    bytes_checked: int
    bytes_cut: int
    damaged_ranges: int
    seconds: float


class Broker:
    """Storage and verbs without doors: what every door is handed. A simulation builds it on a simulated disk."""

    def __init__(self, settings: Settings, disk: Disk, offload: Offload, clock: Clock, entropy: Entropy) -> None:
        self.offload = offload
        self.clock = clock
        self.storage_stats = StorageStats()
        self.metrics = BrokerMetrics()
        hooks = Hooks()
        self.space = SpaceGuard(disk, settings.log.disk_used_percent_max)
        self.flusher = Flusher(settings.log, offload, self.metrics.sync_seconds.observe)
        opener = PartitionOpener(disk, settings.log, self.flusher, offload, self.storage_stats, clock)
        self.table = TopicTable(disk, opener, offload, settings.topics.defaults())
        self.cleaner = Cleaner(self._logs, self.flusher, offload, clock, settings.log.cleanup_interval_ms)
        self._space_watch = SpaceWatch(self.space, offload)
        self.topics = Topics(self.table, settings.topics, self.space, clock, entropy, hooks)
        self.publish = Publish(self.topics, self.space, clock, self.metrics, hooks)
        self.fetching = Fetching(self.topics, self.metrics, hooks)
        self.browsing = Browsing(self.topics, self.fetching)
        self.health = Health(self.table, self.space, self.storage_stats, clock, __version__)
        self.producer_ids = ProducerIds(disk, offload)
        self.runner = GroupRunner(_group_settings(settings), self._partition_counts, clock)
        self.groups = Groups(self.runner, self.topics, entropy)
        self.consuming = Consuming(self.groups, self.topics, self.browsing, self.metrics)
        self.table.on_changed = self._topics_changed
        self._clock, self._entropy, self._disk = clock, entropy, disk
        self.identity = Identity("")

    def _logs(self) -> Iterator[tuple[Partition, TopicConfig]]:
        for topic in self.table.all():
            for partition in topic.partitions:
                yield partition, topic.config

    async def start(self) -> list[Recovered]:
        self.flusher.start()
        found = await self.table.load()
        self.identity = await self.offload(lambda: load_identity(self._disk, self._entropy))
        await self._load_groups()
        self.cleaner.start()
        self._space_watch.start()
        return found

    async def _load_groups(self) -> None:
        topic = self.table.get(GROUPS_TOPIC)
        if topic is None:
            record = TopicRecord(GROUPS_TOPIC, new_uuid(self._entropy), 1, GROUPS_CONFIG, self._clock.now_ms())
            topic = await self.table.create(record)
        assert topic is not None
        partition = topic.partitions[0]
        await self.offload(lambda: self.runner.replay(partition))
        self.runner.begin(partition)

    def _partition_counts(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self.topics.all()}

    def _topics_changed(self, deleted: str | None) -> None:
        if deleted is not None:
            self.runner.tell(lambda now: self.runner.coordinator.topic_deleted(deleted))
            self.metrics.forget_topic(deleted)
        counts = self._partition_counts()
        self.runner.tell(lambda now: self.runner.coordinator.topics_changed(counts, now))

    def stop_waiting(self) -> None:
        """Long polls, tails and rebalances end, so that a stop need not wait for them."""
        self.health.stopping = True
        self.fetching.stop()
        self.consuming.stop()
        self.runner.stop()

    async def stop(self) -> None:
        """Everything that was accepted is safe when this returns."""
        self.stop_waiting()
        await self.cleaner.stop()
        await self._space_watch.stop()
        await self.flusher.stop()
        await self.table.close()


class Node:
    """A broker on the machine's disk, with its doors open."""

    def __init__(self, settings: Settings, pages: Pages | None = None) -> None:
        self._settings = settings
        self._pages = pages or {}
        self._data_dir = DataDir(Path(settings.data.dir))
        self._threads = Threads()
        self._broker: Broker | None = None
        self._rest: RestServer | None = None
        self._kafka: KafkaListener | None = None

    async def start(self) -> Started:
        """Raises a `Startup` error with nothing left behind, or serves."""
        began = time.perf_counter()
        _allow_many_files()
        self._data_dir.acquire()
        try:
            return await self._start(began)
        except BaseException:
            self._data_dir.release()
            raise

    async def _start(self, began: float) -> Started:
        rest = parse_address(self._settings.rest.listen)
        kafka = parse_address(self._settings.kafka.listen)
        rest_socket = listen(*rest, "rest.listen") if rest else None
        kafka_socket = listen(*kafka, "kafka.listen") if kafka else None
        disk = RealDisk(self._data_dir.path)
        self._broker = broker = Broker(self._settings, disk, self._threads, SystemClock(), SystemEntropy())
        found = await broker.start()
        seconds = time.perf_counter() - began
        collector = StorageCollector(broker.table, broker.storage_stats, broker.space, seconds)
        broker.metrics.registry.register(collector)
        broker.metrics.registry.register(GroupCollector(broker.groups))
        addresses = {"REST": "off", "Kafka": "off"}
        if rest_socket is not None:
            self._rest = RestServer(self._rest_app(broker), rest_socket, self._settings.rest.drain_ms)
            addresses["REST"] = f"http://{self._rest.address}"
            await self._rest.start()
        if kafka_socket is not None:
            self._kafka = KafkaListener(self._kafka_door(broker), kafka_socket, self._settings.kafka, broker.metrics)
            addresses["Kafka"] = self._kafka.address
            await self._kafka.start()
        return self._report(broker, found, addresses, seconds)

    def _kafka_door(self, broker: Broker) -> Dispatcher:
        names = TopicNames(broker.topics)
        storage = Storage(broker.topics, broker.cleaner, broker.space, str(self._data_dir.path.resolve()))
        table = handlers(
            ClusterHandler(broker.topics, names, broker.identity.cluster_id, self._settings.kafka.advertised),
            ProduceHandler(broker.publish, names),
            FetchHandler(broker.fetching, broker.topics, names),
            GroupHandler(broker.groups, names),
            OffsetHandler(broker.groups, broker.topics, names),
            AdminHandler(broker.topics, storage, names),
            ConfigHandler(broker.topics, self._settings),
            ProducerHandler(broker.producer_ids, broker.topics),
        )
        return Dispatcher(table, broker.metrics)

    def _rest_app(self, broker: Broker):  # type: ignore[no-untyped-def]
        bodies = Bodies(self._settings.rest)
        messages = MessageRoutes(
            broker.publish, broker.browsing, broker.health, broker.metrics, bodies, self._settings.rest
        )
        reset = ResetOffsets(broker.groups, broker.browsing)
        groups = GroupRoutes(broker.groups, broker.consuming, reset, bodies, self._settings.rest.poll_ms_max)
        page = MetricsPage(broker.metrics.registry)
        operations = [
            *TopicRoutes(broker.topics, bodies).operations(),
            *messages.operations(),
            *groups.operations(),
            *NodeRoutes(broker.health, page, self._threads).operations(),
        ]
        return build_app(operations, broker.metrics, self._pages)

    def _report(self, broker: Broker, found: list[Recovered], addresses: dict[str, str], seconds: float) -> Started:
        stats = broker.health.stats()
        return Started(
            __version__,
            str(self._data_dir.path.resolve()),
            addresses,
            self._settings.log.fsync,
            stats.topics,
            stats.partitions,
            stats.messages,
            sum(one.bytes_checked for one in found),
            sum(one.bytes_cut for one in found),
            sum(one.damaged_ranges for one in found),
            seconds,
        )

    async def stop(self) -> None:
        """Drains, syncs, closes. Safe to call once after `start`."""
        if self._broker is not None:
            self._broker.stop_waiting()
        if self._kafka is not None:
            await self._kafka.stop(self._settings.rest.drain_ms)
        if self._rest is not None:
            await self._rest.stop()
        if self._broker is not None:
            await self._broker.stop()
        self._threads.close()
        self._data_dir.release()


def _group_settings(settings: Settings) -> GroupSettings:
    chosen = settings.groups
    return GroupSettings(
        session_ms_min=chosen.session_ms_min,
        session_ms_max=chosen.session_ms_max,
        session_ms=chosen.session_ms,
        heartbeat_ms=chosen.heartbeat_ms,
        initial_rebalance_delay_ms=chosen.initial_rebalance_delay_ms,
        group_members_max=chosen.members_max,
        offsets_retention_ms=chosen.offsets_retention_ms,
    )


def _allow_many_files() -> None:
    """Every partition holds its active segment open; the usual soft limit of 1,024 is not enough for a thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
