"""Work that comes round again and again, with one task that can be stopped between two rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Repeating:
    """Waits, works, waits again. `stop` gives up what is under way."""

    def __init__(self, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
        self._period_s = period_s
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self._work()
