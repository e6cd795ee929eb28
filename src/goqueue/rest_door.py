"""The operations of the REST door, made from a broker's verbs."""

from __future__ import annotations

from typing import TypeVar, cast

from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.drive.offload import Threads
from goqueue.edge.doors import DoorAddresses
from goqueue.edge.rest.acls import AclRoutes
from goqueue.edge.rest.answers import AnswerRoutes
from goqueue.edge.rest.backups import BackupRoutes
from goqueue.edge.rest.cluster import ClusterRoutes
from goqueue.edge.rest.console_routes import ConsoleRoutes, LoginRules
from goqueue.edge.rest.credentials import CredentialRoutes
from goqueue.edge.rest.dead_letters import DeadLetterRoutes
from goqueue.edge.rest.decoding import SchemaDecoding
from goqueue.edge.rest.delayed import DelayedRoutes
from goqueue.edge.rest.doors import DoorRoutes
from goqueue.edge.rest.groups import GroupRoutes
from goqueue.edge.rest.messages import MessageRoutes
from goqueue.edge.rest.node_routes import NodeRoutes
from goqueue.edge.rest.operations import RestOperation
from goqueue.edge.rest.queue_looks import QueueLookRoutes
from goqueue.edge.rest.queue_stats import QueueStatsRoutes
from goqueue.edge.rest.quotas import QuotaRoutes
from goqueue.edge.rest.reassignment import ReassignmentRoutes
from goqueue.edge.rest.requests import Bodies
from goqueue.edge.rest.schema_settings import SchemaSettingsRoutes
from goqueue.edge.rest.schemas import SchemaRoutes
from goqueue.edge.rest.search import SearchRoutes
from goqueue.edge.rest.staged import StagedRoutes
from goqueue.edge.rest.tenants import TenantRoutes
from goqueue.edge.rest.topics import TopicRoutes
from goqueue.edge.rest.traces import TraceRoutes
from goqueue.edge.rest.transactions import TransactionRoutes
from goqueue.service.backups import Backups
from goqueue.service.cluster_view import ClusterView
from goqueue.service.departure import Departure
from goqueue.service.front import Front
from goqueue.service.health import Health
from goqueue.service.history import NodeHistory
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.process_numbers import AllProcesses, ProcessNumbers
from goqueue.service.reassignment import Reassignments
from goqueue.service.routing import Routed
from goqueue.service.tenants import Tenants

S = TypeVar("S")


class RestDoor:
    def __init__(self, broker: Broker, settings: Settings, threads: Threads) -> None:
        self._broker = broker
        self._settings = settings
        self._threads = threads
        self._bodies = Bodies(settings.rest, broker.metrics.http_body_bytes.labels("rest"))

    def _front(self, service: S) -> Front[S]:
        """Of whichever node keeps what is asked for."""
        return Front(service, self._broker.node.access, self._broker.routed(service))

    def operations(
        self,
        doors: DoorAddresses,
        cluster: ClusterView,
        page: MetricsPage,
        moves: Reassignments,
        history: NodeHistory,
        backups: Backups,
    ) -> list[RestOperation]:
        broker, bodies, front = self._broker, self._bodies, self._front
        departure = Departure(broker.node.identity.node_id, broker.node.member, moves)
        decoding = SchemaDecoding(front(broker.schemas), bodies, self._threads)
        return [
            *self._of_messages(),
            *SearchRoutes(front(broker.browsing), decoding).operations(),
            *QueueStatsRoutes(front(broker.queue_stats)).operations(),
            *QueueLookRoutes(front(broker.queue_stats)).operations(),
            *TraceRoutes(front(broker.traces)).operations(),
            *SchemaRoutes(front(broker.schemas), bodies).operations(),
            *decoding.operations(),
            *SchemaSettingsRoutes(front(broker.schemas), bodies).operations(),
            *AclRoutes(front(broker.acls), bodies).operations(),
            *QuotaRoutes(front(broker.quotas), bodies).operations(),
            *ClusterRoutes(front(cluster)).operations(),
            *ReassignmentRoutes(front(moves), front(departure), bodies).operations(),
            *BackupRoutes(front(backups), bodies).operations(),
            *TenantRoutes(front(_tenants(broker)), bodies).operations(),
            *CredentialRoutes(front(broker.node.authentication.credentials), bodies).operations(),
            *NodeRoutes(*self._numbers(page)).operations(),
            *ConsoleRoutes(front(history), front(broker.audit_trail), self._login_rules()).operations(),
            *DoorRoutes(doors).operations(),
        ]

    def _login_rules(self) -> LoginRules:
        broker = self._broker
        number = None if broker.routing is None else broker.routing.router.shards.node
        return LoginRules(self._settings.security.is_on, broker.node.access_control.is_on, number)

    def _numbers(self, page: MetricsPage) -> tuple[Front[Health], Front[MetricsPage]]:
        """Of all processes of this machine, if there are several."""
        broker, access = self._broker, self._broker.node.access
        if not broker.metadata.image.processes or broker.routing is None:
            return self._front(broker.health), self._front(page)
        own = ProcessNumbers(broker.health, page)
        every = AllProcesses(broker.routing.router, broker.metadata.image, own, self._threads)
        health = cast(Health, Routed(broker.health, {"stats": every.stats}))
        return Front(broker.health, access, health), Front(page, access, cast(MetricsPage, every))

    def _of_messages(self) -> list[RestOperation]:
        broker, bodies, front, settings = self._broker, self._bodies, self._front, self._settings
        health, transactions = front(broker.health), front(broker.transactions)
        messages = MessageRoutes(
            front(broker.publish), front(broker.browsing), health, broker.metrics, bodies, settings.rest
        )
        reset, poll_ms_max = front(broker.reset), settings.rest.poll_ms_max
        groups = GroupRoutes(front(broker.groups), front(broker.consuming), reset, bodies, poll_ms_max)
        transaction_routes = TransactionRoutes(
            transactions, front(broker.txn_publish), bodies, settings.transactions, broker.entropy
        )
        return [
            *TopicRoutes(front(broker.topics), bodies).operations(),
            *messages.operations(),
            *DelayedRoutes(front(broker.scheduling)).operations(),
            *groups.operations(),
            *AnswerRoutes(front(broker.leasing), bodies).operations(),
            *transaction_routes.operations(),
            *StagedRoutes(front(broker.staged), transactions, bodies).operations(),
            *DeadLetterRoutes(front(broker.letters), front(broker.redrives), bodies).operations(),
        ]


def _tenants(broker: Broker) -> Tenants:
    """With services that ask all nodes."""
    routed = broker.routed
    held = routed(broker.topics), routed(broker.groups), routed(broker.transactions), broker.schemas
    return Tenants(broker.metadata, broker.clock, *held)
