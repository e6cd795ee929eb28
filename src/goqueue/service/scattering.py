"""Many things of one call, each for the node that leads its partition: sent in parts, put together again in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from goqueue.base.errors import GoQueueError
from goqueue.base.limits import ROUTED_S
from goqueue.service.router import RetryTime, Router, may_pass

R = TypeVar("R")
Send = Callable[[int, list[int], float], Awaitable[Sequence[R | GoQueueError]]]  # node, places, seconds left


class Scattering(Generic[R]):
    """Results by place. What a node refuses because it does not lead is sent again; errors are results too.

    Things of one partition stay together and in order, as long as a node refuses all of them or none.
    """

    def __init__(self, router: Router, leader_of: Callable[[int], int], send: Send[R], repeatable: bool) -> None:
        """`leader_of` has the node for a place."""
        self._router = router
        self._leader_of = leader_of
        self._send = send
        self._repeatable = repeatable
        self._results: dict[int, R | GoQueueError] = {}

    async def run(self, places: Iterable[int]) -> dict[int, R | GoQueueError]:
        time, pending = RetryTime(ROUTED_S), list(places)
        while True:
            changed = self._router.changed
            await self._round(pending, time.left_s)
            pending = [place for place in pending if self._is_open(place)]
            if not pending or not time.left_s:
                return self._results
            await time.pause(changed)

    async def _round(self, pending: Sequence[int], left_s: float) -> None:
        parts: dict[int, list[int]] = {}
        for place in pending:
            try:
                parts.setdefault(self._leader_of(place), []).append(place)
            except GoQueueError as error:
                self._results[place] = error
        if len(parts) == 1:
            await self._part(*parts.popitem(), left_s)
        elif parts:
            await asyncio.gather(*(self._part(node, places, left_s) for node, places in parts.items()))

    async def _part(self, node: int, places: list[int], left_s: float) -> None:
        sending = self._send(node, places, left_s)
        try:
            if node == self._router.shards.node:
                found = await sending
            else:
                found = await self._router.while_leading(lambda: self._leader_of(places[0]), node, sending)
        except GoQueueError as error:
            found = [error] * len(places)
        self._results.update(zip(places, found, strict=True))

    def _is_open(self, place: int) -> bool:
        result = self._results[place]
        return isinstance(result, GoQueueError) and may_pass(result, self._repeatable)
