"""One at a time, by name: who wants several names takes them in order, so that nobody waits in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager


class Turns:
    """A name is known while somebody has it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # with how many hold or want each

    def __contains__(self, name: object) -> bool:
        return name in self._locks

    @asynccontextmanager
    async def of(self, *names: str) -> AsyncIterator[None]:
        """All of them at once."""
        async with AsyncExitStack() as stack:
            for name in sorted(names):
                await stack.enter_async_context(self.one(name))
            yield

    @asynccontextmanager
    async def one(self, name: str) -> AsyncIterator[None]:
        lock, wanted = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, wanted + 1
        try:
            async with lock:
                yield
        finally:
            wanted = self._locks[name][1] - 1
            if wanted:
                self._locks[name] = lock, wanted
            else:
                del self._locks[name]
