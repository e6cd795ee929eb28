"""Redrives for all nodes: each node that leads partitions of a dead-letter topic has its share of a redrive, under one
id. How it stands is told as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from goqueue.base.commands import ANYONE, Caller
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import GoQueueError, RedriveRunning, UnknownRedrive
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter
from goqueue.core.redrive import Preview, RedriveRequest, RedriveState, RedriveTask
from goqueue.service.dead_letters import Redrives
from goqueue.service.router import Router, together
from goqueue.service.topics import Topics


class RoutedRedrives:
    """The verbs of `Redrives`."""

    def __init__(self, router: Router, topics: Topics, entropy: Entropy) -> None:
        self._router = router
        self._topics = topics
        self._entropy = entropy

    async def start(
        self,
        source: str,
        to: str | None = None,
        rate_per_s: int | None = None,
        filter: DeadLetterFilter = EVERYTHING,  # noqa: A002
        limit: int | None = None,
        caller: Caller = ANYONE,
    ) -> RedriveTask:
        """A rate is shared out evenly, a limit by what there is at each node. All nodes begin, or none."""
        if any(task.is_live for task in await self.tasks(source)):
            raise RedriveRunning(f"The dead letters of {source!r} are being redriven; wait, or cancel that redrive.")
        nodes, task_id = self._nodes(source), new_uuid(self._entropy)
        asked = RedriveRequest(source, to, rate_per_s, filter, limit)
        shares = await self._shares(nodes, asked, caller)
        begun: list[RedriveTask] = []
        try:
            for node, share in shares.items():
                part = (task_id, len(shares))
                begun.append(await self._ask(node, "start", source, to, rate_per_s, filter, share, part, caller))
        except GoQueueError:
            if begun:
                await self.cancel(task_id)
            raise
        return merged_task(begun)

    async def _shares(self, nodes: Sequence[int], asked: RedriveRequest, caller: Caller) -> dict[int, int | None]:
        """How many letters each node moves at most. One that has none takes no part, but for the first."""
        if asked.limit is None or asked.limit < 1:
            return dict.fromkeys(nodes, asked.limit)
        shares, left = dict[int, int | None](), asked.limit
        for node in nodes:
            there: Preview = (
                await self._ask(node, "preview", replace(asked, limit=left), caller) if left else Preview(0, 0, {}, {})
            )
            if there.movable or (left and not shares and node == nodes[-1]):
                shares[node] = min(left, there.movable) or left
                left -= min(left, there.movable)
        return shares

    async def preview(self, asked: RedriveRequest, caller: Caller = ANYONE) -> Preview:
        reasons, skipped = Counter[str](), Counter[str]()
        left = asked.limit
        for node in self._nodes(asked.source):
            told: Preview = await self._ask(node, "preview", replace(asked, limit=left), caller)
            reasons.update(told.by_reason)
            skipped.update(told.skipped)
            left = None if left is None else left - told.movable
            if left == 0:
                break
        return Preview(reasons.total() + skipped.total(), reasons.total(), dict(reasons), dict(skipped))

    async def tasks(self, source: str) -> list[RedriveTask]:
        """All that are remembered, the newest first."""
        parts = await self._router.ask_all(self._router.shards.leaders, Redrives, "tasks", [source])
        by_id: dict[str, list[RedriveTask]] = {}
        for task in (one for part in parts for one in part):
            by_id.setdefault(task.id, []).append(task)
        return sorted((merged_task(some) for some in by_id.values()), key=lambda one: one.started_ms, reverse=True)

    async def find(self, task_id: str) -> RedriveTask:
        return merged_task([task for _, task in await self._known(task_id)])

    async def cancel(self, task_id: str) -> RedriveTask:
        known = await self._known(task_id)
        return merged_task(await together(self._ask(node, "cancel", task_id) for node, _ in known))

    async def _known(self, task_id: str) -> list[tuple[int, RedriveTask]]:
        nodes = self._router.shards.leaders()
        found = await self._router.ask_all(lambda: nodes, Redrives, "known", [task_id])
        known = [(node, task) for node, task in zip(nodes, found, strict=True) if task is not None]
        if not known:
            raise UnknownRedrive(f"There is no redrive {task_id[:100]!r}, or it is forgotten.", field="id")
        return known

    def _nodes(self, source: str) -> list[int]:
        """That lead the topic's partitions; this one if there is no such topic yet."""
        topic = self._topics.find(source)
        places = [] if topic is None else [one.at for one in topic.partitions]
        return sorted({self._router.shards.leader_of(at) for at in places}) or [self._router.shards.node]

    async def _ask(self, node: int, verb: str, *args: Any) -> Any:
        return await self._router.ask_leader(lambda: node, Redrives, verb, args, repeatable=False)


def merged_task(parts: Sequence[RedriveTask]) -> RedriveTask:
    """The shares of one redrive as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped)
    finished = [one.finished_ms for one in parts if one.finished_ms is not None]
    state = _state([one.state for one in parts])
    return replace(
        first,
        started_ms=min(one.started_ms for one in parts),
        limit=None if first.limit is None else sum(one.limit or 0 for one in parts),
        state=state,
        total=sum(one.total for one in parts),
        looked_at=sum(one.looked_at for one in parts),
        moved=sum(one.moved for one in parts),
        skipped=dict(skipped),
        failed=sum(one.failed for one in parts),
        failure=next((one.failure for one in parts if one.failure), ""),
        finished_ms=max(finished) if len(finished) == len(parts) else None,
        moved_per_s=sum(one.moved_per_s for one in parts),
        eta_ms=max((one.eta_ms for one in parts if one.eta_ms is not None), default=None),
        ends={number: end for one in parts for number, end in one.ends.items()},
        cursors={number: cursor for one in parts for number, cursor in one.cursors.items()},
    )


def _state(states: Sequence[RedriveState]) -> RedriveState:
    """It runs while one runs; else the worst that became of one."""
    order: tuple[RedriveState, ...] = ("running", "cancelling", "failed", "cancelled", "completed")
    return next(one for one in order if one in states)
