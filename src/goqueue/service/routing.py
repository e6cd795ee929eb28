"""What stands for the services of a node before doors, in a cluster: each verb goes where `service/routes.py` says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from goqueue.base.ids import TopicPartition
from goqueue.service.audit_trail import AuditTrail, RoutedAudit
from goqueue.service.backups import Backups
from goqueue.service.browse import Browsing
from goqueue.service.cluster_backups import ClusterBackups, RoutedBackups
from goqueue.service.consume import Consuming
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from goqueue.service.environment import Environment
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing
from goqueue.service.member_news import MemberNews
from goqueue.service.peer_leasing import PeerLeasing
from goqueue.service.producer_slots import ProducerSlots
from goqueue.service.producers import ProducerIds
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.routed_leasing import Attempts, RoutedLeasing
from goqueue.service.routed_letters import RoutedLetters
from goqueue.service.routed_looks import RoutedScheduling, RoutedStaged, RoutedTraces, RoutedTransactions
from goqueue.service.routed_polls import RoutedPolls
from goqueue.service.routed_publish import RoutedDeduplication, RoutedPublish
from goqueue.service.routed_reads import RoutedBrowsing, RoutedGroups
from goqueue.service.routed_redrives import RoutedRedrives
from goqueue.service.routed_schemas import RoutedSchemas
from goqueue.service.routed_topics import RoutedTopics
from goqueue.service.router import Router
from goqueue.service.routes import ROUTES, AtAll, AtFirstShard, AtPartition, ById, Here, Route, Split
from goqueue.service.scheduling import Scheduling
from goqueue.service.schemas import Schemas
from goqueue.service.staged import StagedVerbs
from goqueue.service.topics import Topics
from goqueue.service.traces import Traces
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_store import RoutedTransactionStore, TransactionStore

S = TypeVar("S")
Verb = Callable[..., Any]

# What other nodes ask of a service beside the verbs that doors have.
_BETWEEN_NODES: Mapping[type, tuple[str, ...]] = {
    Backups: ("hold",),
    ClusterBackups: ("files", "read", "end"),
    Browsing: ("marks",),
    Consuming: ("answered", "shared_take"),
    Groups: ("progress",),
    Traces: ("known",),
    Redrives: ("known",),
    Schemas: ("mark", "read_to"),
    Scheduling: ("keys",),
    Topics: ("partitions", "led"),
    TransactionVerbs: ("find_name",),
    PeerLeasing: ("take", "enough", "in_flight", "ack_held", "told", "release", "begin_at_end"),
    Attempts: ("take",),
    TransactionStore: ("next_sequence", "store"),
}


class Routed:
    """Stands for a service. What is not routed is the service's own."""

    def __init__(self, service: object, verbs: Mapping[str, Verb]) -> None:
        self._service = service
        self.__dict__.update(verbs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)


class Routing:
    """One of a node. A service that is given to it can be asked by other nodes from then on."""

    def __init__(self, router: Router, topics: Topics, environment: Environment, producer_ids: ProducerIds) -> None:
        self.router = router
        self._topics = topics
        self._environment = environment
        self.news = MemberNews(router)
        browsing = RoutedBrowsing(router, topics)
        self._splits: dict[type, object] = {
            Publish: RoutedPublish(router, topics, ProducerSlots(producer_ids.next_id), environment),
            DeduplicatedPublish: RoutedDeduplication(router),
            Browsing: browsing,
            Groups: RoutedGroups(router, topics, browsing),
            Scheduling: RoutedScheduling(router),
            StagedVerbs: RoutedStaged(router),
            TransactionVerbs: RoutedTransactions(router),
            Traces: RoutedTraces(router),
            Topics: RoutedTopics(router, topics),
            Redrives: RoutedRedrives(router, topics, environment.entropy),
            AuditTrail: RoutedAudit(router),
        }
        self._made: dict[type, Routed] = {}

    def leasing(self, leasing: Leasing, told: Callable[[str], Awaitable[None]]) -> RoutedLeasing:
        """Leases at all nodes, for doors and for the members of this node's groups. `told` returns when a group knows
        what was done of it here."""
        environment = self._environment
        routed = RoutedLeasing(self.router, leasing, self._topics, environment.entropy)
        self._splits[Leasing] = routed
        self._splits[Consuming] = RoutedPolls(self.router, leasing)
        for service in (PeerLeasing(leasing, self.news, told), Attempts(routed, self._topics, environment.clock)):
            self.router.serve(service, _BETWEEN_NODES[type(service)])
        return routed

    def transaction_store(self, store: TransactionStore) -> RoutedTransactionStore:
        """Batches of transactions at all nodes."""
        self.router.serve(store, _BETWEEN_NODES[TransactionStore])
        return RoutedTransactionStore(self.router)

    def letters(self, letters: DeadLetterView) -> RoutedLetters:
        """Dead letters at all nodes."""
        routed = self._splits[DeadLetterView] = RoutedLetters(self.router, letters, self._topics)
        return routed

    def backups(self, backups: ClusterBackups) -> None:
        """Backups of all nodes."""
        self.router.serve(backups, _BETWEEN_NODES[ClusterBackups])
        self._splits[Backups] = RoutedBackups(self.router, backups)

    def serve_all(self, node: Any) -> None:
        """Every service that has a verb for other nodes, of the node's attributes; so all of them can be asked."""
        self.letters(node.letters)
        for service in vars(node).values():
            if any(not isinstance(route, Here) for route in ROUTES.get(type(service), {}).values()):
                self.front(service)

    def front(self, service: S) -> S:
        """What a door asks instead of the service."""
        kind = type(service)
        made = self._made.get(kind)
        if made is None:
            routes = ROUTES[kind]
            chosen = {verb: route for verb, route in routes.items() if not isinstance(route, Here)}
            self.router.serve(service, (*chosen, *_BETWEEN_NODES.get(kind, ())))
            verbs = {verb: self._verb(service, verb, route) for verb, route in chosen.items()}
            made = self._made[kind] = Routed(service, verbs)
        return cast(S, made)

    def _verb(self, service: Any, verb: str, route: Route) -> Verb:
        kind = type(service)
        if isinstance(route, Split):
            found: Verb = getattr(self._splits[kind], verb)
            return found
        if isinstance(route, ById):
            return self._by_id(kind, verb, route)
        if isinstance(route, AtPartition):
            return self._at_partition(kind, verb, route)
        if isinstance(route, AtFirstShard):
            return partial(RoutedSchemas(self.router).change, verb)
        assert isinstance(route, AtAll)
        return self._at_all(kind, verb, route)

    def _by_id(self, kind: type, verb: str, route: ById) -> Verb:
        router = self.router

        async def ask(*args: Any, **named: Any) -> Any:
            given_id = route.id_of(*args, **named)
            find = lambda: router.shards.leader_of_id(given_id)  # noqa: E731
            within_s = route.within_s(*args, **named)
            return await router.ask_leader(find, kind, verb, args, named, within_s, route.repeatable)

        return ask

    def _at_partition(self, kind: type, verb: str, route: AtPartition) -> Verb:
        router = self.router

        async def ask(*args: Any, **named: Any) -> Any:
            at: TopicPartition = route.at(*args, **named)
            find = lambda: router.shards.leader_of(at)  # noqa: E731
            within_s = route.within_s(*args, **named)
            return await router.ask_leader(find, kind, verb, args, named, within_s, route.repeatable)

        return ask

    def _at_all(self, kind: type, verb: str, route: AtAll) -> Verb:
        router = self.router

        async def ask(*args: Any) -> Any:
            return route.merge(await router.ask_all(router.shards.leaders, kind, verb, args))

        return ask
