"""One at a time, by name: who wants several names takes them in order, so that nobody waits in a circle."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

_Waiters: TypeAlias = deque[asyncio.Future[None]]


class Turn:
    """`async with` it to have one name. Who leaves hands it to the next in line."""

    __slots__ = ("_name", "_taken")

    def __init__(self, taken: dict[str, _Waiters], name: str) -> None:
        self._taken = taken
        self._name = name

    async def __aenter__(self) -> None:
        waiters = self._taken.get(self._name)
        if waiters is None:
            self._taken[self._name] = deque()
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was handed over just now
                self._hand_over()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        waiters = self._taken[self._name]
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._taken[self._name]


class Turns:
    """A name is known while somebody has it or waits for it."""

    def __init__(self) -> None:
        self._taken: dict[str, _Waiters] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    @asynccontextmanager
    async def of(self, *names: str) -> AsyncIterator[None]:
        """All of them at once."""
        async with AsyncExitStack() as stack:
            for name in sorted(names):
                await stack.enter_async_context(self.one(name))
            yield

    def one(self, name: str) -> Turn:
        return Turn(self._taken, name)
