"""Looking at what several nodes keep: delayed messages, traces, owners of staged sets, producers of transactions."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from goqueue.base.errors import GoQueueError, UnknownTrace
from goqueue.base.limits import ROUTED_S
from goqueue.core.schedule.due import DueKey
from goqueue.core.traces.span import TraceFilter, TraceSummary, trace_of
from goqueue.core.txn.errors import UnknownTransaction
from goqueue.core.txn.records import TxnState
from goqueue.service.router import Router, may_pass, together
from goqueue.service.scheduling import DelayedMessage, Scheduling
from goqueue.service.staged import OwnerView, StagedVerbs
from goqueue.service.traces import Traces
from goqueue.service.transactions import TransactionVerbs

_KEYS: Final = 50_000  # of one call


class _Part(NamedTuple):
    node: int
    limit: int
    skip: int


class RoutedScheduling:
    """What waits for a topic, by time, wherever it waits."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def _keys(self, node: int, name: str, count: int, left_s: float) -> list[DueKey]:
        found: list[DueKey] = []
        while len(found) < count:
            most = min(_KEYS, count - len(found))
            some = await self._router.ask(node, Scheduling, "keys", [name, most, len(found)], {}, left_s)
            found += some
            if len(some) < most:
                break
        return found

    async def _page(self, name: str, parts: Sequence[_Part], left_s: float) -> list[DelayedMessage]:
        asked = [[name, one.limit, one.skip] for one in parts]
        pages: list[list[DelayedMessage]] = await together(
            self._router.ask(one.node, Scheduling, "list", args, {}, left_s)
            for one, args in zip(parts, asked, strict=True)
        )
        ends = [_key(page[-1]) for one, page in zip(parts, pages, strict=True) if 0 < len(page) < one.limit]
        end = min(ends, default=None)
        return [one for one in heapq.merge(*pages, key=_key) if end is None or _key(one) <= end]

    async def list(self, name: str, limit: int, skip: int = 0) -> list[DelayedMessage]:
        """A page of one node may be short because of its size: what comes after that is left to the next page."""

        async def once(left_s: float) -> list[DelayedMessage]:
            nodes = self._router.shards.leaders()
            keys = await together(self._keys(node, name, skip + limit, left_s) for node in nodes)
            return await self._page(name, _parts(dict(zip(nodes, keys, strict=True)), limit, skip), left_s)

        return await self._router.persist(once, ROUTED_S)


def _parts(keys: Mapping[int, Sequence[DueKey]], limit: int, skip: int) -> list[_Part]:
    """What each node has of a page of all."""
    runs = [[(key, node) for key in its] for node, its in keys.items()]
    nodes = [node for _, node in heapq.merge(*runs, key=itemgetter(0))]
    before, within = Counter(nodes[:skip]), Counter(nodes[skip : skip + limit])
    return [_Part(node, count, before[node]) for node, count in within.items()]


def _key(one: DelayedMessage) -> DueKey:
    return one.due_ms, one.offset


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
