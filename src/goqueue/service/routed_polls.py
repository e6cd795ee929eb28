"""Polls of members whose group another process of this machine keeps.

A poll goes to the process that keeps the group, which takes messages wherever they are: two steps between processes for
each answer. So that process is asked now and then what a member may take, and for a moment its polls are answered with
what this process leads. They go on to the other one when there is nothing here, and when the moment is over: that is
the member's heartbeat.

Only of groups whose members share all partitions, and for members that answer for their messages themselves.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import Millis
from goqueue.base.leases import Take
from goqueue.base.limits import ROUTED_S
from goqueue.service.consume import Consuming, Poll, PollResult
from goqueue.service.leased_run import LeasedRun
from goqueue.service.leasing import Leasing
from goqueue.service.router import Router

_MOMENT_S: Final = 0.5
_KNOWN_MAX: Final = 10_000

Member = tuple[str, str]  # a group, and one of it


class _Near(msgspec.Struct, frozen=True):
    take: Take  # of what is led here
    generation: int
    until: float


class RoutedPolls:
    """The verb of `Consuming` that doors use."""

    def __init__(self, router: Router, leasing: Leasing) -> None:
        self._router = router
        self._leasing = leasing
        self._near: dict[Member, _Near] = {}
        self._asking: dict[Member, asyncio.Task[None]] = {}

    async def poll(self, poll: Poll) -> PollResult:
        near = self._near.get((poll.group, poll.member_id))
        if near is not None and (runs := await self._take(near, poll)):
            return PollResult(runs, near.generation, False)
        find = lambda: self._router.shards.leader_of_id(poll.group)  # noqa: E731
        within_s = poll.wait_ms_max / 1000 + ROUTED_S
        asking = self._router.ask_leader(find, Consuming, "poll", [poll], {}, within_s, repeatable=False)
        found: PollResult = await asking
        if found.runs and not found.rebalance and self._router.shards.is_one_machine:
            self._learn(poll, found.generation)
        return found

    async def _take(self, near: _Near, poll: Poll) -> list[LeasedRun]:
        if near.generation != poll.generation or asyncio.get_running_loop().time() > near.until:
            self._near.pop((poll.group, poll.member_id), None)
            return []
        lease_ms: Millis | None = near.take.lease_ms if poll.lease_ms is None else poll.lease_ms
        try:
            return await self._leasing.take_runs(
                replace(near.take, limit=poll.limit, lease_ms=lease_ms, caller=poll.caller)
            )
        except NotLeader:
            return []

    # --- what a member may take ------------------------------------------------------------------------------

    def _learn(self, poll: Poll, generation: int) -> None:
        member, shards = (poll.group, poll.member_id), self._router.shards
        if member in self._asking or shards.leader_of_id(poll.group) == shards.node:
            return
        self._asking[member] = task = asyncio.ensure_future(self._ask(member, generation))
        task.add_done_callback(lambda _: self._asking.pop(member, None))

    async def _ask(self, member: Member, generation: int) -> None:
        find = lambda: self._router.shards.leader_of_id(member[0])  # noqa: E731
        try:
            take: Take | None = await self._router.ask_leader(find, Consuming, "shared_take", [*member, generation])
        except GoQueueError:
            return  # its next poll is told what is wrong
        shards = self._router.shards
        here = () if take is None else tuple(at for at in take.partitions if shards.leads(at))
        if take is None or not here:
            return
        if len(self._near) >= _KNOWN_MAX:
            self._near.clear()
        held_max = None if take.in_flight_max is None else max(1, take.in_flight_max // len(shards.nodes()))
        until = asyncio.get_running_loop().time() + _MOMENT_S
        self._near[member] = _Near(replace(take, partitions=here, in_flight_max=held_max), generation, until)
