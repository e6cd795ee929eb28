"""Where blocking work goes. Drivers are handed one of these; a simulation runs the work in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs a function off the event loop."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


class Threads:
    """A small pool: enough to keep a disk busy, few enough to leave the interpreter alone."""

    def __init__(self, count: int = 8) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="disk")

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
