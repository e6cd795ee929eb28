"""What administrators ask of a broker: dead letters, traces, schemas, transactions, statistics, the cluster."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack

from goqueue.api.cluster import ClusterHealth, ClusterState
from goqueue.client import cluster, dead_letters, schemas, traces, transactions
from goqueue.client.calls import RestCall, group_path, node_stats
from goqueue.client.dead_letters import DeadLetter, DeadLetterQuery, DeadLetters, DryRun, Redrive, RedriveOptions
from goqueue.client.schemas import Compatibility, NewSchema, RegisteredSchema
from goqueue.client.traces import Trace
from goqueue.client.transactions import Transaction

T = TypeVar("T")


class Administration:
    """A part of `Client`."""

    def perform(self, call: RestCall[T]) -> T:
        """Sends one request and reads its answer."""
        raise NotImplementedError

    # --- dead letters ---------------------------------------------------------------------------------

    def dead_letters(self, topic: str, **query: Unpack[DeadLetterQuery]) -> DeadLetters:
        """A page of a topic's dead letters: by `reason`, `group`, `from_` and `to` (times of death), one `header` as
        `name:value`; `cursor` is the `next` of the page before."""
        return self.perform(dead_letters.dead_letters(topic, dead_letters.query_of(query)))

    def dead_letter(self, topic: str, partition: int, offset: int) -> DeadLetter:
        """One, by its place in the dead-letter topic."""
        return self.perform(dead_letters.dead_letter(topic, partition, offset))

    def delete_dead_letter(self, topic: str, partition: int, offset: int) -> None:
        self.perform(dead_letters.delete_dead_letter(topic, partition, offset))

    def redrive(self, topic: str, **options: Unpack[RedriveOptions]) -> Redrive:
        """Begins to move dead letters back, or `to` another topic; `redrive_progress` tells how far it is."""
        return self.perform(dead_letters.redrive(topic, dead_letters.body_of(options)))

    def redrive_dry_run(self, topic: str, **options: Unpack[RedriveOptions]) -> DryRun:
        """What a redrive would do."""
        return self.perform(dead_letters.dry_run(topic, dead_letters.body_of(options)))

    def redrive_progress(self, topic: str, redrive_id: str) -> Redrive:
        return self.perform(dead_letters.redrive_progress(topic, redrive_id))

    def cancel_redrive(self, topic: str, redrive_id: str) -> Redrive:
        """What was moved stays moved."""
        return self.perform(dead_letters.cancel_redrive(topic, redrive_id))

    # --- traces ---------------------------------------------------------------------------------------

    def traces(self, *, limit: int = 100) -> list[Trace]:
        """The newest."""
        return self.perform(traces.traces(limit))

    def trace(self, trace_id: str) -> Trace:
        """One message's whole life."""
        return self.perform(traces.trace(trace_id))

    def search_traces(self, *, limit: int = 100, **wanted: str | int | None) -> list[Trace]:
        """By topic, partition, group, key, status, from, to."""
        return self.perform(traces.search_traces(wanted, limit))

    # --- schemas --------------------------------------------------------------------------------------

    def schemas(self) -> list[RegisteredSchema]:
        """The latest of every subject."""
        return self.perform(schemas.schemas())

    def schema(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        return self.perform(schemas.schema(subject, version))

    def register_schema(self, subject: str, new: NewSchema) -> RegisteredSchema:
        """Its id and version; one that is there already keeps them."""
        return self.perform(schemas.register_schema(subject, new))

    def check_schema(self, subject: str, new: NewSchema) -> Compatibility:
        """Whether it may be the next version, and if not, why."""
        return self.perform(schemas.check_schema(subject, new))

    def delete_schema(self, subject: str, version: int | str | None = None, *, permanent: bool = False) -> None:
        """One version, or all of a subject."""
        self.perform(schemas.delete_schema(subject, version, permanent))

    # --- transactions ---------------------------------------------------------------------------------

    def transactions(self, *, idle: bool = False, limit: int = 100) -> list[Transaction]:
        """Open ones; with `idle` also producers without one."""
        return self.perform(transactions.transactions(idle=idle, limit=limit))

    def transaction_state(self, transactional_id: str) -> Transaction:
        return self.perform(transactions.transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> Transaction:
        """Ends one that hangs; its producer is shut out."""
        return self.perform(transactions.abort(transactional_id))

    # --- statistics and the cluster -------------------------------------------------------------------

    def queue_stats(self) -> dict[str, Any]:
        """What queues handed out, and what became of it."""
        return self.perform(node_stats("/reliability/stats"))

    def priority_stats(self) -> dict[str, Any]:
        """Each priority: ready, in flight, last served."""
        return self.perform(node_stats("/priority/stats"))

    def rebalance_stats(self, group: str) -> dict[str, Any]:
        return self.perform(node_stats(f"{group_path(group)}/rebalance/stats"))

    def cluster_state(self) -> ClusterState:
        """Nodes and shards."""
        return self.perform(cluster.cluster_state())

    def cluster_health(self) -> ClusterHealth:
        """What is wrong."""
        return self.perform(cluster.cluster_health())
