"""The root: the one place that builds and wires things, starts them in order and stops them in reverse."""

from __future__ import annotations

import logging
import resource
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from goqueue import __version__
from goqueue.base.access import Access
from goqueue.base.clock import SystemClock
from goqueue.base.descriptors import DescriptorPlan, share_out
from goqueue.base.entropy import SystemEntropy
from goqueue.base.limits import DESCRIPTORS_SPARE
from goqueue.base.settings import Settings, parse_address
from goqueue.base.started import Started
from goqueue.broker import Broker
from goqueue.drive.cluster_member import ClusterMember, ClusterPorts
from goqueue.drive.fair_turns import FairTurns
from goqueue.drive.offload import Threads
from goqueue.edge.doors import KAFKA, KAFKA_EXTERNAL, Address, DoorAddresses
from goqueue.edge.grpc.opening import GrpcDoor
from goqueue.edge.http.connections import Connections
from goqueue.edge.http.gate import Gate
from goqueue.edge.http.guard import DoorGuard
from goqueue.edge.http.server import HttpServer
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
from goqueue.edge.kafka.leader_elections import LeaderElectionHandler
from goqueue.edge.kafka.listener import KafkaListener
from goqueue.edge.kafka.lookups import LookupHandler
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.offsets import OffsetHandler
from goqueue.edge.kafka.operations import Rights
from goqueue.edge.kafka.produce import ProduceHandler
from goqueue.edge.kafka.producers import ProducerHandler
from goqueue.edge.kafka.quotas import QuotaHandler
from goqueue.edge.kafka.reassignments import ReassignmentHandler
from goqueue.edge.kafka.scram_users import ScramUserHandler
from goqueue.edge.kafka.share_groups import ShareGroupHandler
from goqueue.edge.kafka.share_hints import share_fetching
from goqueue.edge.kafka.transactions import TransactionHandler
from goqueue.edge.kafka.txn_produce import TransactionalProduce
from goqueue.edge.listening import listen
from goqueue.edge.peers.joining import ClusterDoor
from goqueue.edge.rest.app import Pages, build_app
from goqueue.edge.rest.entrance import RestEntrance
from goqueue.edge.rest.errors import rendered as rest_rendered
from goqueue.edge.security.node_security import NodeLogins, NodeTls
from goqueue.edge.security.tls import Handshakes
from goqueue.edge.slots import ConnectionSlots
from goqueue.edge.sqs.door import sqs_door
from goqueue.edge.sqs.errors import rendered as sqs_rendered
from goqueue.log.data_dir import DataDir
from goqueue.log.real_disk import RealDisk
from goqueue.log.recovery import Recovered
from goqueue.node_metrics import NodeMetrics
from goqueue.node_services import NodeServices, Ports
from goqueue.rest_door import RestDoor
from goqueue.service.authentication import Authentication
from goqueue.service.auto_balance import AutoBalance
from goqueue.service.backups import BackupPorts, Backups
from goqueue.service.cluster_backups import ClusterBackups
from goqueue.service.cluster_metrics import LeaderChanges
from goqueue.service.cluster_view import ClusterView
from goqueue.service.front import Front
from goqueue.service.reassignment import Reassignments
from goqueue.service.storage import Storage

logger = logging.getLogger(__name__)
S = TypeVar("S")
_MOVE_S: Final = 1.0  # for Kafka's clients to hear who leads, before a node of a cluster closes its door


class Together(NamedTuple):
    """A process of several of a machine: it shares the ports of its doors with others. Its data directory may be held
    for it by the one that looks after them."""

    holds_data_dir: bool


class Node:
    """A broker on the machine's disk, with its doors open."""

    def __init__(
        self,
        settings: Settings,
        pages: Pages | None = None,
        access: Access | None = None,
        together: Together | None = None,
    ) -> None:
        self._settings = settings
        self._together = together
        self._pages = pages or {}
        self._access = access  # asked instead of the rules in the metadata
        self._data_dir = DataDir(Path(settings.data.dir))
        self._threads = Threads()
        self._disk: RealDisk | None = None
        self._broker: Broker | None = None
        self._rest: HttpServer | None = None
        self._kafka: KafkaListener | None = None
        self._sqs: HttpServer | None = None
        self._grpc = GrpcDoor(settings)
        self._cluster_door: ClusterDoor | None = None
        self._tls: NodeTls | None = None
        self._who: Authentication | None = None
        self._metrics: NodeMetrics | None = None
        self._balancing: AutoBalance | None = None
        self._backups: Backups | None = None

    async def start(self) -> Started:
        """Raises a `Startup` error with nothing left behind, or serves."""
        began = time.perf_counter()
        plan = share_out(_allow_many_files(), _open_files())
        if self._together is None or not self._together.holds_data_dir:
            self._data_dir.acquire()
        try:
            return await self._start(began, plan)
        except BaseException:
            if self._rest is not None:
                await self._rest.stop()
            await self._grpc.stop()
            self._data_dir.release()
            raise

    async def _start(self, began: float, plan: DescriptorPlan) -> Started:
        slots = ConnectionSlots(plan.connections)
        tls = self._tls = NodeTls(self._settings)
        rest = parse_address(self._settings.rest.listen)
        kafka = parse_address(self._settings.kafka.listen)
        rest_socket, kafka_socket = self._bound("rest", rest), self._bound("kafka", kafka)
        external_socket = self._bound("kafka", parse_address(self._settings.kafka.external_listen), "external_listen")
        sqs = parse_address(self._settings.sqs.listen)
        sqs_socket = self._bound("sqs", sqs)
        doors = DoorAddresses(
            _address_of(rest_socket),
            _address_of(kafka_socket),
            _address_of(sqs_socket),
            self._settings.kafka.advertised,
            tls.doors,
            self._grpc.bind(tls.context("grpc"), is_shared=self._together is not None),
            _address_of(external_socket),
            self._settings.kafka.external_advertised,
            self._settings.node.host,
        )
        disk = self._disk = RealDisk(self._data_dir.path, DESCRIPTORS_SPARE)
        index = str(self._data_dir.path / "schedule.sqlite")
        ports = Ports(disk, self._threads, SystemClock(), SystemEntropy())
        traces = str(self._data_dir.path / "traces")
        services = NodeServices(self._settings, ports, traces, plan, self._access, await self._cluster_ports(doors))
        self._broker = broker = Broker(services, index)
        who = self._who = services.authentication
        logins = NodeLogins(who, FairTurns(broker.metrics.waited_for_turn))
        refused = broker.metrics.http_refused.labels
        leader_changes = LeaderChanges(services.metadata.image)
        services.follow_metadata(leader_changes.metadata_changed)
        door = self._settings.rest
        rest_connections = Connections("rest", door, door.body_bytes_max, broker.metrics, slots)
        rest_tls = tls.handshakes("rest", lambda why: refused("rest", why).inc())
        entrance = await self._entrance(rest_socket, rest_connections, rest_tls)
        found = await broker.start()
        await who.start()
        tls.start()
        seconds = time.perf_counter() - began
        self._metrics = NodeMetrics(broker, tls.expiries, seconds, self._data_dir.path)
        await self._metrics.start()
        addresses = {"REST": "off", "Kafka": "off", "SQS": "off", "gRPC": self._grpc.shown}
        gate = Gate(door.allowed_hosts, rest[0] if rest else "", "rest.allowed_hosts")
        cluster = self._cluster_view(broker, doors)
        guard = DoorGuard(gate, rest_connections, logins.rest())
        made = RestDoor(broker, self._settings, self._threads)
        page = self._metrics.page(cluster, leader_changes)
        moves = self._reassignments(broker, cluster)
        held = BackupPorts(self._threads, services.clock, services.entropy)
        self._backups = Backups(self._data_dir.path, broker.cleaner, services.own_metadata, held)
        await self._backups.start()
        if broker.routing is not None:
            is_machine = self._together is not None
            every = ClusterBackups(
                broker.routing.router, self._backups, services.metadata, services.entropy, is_machine
            )
            broker.routing.backups(every)
        operations = made.operations(doors, cluster, page, moves, self._metrics.history, self._backups)
        app = build_app(operations, broker.metrics, self._pages, guard, broker.client_quotas)
        over_grpc = app.behind(DoorGuard(gate, rest_connections, logins.grpc()))
        if rest_socket is not None:
            if entrance is not None:
                entrance.open(app)
            else:
                self._rest = HttpServer(app, rest_socket, door.drain_ms, rest_connections, rest_rendered, rest_tls)
                await self._rest.start()
            assert self._rest is not None
            addresses["REST"] = self._rest.url
        if kafka_socket is not None:
            budget = Budget(self._settings.kafka.buffered_bytes_max)
            kafka_tls = tls.handshakes("kafka", lambda why: broker.metrics.kafka_connections_refused.labels(why).inc())
            way_in = logins.kafka(self._kafka_door(broker, doors, budget), kafka_tls)
            sockets = {KAFKA: kafka_socket} | ({} if external_socket is None else {KAFKA_EXTERNAL: external_socket})
            self._kafka = KafkaListener(way_in, sockets, self._settings.kafka, broker.metrics, budget, slots)
            addresses["Kafka"] = self._kafka.address(KAFKA)
            if external_socket is not None:
                addresses["external"] = self._kafka.address(KAFKA_EXTERNAL)
            await self._kafka.start()
        if sqs_socket is not None:
            settings = self._settings.sqs
            connections = Connections("sqs", settings, settings.body_bytes_max, broker.metrics, slots)
            gate = Gate(settings.allowed_hosts, sqs[0] if sqs else "", "sqs.allowed_hosts")
            queues = sqs_door(settings, broker, services.access, DoorGuard(gate, connections, logins.sqs()))
            sqs_tls = tls.handshakes("sqs", lambda why: refused("sqs", why).inc())
            self._sqs = HttpServer(queues, sqs_socket, self._settings.rest.drain_ms, connections, sqs_rendered, sqs_tls)
            addresses["SQS"] = self._sqs.url
            await self._sqs.start()
        await self._grpc.start(broker, services.access, cluster, logins.grpc(), over_grpc)
        self._balancing = self._auto_balance(broker, self._reassignments(broker, cluster))
        self._balancing.start()
        return self._report(broker, found, addresses, seconds)

    def _bound(self, door: str, address: Address | None, setting: str = "listen") -> socket.socket | None:
        return None if address is None else listen(*address, f"{door}.{setting}", is_shared=self._together is not None)

    async def _entrance(
        self, sock: socket.socket | None, connections: Connections, tls: Handshakes | None
    ) -> RestEntrance | None:
        """Of a node in a cluster: whoever waits for other nodes is alive. Where processes share a door, those
        answer that serve already."""
        if sock is None or not self._settings.cluster.store or self._together is not None:
            return None
        entrance = RestEntrance()
        self._rest = HttpServer(entrance, sock, self._settings.rest.drain_ms, connections, rest_rendered, tls)
        await self._rest.start()
        return entrance

    async def _cluster_ports(self, doors: DoorAddresses) -> ClusterPorts | None:
        """None if the node is alone."""
        if not self._settings.cluster.store:
            return None
        self._cluster_door = ClusterDoor(self._settings.cluster, self._settings.node.id)
        return await self._cluster_door.open(doors.told(is_one_machine=self._together is not None))

    def _kafka_door(self, broker: Broker, doors: DoorAddresses, budget: Budget) -> Dispatcher:
        names = TopicNames(broker.topics)
        evicted = broker.metrics.kafka_fetch_sessions_evicted.inc
        sessions = FetchSessions(self._settings.kafka.fetch_sessions_max, broker.entropy, evicted)
        broker.metrics.kafka_fetch_sessions.set_function(lambda: len(sessions))
        storage = Storage(broker.topics, broker.cleaner, broker.space, str(self._data_dir.path.resolve()))
        access, rights = broker.node.access, Rights(broker.node.access)

        def front(service: S) -> Front[S]:
            return Front(service, access)

        topics, groups, transactions = front(broker.topics), front(broker.groups), front(broker.transactions)
        anywhere = self._routed(broker, broker.transactions)
        node_config = front(broker.node_config)
        brokers = KafkaBrokers(broker.metadata.image, broker.node.shard_map, self._settings.kafka)
        moves = front(self._reassignments(broker, self._cluster_view(broker, doors)))
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
            share_fetching(front(broker.sharing), topics, names, budget, brokers),
            AclHandler(front(broker.acls)),
            QuotaHandler(front(broker.quotas)),
            ReassignmentHandler(moves, topics),
            ScramUserHandler(front(broker.node.authentication.credentials)),
            LeaderElectionHandler(moves, topics),
        )
        return Dispatcher(table, broker.metrics, self._threads, broker.client_quotas)

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
        cluster = self._settings.cluster
        return Reassignments(broker.metadata, view, sizes, not cluster.store, cluster.unclean_leader_election)

    def _auto_balance(self, broker: Broker, moves: Reassignments) -> AutoBalance:
        image, sizes = broker.metadata.image, broker.routed(broker.shard_sizes)
        return AutoBalance(self._settings.cluster, broker.node.identity.node_id, image, sizes, moves)

    def _report(self, broker: Broker, found: list[Recovered], addresses: dict[str, str], seconds: float) -> Started:
        stats = broker.health.stats()
        return Started(
            __version__,
            str(self._data_dir.path.resolve()),
            addresses,
            self._settings.log.fsync,
            stats.topics,
            stats.partitions,
            None if self._settings.cluster.store else stats.messages,  # the others say how many are acknowledged
            sum(one.bytes_checked for one in found),
            sum(one.bytes_cut for one in found),
            sum(one.bytes_replayed for one in found),
            sum(one.damaged_ranges for one in found),
            broker.node.replay.damaged,
            seconds,
        )

    def reload(self) -> None:
        """Takes over certificates that were changed, at once."""
        if self._tls is not None:
            self._tls.reload()

    async def stop(self) -> None:
        """Drains, syncs, closes. Safe to call once after `start`."""
        if self._balancing is not None:
            await self._balancing.stop()
        if self._broker is not None and self._broker.node.member is not None:
            await self._hand_over(self._broker.node.member)
        if self._broker is not None:
            self._broker.stop_waiting()
        if self._kafka is not None:
            await self._kafka.stop(self._settings.rest.drain_ms)
        await self._grpc.stop()
        if self._sqs is not None:
            await self._sqs.stop()
        if self._rest is not None:
            await self._rest.stop()
        if self._backups is not None:
            await self._backups.stop()
        if self._metrics is not None:
            await self._metrics.stop()
        if self._who is not None:
            await self._who.stop()
        if self._tls is not None:
            await self._tls.stop()
        if self._broker is not None:
            await self._broker.stop()
        if self._cluster_door is not None:
            await self._cluster_door.close()
        self._threads.close()
        if self._disk is not None:
            self._disk.close()
        self._data_dir.release()

    async def _hand_over(self, member: ClusterMember) -> None:
        """Others lead, nobody waits for this node, and clients know: then it may take its time."""
        await member.hand_over()
        await member.step_aside()
        if self._kafka is not None and member.others():
            await self._kafka.let_move(_MOVE_S)


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
