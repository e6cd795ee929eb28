"""Where a lane's next message is, when the index knows only the span: looked up behind the back of acks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from goqueue.base.errors import GoQueueError
from goqueue.core.delivery.records import ViewId
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.lane_reader import LaneReader


class LaneSearch:
    """One search at a time; each is wanted at most once."""

    def __init__(self, runner: DeliveryShards, on_found: Callable[[ViewId], None]) -> None:
        self._runner = runner
        self._on_found = on_found
        self._wanted: dict[tuple[ViewId, int], LaneReader] = {}
        self._task: asyncio.Task[None] | None = None

    def want(self, view: ViewId, lane: int, feed: LaneReader) -> None:
        """`on_found` is called if the lane turns out to be further than it was known to be."""
        self._wanted[view, lane] = feed
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._wanted:
                (view, lane), feed = self._wanted.popitem()
                with contextlib.suppress(GoQueueError):  # a damaged log stays a poll's business
                    await self._search(view, lane, feed)
        finally:
            self._task = None

    async def _search(self, view: ViewId, lane: int, feed: LaneReader) -> None:
        delivery = self._runner.find(view)
        if delivery is None:
            return
        opened = delivery.opened
        fresh, seen_to = await feed.of_lane(lane, delivery.look_from(lane), 1)
        next_at = fresh[0].offset if fresh else seen_to
        is_current = self._runner.is_current(delivery) and delivery.opened == opened
        if is_current and delivery.goes_on_at(lane, next_at, is_end=not fresh):
            self._on_found(view)
