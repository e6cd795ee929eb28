"""Measures the disk once a second, so that nobody has to ask on the way of a message."""

from __future__ import annotations

import asyncio
import logging

from goqueue.drive.offload import Offload
from goqueue.log.space import SpaceGuard

logger = logging.getLogger(__name__)

_PERIOD_S = 1.0


class SpaceWatch:
    def __init__(self, guard: SpaceGuard, offload: Offload) -> None:
        self._guard = guard
        self._offload = offload
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        was_full = self._guard.is_full
        while True:
            await asyncio.sleep(_PERIOD_S)
            usage = await self._offload(self._guard.measure)
            if self._guard.is_full != was_full:
                was_full = self._guard.is_full
                told = "disk over its limit, writes refused" if was_full else "disk has room again, writes accepted"
                logger.warning(told, extra={"used_percent": round(usage.used_percent, 1)})
