"""Transactions of a broker: the coordinators of its shards, what they have done at other places, and the verbs."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.core.txn.machine import Transactions, TxnLimits
from goqueue.drive.schedules import Schedules
from goqueue.drive.topic_table import TopicTable
from goqueue.drive.txn_coordinator import EffectPort, TransactionCoordinator
from goqueue.drive.txn_coordinators import TransactionCoordinators
from goqueue.node_services import NodeServices
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing
from goqueue.service.publish import Publish
from goqueue.service.routing import Routing
from goqueue.service.staged import StagedVerbs
from goqueue.service.topics import Topics
from goqueue.service.tracing import Tracing
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_asking import CoordinatorsAnywhere
from goqueue.service.txn_effects import EffectPlaces, TransactionEffects
from goqueue.service.txn_events import TransactionEvents
from goqueue.service.txn_homes import TransactionHomes
from goqueue.service.txn_partitions import CoordinatorPort, TransactionPartitions, TransactionWrites
from goqueue.service.txn_publish import TransactionalPublish
from goqueue.service.txn_questions import CoordinatorQuestions
from goqueue.service.txn_recovery import TransactionRecovery
from goqueue.service.txn_sending import SentEffects
from goqueue.service.txn_shard_recovery import ShardTransactionRecovery
from goqueue.service.txn_store import TransactionStore


class TransactionPlaces(NamedTuple):
    """What transactions touch."""

    table: TopicTable
    topics: Topics
    groups: Groups
    leasing: Leasing
    schedules: Schedules
    publish: Publish


class TransactionParts:
    """Made with the broker. Alone everything is done here; `elsewhere` leads to what other nodes have."""

    def __init__(
        self,
        node: NodeServices,
        places: TransactionPlaces,
        writes: TransactionWrites,
        elsewhere: Elsewhere,
        tracing: Tracing | None,
        routing: Routing | None,
    ) -> None:
        table, topics, groups, leasing, schedules, publish = places
        settings, clock, shards = node.settings, node.clock, node.shard_map
        forces = settings.transactions.sync == "always" and settings.log.fsync != "always"
        partitions = TransactionPartitions(topics, writes, clock, node.flusher.force if forces else None)
        self.effects = TransactionEffects(partitions, groups, leasing, schedules)
        homes = TransactionHomes(shards, table.name_of)
        self._sent = None if elsewhere.is_alone else SentEffects(self.effects, elsewhere, homes)
        effects: EffectPlaces = self._sent or self.effects
        self._node = node
        self._events = TransactionEvents(node.metrics, tracing)
        self.coordinators = TransactionCoordinators(shards, self._coordinator)
        node.metrics.txns_open.set_function(lambda: self.coordinators.open_count)
        questions = CoordinatorQuestions(self.coordinators, clock)
        anywhere = CoordinatorsAnywhere(questions, elsewhere)
        everyone = None if elsewhere.is_alone else anywhere
        self.verbs = TransactionVerbs(self.coordinators, effects, topics, clock, self._events.tally, everyone)
        self.questions: CoordinatorPort = questions if elsewhere.is_alone else anywhere
        self.recovery = TransactionRecovery(topics, questions, partitions)
        self.shard_recovery = ShardTransactionRecovery(anywhere, partitions, table.in_shard, elsewhere)
        self.staged = StagedVerbs(self.coordinators, effects, settings.transactions)
        store = TransactionStore(publish, topics)
        stores = store if routing is None else routing.transaction_store(store)
        self.publish = TransactionalPublish(self.coordinators, self.verbs, publish, topics, stores)

    def _coordinator(self, shard: int) -> TransactionCoordinator:
        node, chosen = self._node, self._node.settings.transactions
        limits = TxnLimits(chosen.timeout_ms_max, chosen.idle_ms, chosen.owner_retention_ms)
        port: EffectPort = self.effects if self._sent is None else self._sent.of(shard)
        return TransactionCoordinator(
            lambda: Transactions(limits, node.shard_map.epoch(shard)),
            port,
            self._events,
            node.producer_ids.next_id,
            node.clock,
            node.offload,
        )
