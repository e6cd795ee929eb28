"""Timers: any number of them, a few steps of work for each. Pure: told the time, it says who is due.

A wheel that is unrolled: one slot for each tick that has timers, and a heap of those ticks that says which is next. A
wheel of several levels has to move all timers of a coarse slot at once when that comes up, and ten thousand a second
make this a stall of tens of milliseconds; here a tick costs what its own timers cost. A timer fires at the first tick
at or after its time: never early, less than a tick late.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from goqueue.base.ids import Millis

TICK_MS: Final = 5

T = TypeVar("T", bound=int)


class Wheel(Generic[T]):
    """Timers are known by a token; a token has at most one timer."""

    __slots__ = ("_slots", "_ticks", "_where")

    def __init__(self) -> None:
        self._slots: dict[int, dict[T, Millis]] = {}  # by tick; one whose timers are cancelled stays until its time
        self._ticks: list[int] = []
        self._where: dict[T, dict[T, Millis]] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, token: T) -> bool:
        return token in self._where

    def add(self, token: T, due: Millis) -> None:
        """Sets the token's timer; an earlier one of the same token is forgotten."""
        if token in self._where:
            self.cancel(token)
        tick = -(-due // TICK_MS)
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = {}
            heappush(self._ticks, tick)
        slot[token] = due
        self._where[token] = slot

    def cancel(self, token: T) -> bool:
        """True if there was a timer."""
        slot = self._where.pop(token, None)
        if slot is None:
            return False
        del slot[token]
        return True

    def advance(self, now: Millis) -> list[T]:
        """Everybody who is due, by time and token. Time that goes back changes nothing."""
        due: list[tuple[T, Millis]] = []
        while self._ticks and self._ticks[0] * TICK_MS <= now:
            due += self._slots.pop(heappop(self._ticks)).items()
        due.sort(key=lambda timer: (timer[1], timer[0]))
        for token, _ in due:
            del self._where[token]
        return [token for token, _ in due]

    def next_deadline(self) -> Millis | None:
        """When to call `advance` next; it may find nobody due then. None without timers."""
        return self._ticks[0] * TICK_MS if self._where else None
