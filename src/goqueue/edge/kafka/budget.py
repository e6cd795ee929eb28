"""Bytes that all connections together may hold: requests that wait, answers that wait, answers that are not read.

Whoever reads files to answer asks for room first. If the limit is passed all the same, the connection that holds the
most has to go: a client that does not read its answers costs itself, not its neighbours.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from goqueue.base.limits import FETCH_ROOM_BYTES_MIN


class Holder(Protocol):
    """A connection: knows what it holds, and can be ended."""

    @property
    def held(self) -> int: ...

    def recount(self) -> None: ...

    def evict(self) -> None: ...


class Budget:
    """A number that must not be passed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0  # by connections
        self._reserved = 0  # by reads under way
        self._holders: set[Holder] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, holder: Holder) -> None:
        self._holders.add(holder)

    def discard(self, holder: Holder) -> None:
        self._holders.discard(holder)

    def change(self, by: int) -> None:
        """A connection holds more or less now; if all together hold too much the largest is ended."""
        self.held += by
        if by > 0:
            if self.held > self.limit:
                self._relieve()
        elif self._waiting:
            self._wake()

    # --- room for what is about to be read -----------------------------------------------------------------

    def reserve(self, wanted: int) -> int:
        """So many bytes may be read, perhaps less than wanted; 0 if there is no room now. Give them back in the end."""
        room = self._room()
        if room < min(wanted, FETCH_ROOM_BYTES_MIN):
            self._recount()
            room = self._room()
        granted = min(wanted, room) if room >= min(wanted, FETCH_ROOM_BYTES_MIN) else 0
        self._reserved += granted
        return granted

    def release(self, granted: int) -> None:
        self._reserved -= granted
        if self._waiting:
            self._wake()

    async def wait(self, timeout_s: float) -> None:
        """Returns when there may be room again, or the time is over."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            self._waiting.discard(waiter)

    def is_tight(self) -> bool:
        """A quarter at most is free: who wants to read a lot gets little, or waits."""
        return self._room() < self.limit // 4

    def _room(self) -> int:
        return self.limit - self.held - self._reserved

    def _wake(self) -> None:
        if self._room() >= min(FETCH_ROOM_BYTES_MIN, self.limit):
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    # --- too much ------------------------------------------------------------------------------------------

    def _recount(self) -> None:
        """Clients read on without anybody noticing; what they took counts no more."""
        for holder in tuple(self._holders):
            holder.recount()

    def _relieve(self) -> None:
        self._recount()
        while self.held > self.limit and self._holders:
            largest = max(self._holders, key=lambda holder: holder.held)
            if largest.held == 0:
                return
            self._holders.discard(largest)
            largest.evict()
