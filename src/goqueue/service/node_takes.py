"""One take over the partitions of several nodes: what they have, up to what was asked for; nothing is leased in vain.

First the nodes are asked in turn, each time beginning with another one, until one has something; then the others at
once, each for a share of the rest. If none has anything the take waits at all of
them; when one has something the others are told that it is enough, and each of them still answers. What came to more
than was asked for, or for a caller that is gone, is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from goqueue.base.errors import GoQueueError, PeerLost, QuotaExceeded
from goqueue.base.leases import Take
from goqueue.base.limits import ROUTED_S
from goqueue.service.leased_run import LeasedRun
from goqueue.service.leasing import Leasing
from goqueue.service.peer_leasing import PeerLeasing
from goqueue.service.router import Router, may_pass

Part = tuple[int, Take]  # a node, and what is taken there
GiveBack = Callable[[str, Sequence[LeasedRun]], None]
_AGAIN_S: Final = 0.05  # after a node could not be asked
_BESIDE_S: Final = 0.1  # for more of it, when there is something to hand out
_ANSWER_S: Final = 3.0  # for what a node need not wait for; what comes later is given back


class NodeTake:
    """One take. `parts` are at different nodes, and at least one is elsewhere."""

    def __init__(self, router: Router, leasing: Leasing, take: Take, token: str, give_back: GiveBack) -> None:
        self._router = router
        self._leasing = leasing
        self._take = take
        self._token = token
        self._give_back = give_back
        self._stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def now(self, parts: Sequence[Part]) -> list[LeasedRun]:
        """What the first has that has something, and beside it what the others have, as far as more was asked for. A
        node that cannot be asked counts as empty, unless all are such."""
        failure: GoQueueError | None = None
        failures = 0
        for place, (node, part) in enumerate(parts):
            try:
                if found := await self._kept(self._now_at(node, part, parts[place + 1 :])):
                    return found
            except GoQueueError as error:
                if not _counts_as_empty(error):
                    raise
                failure, failures = error, failures + 1
        if failure is not None and failures == len(parts):
            raise failure
        return []

    async def _now_at(self, node: int, part: Take, others: Sequence[Part]) -> list[LeasedRun]:
        found = await self._soon(node, self._ask(node, replace(part, wait_ms_max=0)))
        return [*found, *await self._beside(found, others)] if found else []

    async def _beside(self, found: Sequence[LeasedRun], parts: Sequence[Part]) -> list[LeasedRun]:
        """Each is asked for its share of what is left. Who does not answer soon holds up nothing."""
        left = self._take.limit - sum(len(run.records) for run in found)
        asked = [
            self._soon(node, self._ask(node, replace(part, wait_ms_max=0, limit=share)), _BESIDE_S)
            for (node, part), share in zip(parts, shares(left, len(parts)), strict=False)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [run for answer in answers if not isinstance(answer, BaseException) for run in answer]

    async def wait(
        self, parts: Sequence[Part], interrupt: asyncio.Future[None] | None, wait_s: float
    ) -> list[LeasedRun]:
        """What comes first, wherever. Ends early with nothing if it is interrupted, a node cannot be asked, or another
        one leads."""
        wait_ms = max(1, round(wait_s * 1000))
        tasks = [asyncio.ensure_future(self._ask(node, replace(part, wait_ms_max=wait_ms))) for node, part in parts]
        try:
            news: list[asyncio.Future[Any]] = [*tasks, self._router.moved, *([] if interrupt is None else [interrupt])]
            await asyncio.wait(news, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._abandon(parts, tasks)
            raise
        return await self._kept(self._end(parts, tasks))

    async def _end(self, parts: Sequence[Part], tasks: Sequence[asyncio.Future[list[LeasedRun]]]) -> list[LeasedRun]:
        """Everybody answers; what is too much is given back."""
        if not self._stop.done():
            self._stop.set_result(None)
        elsewhere = [node for (node, _), task in zip(parts, tasks, strict=True) if not task.done()]
        tells = [self._tell(node) for node in elsewhere if node != self._router.shards.node]
        told = asyncio.gather(*tells)
        soon = [self._soon(node, task) for (node, _), task in zip(parts, tasks, strict=True)]
        answers = await asyncio.gather(*soon, return_exceptions=True)
        await told
        runs = [run for answer in answers if not isinstance(answer, BaseException) for run in answer]
        kept, surplus = within(runs, self._take.limit)
        if surplus:
            self._give_back(self._take.group, surplus)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if not kept and errors:
            await self._bear(errors)
        return kept

    async def _bear(self, errors: Iterable[BaseException]) -> None:
        for error in errors:
            if not (isinstance(error, GoQueueError) and _counts_as_empty(error)):
                raise error
        await asyncio.sleep(_AGAIN_S)

    async def _soon(
        self, node: int, taking: Awaitable[list[LeasedRun]], within_s: float = _ANSWER_S
    ) -> list[LeasedRun]:
        """What a node gives that need not wait any more. What it gives later is given back."""
        task = asyncio.ensure_future(taking)
        done, _ = await asyncio.wait([task], timeout=None if node == self._router.shards.node else within_s)
        if not done:
            task.add_done_callback(self._return)
            raise PeerLost(f"Node {node} does not answer.")
        return task.result()

    async def _tell(self, node: int) -> None:
        """A node that does not hear it ends its take when the connection does, or its time is over."""
        try:
            await self._router.ask(node, PeerLeasing, "enough", [self._token], {}, _ANSWER_S)
        except GoQueueError:
            return

    def _ask(self, node: int, part: Take) -> Awaitable[list[LeasedRun]]:
        if node == self._router.shards.node:
            return self._leasing.take_runs(part, self._stop)
        within_s = part.wait_ms_max / 1000 + ROUTED_S
        return self._router.ask(node, PeerLeasing, "take", [self._token, part], {}, within_s)

    # --- a caller that goes away -----------------------------------------------------------------------------

    async def _kept(self, taking: Awaitable[list[LeasedRun]]) -> list[LeasedRun]:
        """Goes on if the caller goes away, and gives back what it finds."""
        task = asyncio.ensure_future(taking)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._return)
            raise

    def _abandon(self, parts: Sequence[Part], tasks: Sequence[asyncio.Future[list[LeasedRun]]]) -> None:
        asyncio.ensure_future(self._end(parts, tasks)).add_done_callback(self._return)

    def _return(self, task: asyncio.Future[list[LeasedRun]]) -> None:
        if not task.cancelled() and task.exception() is None and task.result():
            self._give_back(self._take.group, task.result())


def shares(count: int, parts: int) -> list[int]:
    """Even shares that come to so many; no more of them than there is something for."""
    return [share for part in range(parts) if (share := (count + part) // parts)][::-1]


def within(runs: Iterable[LeasedRun], limit: int) -> tuple[list[LeasedRun], list[LeasedRun]]:
    """As many messages as were asked for, and the rest."""
    kept, surplus = list[LeasedRun](), list[LeasedRun]()
    for run in runs:
        records = run.records
        if limit >= len(records):
            kept.append(run)
        else:
            kept += [replace(run, records=records[:limit])] if limit else []
            surplus.append(replace(run, records=records[limit:]))
        limit -= min(limit, len(records))
    return kept, surplus


def _counts_as_empty(error: GoQueueError) -> bool:
    """Others may have something: the node cannot be asked, or hands out no more to this tenant."""
    return isinstance(error, QuotaExceeded) or may_pass(error, repeatable=True)
