"""Looking at what several nodes keep: delayed messages, traces, owners of staged sets, producers of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goqueue.base.errors import GoQueueError, UnknownTrace
from goqueue.core.traces.span import TraceFilter, TraceSummary, trace_of
from goqueue.core.txn.errors import UnknownTransaction
from goqueue.core.txn.records import TxnState
from goqueue.service.router import Router, may_pass, together
from goqueue.service.scheduling import DelayedMessage, Scheduling
from goqueue.service.staged import OwnerView, StagedVerbs
from goqueue.service.traces import Traces
from goqueue.service.transactions import TransactionVerbs


class RoutedScheduling:
    """What waits for a topic, by time, wherever it waits."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list(self, name: str, limit: int, skip: int = 0) -> list[DelayedMessage]:
        """A page of one node may be short because of its size: what comes after that is left to the next page."""
        leaders = self._router.shards.leaders
        pages = await self._router.ask_all(leaders, Scheduling, "list", [name, skip + limit])
        counts = await self._router.ask_all(leaders, Scheduling, "pending", [name])
        short = [
            page[-1].due_ms
            for page, count in zip(pages, counts, strict=False)
            if 0 < len(page) < min(count, skip + limit)
        ]
        found = sorted((one for page in pages for one in page), key=lambda one: (one.due_ms, one.partition, one.offset))
        return [one for one in found if not short or one.due_ms <= min(short)][skip : skip + limit]


class RoutedStaged:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def owners(self, limit: int) -> list[OwnerView]:
        """By name."""
        parts = await self._router.ask_all(self._router.shards.leaders, StagedVerbs, "owners", [limit])
        return sorted((one for part in parts for one in part), key=lambda one: one.owner)[:limit]


class RoutedTransactions:
    """Producers that are named by their numbers alone."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def name_of(self, producer_id: int, ended: bool = False) -> str:
        name, _ = await self._find(producer_id, ended)
        return name

    async def beat(self, producer_id: int, epoch: int | None) -> TxnState:
        _, node = await self._find(producer_id, ended=False)
        state: TxnState = await self._router.ask_leader(lambda: node, TransactionVerbs, "beat", [producer_id, epoch])
        return state

    async def _find(self, producer_id: int, ended: bool) -> tuple[str, int]:
        nodes = self._router.shards.leaders()
        names = await self._router.ask_all(lambda: nodes, TransactionVerbs, "find_name", [producer_id, ended])
        for name, node in zip(names, nodes, strict=True):
            if name is not None:
                return name, node
        raise UnknownTransaction(f"There is no producer {producer_id}; init it first.", field="producer_id")


class RoutedTraces:
    """What happened to a message is known where it happened: every node that lives is asked, and who does not answer is
    left out."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def newest(self, limit: int) -> list[TraceSummary]:
        return await self._whole(_ids(await self._ask("newest", limit), limit))

    async def search(self, chosen: TraceFilter, limit: int) -> list[TraceSummary]:
        return await self._whole(_ids(await self._ask("search", chosen, limit), limit))

    async def show(self, trace_id: str) -> TraceSummary:
        found = await self._whole([trace_id])
        if not found:
            raise UnknownTrace(f"No trace {trace_id!r} is known; old ones are forgotten.", field="id")
        return found[0]

    async def _whole(self, trace_ids: Sequence[str]) -> list[TraceSummary]:
        """With what every node knows of them."""
        if not trace_ids:
            return []
        parts = await self._ask("known", trace_ids)
        spans = {one: [span for part in parts if part.trace_id == one for span in part.spans] for one in trace_ids}
        return [trace_of(one, known) for one, known in spans.items() if known]

    async def _ask(self, verb: str, *args: Any) -> list[TraceSummary]:
        nodes = {self._router.shards.node, *self._router.shards.nodes()}
        parts = await together(self._try(node, verb, *args) for node in nodes)
        return [one for part in parts for one in part]

    async def _try(self, node: int, verb: str, *args: Any) -> list[TraceSummary]:
        try:
            found: list[TraceSummary] = await self._router.ask(node, Traces, verb, args)
            return found
        except GoQueueError as error:
            if may_pass(error, repeatable=True):
                return []
            raise


def _ids(found: Sequence[TraceSummary], limit: int) -> list[str]:
    """The last that something happened to first."""
    newest = sorted(found, key=lambda one: one.spans[-1].end_ns, reverse=True)
    return list(dict.fromkeys(one.trace_id for one in newest))[:limit]
