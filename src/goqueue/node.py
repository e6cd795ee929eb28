"""The root: the one place that builds and wires things, starts them in order and stops them in reverse."""

from __future__ import annotations

import logging
import resource
import socket
import time
from pathlib import Path
from typing import TypeVar

import msgspec

from goqueue import __version__
from goqueue.base.access import Access
from goqueue.base.clock import SystemClock
from goqueue.base.descriptors import DescriptorPlan, share_out
from goqueue.base.entropy import SystemEntropy
from goqueue.base.limits import DESCRIPTORS_SPARE, SHARE_SESSIONS_MAX
from goqueue.base.settings import Settings, parse_address
from goqueue.broker import Broker
from goqueue.drive.cluster_member import ClusterPorts
from goqueue.drive.offload import Threads
from goqueue.edge.doors import Address, DoorAddresses
from goqueue.edge.http.connections import Connections
from goqueue.edge.http.gate import Gate
from goqueue.edge.http.server import HttpServer, listen
from goqueue.edge.kafka.acls import AclHandler
from goqueue.edge.kafka.admin import AdminHandler
from goqueue.edge.kafka.brokers import KafkaBrokers
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.cluster import ClusterHandler
from goqueue.edge.kafka.config_broker import BrokerConfigs
from goqueue.edge.kafka.config_groups import GroupConfigs
from goqueue.edge.kafka.config_loggers import LoggerConfigs
from goqueue.edge.kafka.config_topics import TopicConfigs
from goqueue.edge.kafka.configs import ConfigHandler
from goqueue.edge.kafka.dispatch import Dispatcher
from goqueue.edge.kafka.door import handlers
from goqueue.edge.kafka.fetch import FetchHandler
from goqueue.edge.kafka.fetch_sessions import FetchSessions
from goqueue.edge.kafka.groups import GroupHandler
from goqueue.edge.kafka.listener import KafkaListener
from goqueue.edge.kafka.lookups import LookupHandler
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.offsets import OffsetHandler
from goqueue.edge.kafka.operations import Rights
from goqueue.edge.kafka.produce import ProduceHandler
from goqueue.edge.kafka.producers import ProducerHandler
from goqueue.edge.kafka.reassignments import ReassignmentHandler
from goqueue.edge.kafka.share_fetch import ShareFetchHandler
from goqueue.edge.kafka.share_groups import ShareGroupHandler
from goqueue.edge.kafka.share_sessions import ShareSessions
from goqueue.edge.kafka.transactions import TransactionHandler
from goqueue.edge.kafka.txn_produce import TransactionalProduce
from goqueue.edge.peers.joining import ClusterDoor
from goqueue.edge.rest.acls import AclRoutes
from goqueue.edge.rest.answers import AnswerRoutes
from goqueue.edge.rest.app import Pages, build_app
from goqueue.edge.rest.cluster import ClusterRoutes
from goqueue.edge.rest.dead_letters import DeadLetterRoutes
from goqueue.edge.rest.delayed import DelayedRoutes
from goqueue.edge.rest.doors import DoorRoutes
from goqueue.edge.rest.entrance import RestEntrance
from goqueue.edge.rest.errors import rendered as rest_rendered
from goqueue.edge.rest.groups import GroupRoutes
from goqueue.edge.rest.messages import MessageRoutes
from goqueue.edge.rest.node_routes import NodeRoutes
from goqueue.edge.rest.queue_stats import QueueStatsRoutes
from goqueue.edge.rest.reassignment import ReassignmentRoutes
from goqueue.edge.rest.requests import Bodies
from goqueue.edge.rest.schema_settings import SchemaSettingsRoutes
from goqueue.edge.rest.schemas import SchemaRoutes
from goqueue.edge.rest.staged import StagedRoutes
from goqueue.edge.rest.topics import TopicRoutes
from goqueue.edge.rest.traces import TraceRoutes
from goqueue.edge.rest.transactions import TransactionRoutes
from goqueue.edge.slots import ConnectionSlots
from goqueue.edge.sqs.door import sqs_door
from goqueue.edge.sqs.errors import rendered as sqs_rendered
from goqueue.log.data_dir import DataDir
from goqueue.log.real_disk import RealDisk
from goqueue.log.recovery import Recovered
from goqueue.node_services import NodeServices, Ports
from goqueue.service.cluster_metrics import ClusterCollector, LeaderChanges
from goqueue.service.cluster_view import ClusterView
from goqueue.service.front import Front
from goqueue.service.metrics import GroupCollector, MetricsPage, StorageCollector
from goqueue.service.queue_metrics import QueueCollector
from goqueue.service.reassignment import Reassignments
from goqueue.service.storage import Storage

logger = logging.getLogger(__name__)
S = TypeVar("S")


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
    bytes_replayed: int
    damaged_ranges: int
    damaged_entries: int
    seconds: float


class Node:
    """A broker on the machine's disk, with its doors open."""

    def __init__(self, settings: Settings, pages: Pages | None = None, access: Access | None = None) -> None:
        self._settings = settings
        self._pages = pages or {}
        self._access = access  # asked instead of the rules in the metadata
        self._data_dir = DataDir(Path(settings.data.dir))
        self._threads = Threads()
        self._disk: RealDisk | None = None
        self._broker: Broker | None = None
        self._rest: HttpServer | None = None
        self._kafka: KafkaListener | None = None
        self._sqs: HttpServer | None = None
        self._cluster_door: ClusterDoor | None = None

    async def start(self) -> Started:
        """Raises a `Startup` error with nothing left behind, or serves."""
        began = time.perf_counter()
        plan = share_out(_allow_many_files(), _open_files())
        self._data_dir.acquire()
        try:
            return await self._start(began, plan)
        except BaseException:
            if self._rest is not None:
                await self._rest.stop()
            self._data_dir.release()
            raise

    async def _start(self, began: float, plan: DescriptorPlan) -> Started:
        slots = ConnectionSlots(plan.connections)
        rest = parse_address(self._settings.rest.listen)
        kafka = parse_address(self._settings.kafka.listen)
        rest_socket = listen(*rest, "rest.listen") if rest else None
        kafka_socket = listen(*kafka, "kafka.listen") if kafka else None
        sqs = parse_address(self._settings.sqs.listen)
        sqs_socket = listen(*sqs, "sqs.listen") if sqs else None
        doors = DoorAddresses(
            _address_of(rest_socket),
            _address_of(kafka_socket),
            _address_of(sqs_socket),
            self._settings.kafka.advertised,
        )
        disk = self._disk = RealDisk(self._data_dir.path, DESCRIPTORS_SPARE)
        index = str(self._data_dir.path / "schedule.sqlite")
        ports = Ports(disk, self._threads, SystemClock(), SystemEntropy())
        traces = str(self._data_dir.path / "traces")
        services = NodeServices(self._settings, ports, traces, plan, self._access, await self._cluster_ports(doors))
        self._broker = broker = Broker(services, index)
        leader_changes = LeaderChanges(services.metadata.image)
        services.follow_metadata(leader_changes.metadata_changed)
        door = self._settings.rest
        rest_connections = Connections("rest", door, door.body_bytes_max, broker.metrics, slots) if rest else None
        entrance = await self._entrance(rest_socket, rest_connections)
        found = await broker.start()
        seconds = time.perf_counter() - began
        collector = StorageCollector(broker.table, broker.storage_stats, broker.space, seconds)
        broker.metrics.registry.register(collector)
        broker.metrics.registry.register(GroupCollector(broker.groups))
        addresses = {"REST": "off", "Kafka": "off", "SQS": "off"}
        if rest_socket is not None and rest_connections is not None:
            gate = Gate(door.allowed_hosts, rest[0] if rest else "", "rest.allowed_hosts")
            cluster = self._cluster_view(broker, doors)
            app = self._rest_app(broker, doors, (cluster, leader_changes), gate, rest_connections)
            if entrance is not None:
                entrance.open(app)
            else:
                self._rest = HttpServer(app, rest_socket, door.drain_ms, rest_connections, rest_rendered)
                await self._rest.start()
            assert self._rest is not None
            addresses["REST"] = f"http://{self._rest.address}"
        if kafka_socket is not None:
            budget = Budget(self._settings.kafka.buffered_bytes_max)
            dispatcher = self._kafka_door(broker, doors, budget)
            self._kafka = KafkaListener(dispatcher, kafka_socket, self._settings.kafka, broker.metrics, budget, slots)
            addresses["Kafka"] = self._kafka.address
            await self._kafka.start()
        if sqs_socket is not None:
            settings = self._settings.sqs
            connections = Connections("sqs", settings, settings.body_bytes_max, broker.metrics, slots)
            gate = Gate(settings.allowed_hosts, sqs[0] if sqs else "", "sqs.allowed_hosts")
            app = sqs_door(settings, broker, services.access, gate, connections)
            self._sqs = HttpServer(app, sqs_socket, self._settings.rest.drain_ms, connections, sqs_rendered)
            addresses["SQS"] = f"http://{self._sqs.address}"
            await self._sqs.start()
        return self._report(broker, found, addresses, seconds)

    async def _entrance(self, sock: socket.socket | None, connections: Connections | None) -> RestEntrance | None:
        """Of a node in a cluster: whoever waits for other nodes is alive."""
        if sock is None or connections is None or not self._settings.cluster.store:
            return None
        entrance = RestEntrance()
        self._rest = HttpServer(entrance, sock, self._settings.rest.drain_ms, connections, rest_rendered)
        await self._rest.start()
        return entrance

    async def _cluster_ports(self, doors: DoorAddresses) -> ClusterPorts | None:
        """None if the node is alone."""
        if not self._settings.cluster.store:
            return None
        self._cluster_door = ClusterDoor(self._settings.cluster)
        return await self._cluster_door.open(doors.told())

    def _kafka_door(self, broker: Broker, doors: DoorAddresses, budget: Budget) -> Dispatcher:
        names = TopicNames(broker.topics)
        evicted = broker.metrics.kafka_fetch_sessions_evicted.inc
        sessions = FetchSessions(self._settings.kafka.fetch_sessions_max, broker.entropy, evicted)
        broker.metrics.kafka_fetch_sessions.set_function(lambda: len(sessions))
        storage = Storage(broker.topics, broker.cleaner, broker.space, str(self._data_dir.path.resolve()))
        access = broker.node.access
        rights = Rights(access)

        def front(service: S) -> Front[S]:
            return Front(service, access)

        topics, groups, transactions = front(broker.topics), front(broker.groups), front(broker.transactions)
        anywhere = self._routed(broker, broker.transactions)
        node_config = front(broker.node_config)
        brokers = KafkaBrokers(broker.metadata.image, broker.node.shard_map, self._settings.kafka.advertised)
        table = handlers(
            ClusterHandler(topics, names, brokers, broker.node.identity.cluster_id, rights),
            TransactionalProduce(
                ProduceHandler(front(broker.publish), names, brokers), anywhere, topics, names, rights
            ),
            FetchHandler(front(broker.fetching), names, budget, sessions, time.monotonic, brokers),
            LookupHandler(topics),
            GroupHandler(groups, names, rights),
            OffsetHandler(groups, topics, names, transactions, rights, broker.unstable_anywhere),
            AdminHandler(topics, front(storage), names, brokers),
            ConfigHandler(
                TopicConfigs(topics, node_config, rights),
                BrokerConfigs(topics, self._settings, doors, node_config, rights),
                GroupConfigs(groups, None if broker.routing is None else self._routed(broker, broker.groups)),
                LoggerConfigs(node_config, broker.node.identity.node_id, rights),
            ),
            ProducerHandler(front(broker.producer_ids), transactions, topics, rights),
            TransactionHandler(transactions, topics, rights, anywhere),
            ShareGroupHandler(groups, front(broker.share_offsets), names, rights),
            ShareFetchHandler(
                front(broker.sharing), topics, names, ShareSessions(SHARE_SESSIONS_MAX), budget, time.monotonic
            ),
            AclHandler(front(broker.acls)),
            ReassignmentHandler(front(self._reassignments(broker, self._cluster_view(broker, doors))), topics),
        )
        return Dispatcher(table, broker.metrics, self._threads)

    def _routed(self, broker: Broker, service: S) -> Front[S]:
        """Of whichever node keeps what is asked for."""
        return Front(service, broker.node.access, broker.routed(service))

    def _cluster_view(self, broker: Broker, doors: DoorAddresses) -> ClusterView:
        return ClusterView(
            broker.metadata.image,
            broker.node.identity.node_id,
            self._settings.cluster.min_insync_default,
            doors.all("127.0.0.1"),
            broker.lags,
            is_alone=not self._settings.cluster.store,
        )

    def _reassignments(self, broker: Broker, view: ClusterView) -> Reassignments:
        sizes = broker.routed(broker.shard_sizes)
        return Reassignments(broker.metadata, view, sizes, is_alone=not self._settings.cluster.store)

    def _rest_app(  # type: ignore[no-untyped-def]
        self,
        broker: Broker,
        doors: DoorAddresses,
        cluster: tuple[ClusterView, LeaderChanges],
        gate: Gate,
        connections: Connections,
    ):
        bodies = Bodies(self._settings.rest, broker.metrics.http_body_bytes.labels("rest"))

        def front(service: S) -> Front[S]:
            return self._routed(broker, service)

        health, transactions = front(broker.health), front(broker.transactions)
        messages = MessageRoutes(
            front(broker.publish), front(broker.browsing), health, broker.metrics, bodies, self._settings.rest
        )
        reset, poll_ms_max = front(broker.reset), self._settings.rest.poll_ms_max
        groups = GroupRoutes(front(broker.groups), front(broker.consuming), reset, bodies, poll_ms_max)
        transaction_routes = TransactionRoutes(
            transactions, front(broker.txn_publish), bodies, self._settings.transactions, broker.entropy
        )
        queues, shards = QueueCollector(broker.queue_stats), ClusterCollector(*cluster)
        broker.metrics.registry.register(queues)
        broker.metrics.registry.register(shards)
        page = MetricsPage(broker.metrics.registry, (queues.look, shards.look))
        operations = [
            *TopicRoutes(front(broker.topics), bodies).operations(),
            *messages.operations(),
            *DelayedRoutes(front(broker.scheduling)).operations(),
            *groups.operations(),
            *AnswerRoutes(front(broker.leasing), bodies).operations(),
            *transaction_routes.operations(),
            *StagedRoutes(front(broker.staged), transactions, bodies).operations(),
            *DeadLetterRoutes(front(broker.letters), front(broker.redrives), bodies).operations(),
            *QueueStatsRoutes(front(broker.queue_stats)).operations(),
            *TraceRoutes(front(broker.traces)).operations(),
            *SchemaRoutes(front(broker.schemas), bodies).operations(),
            *SchemaSettingsRoutes(front(broker.schemas), bodies).operations(),
            *AclRoutes(front(broker.acls), bodies).operations(),
            *ClusterRoutes(front(cluster[0])).operations(),
            *ReassignmentRoutes(front(self._reassignments(broker, cluster[0])), bodies).operations(),
            *NodeRoutes(health, front(page), self._threads).operations(),
            *DoorRoutes(doors).operations(),
        ]
        return build_app(operations, broker.metrics, self._pages, gate, connections)

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
            sum(one.bytes_replayed for one in found),
            sum(one.damaged_ranges for one in found),
            broker.node.replay.damaged,
            seconds,
        )

    async def stop(self) -> None:
        """Drains, syncs, closes. Safe to call once after `start`."""
        if self._broker is not None and self._broker.node.member is not None:
            await self._broker.node.member.hand_over()
        if self._broker is not None:
            self._broker.stop_waiting()
        if self._kafka is not None:
            await self._kafka.stop(self._settings.rest.drain_ms)
        if self._sqs is not None:
            await self._sqs.stop()
        if self._rest is not None:
            await self._rest.stop()
        if self._broker is not None:
            await self._broker.stop()
        if self._cluster_door is not None:
            await self._cluster_door.close()
        self._threads.close()
        if self._disk is not None:
            self._disk.close()
        self._data_dir.release()


def _address_of(sock: socket.socket | None) -> Address | None:
    return None if sock is None else sock.getsockname()[:2]


def _allow_many_files() -> int:
    """The usual soft limit of 1,024 is not enough for many partitions and connections; returns what is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems say "infinity" and mean less
        hard = soft
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def _open_files() -> int:
    try:
        return len(list(Path("/proc/self/fd").iterdir()))
    except OSError:
        return 64
