"""A timer wheel: any number of timers, constant work for each. Pure: told the time, it says who is due.

Four levels of slots: 256 of 5 ms, 64 of 1.28 s, 64 of 81.92 s, 64 of 1.46 h. A timer lies in the level that its
distance fits and falls to a finer one when its slot comes up; one beyond the last level waits in its last slot. A timer
fires at the first tick at or after its time: never early, less than a tick late.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from goqueue.base.ids import Millis

TICK_MS: Final = 5
_SLOTS: Final = (256, 64, 64, 64)
_SHIFTS: Final = (0, 8, 14, 20)
_FAR: Final = 1 << 26  # ticks that the four levels span

T = TypeVar("T", bound=int)

_Slot = dict[T, Millis]


class Wheel(Generic[T]):
    """Timers are known by a token; a token has at most one timer."""

    __slots__ = ("_levels", "_overdue", "_tick", "_used", "_where")

    def __init__(self, now: Millis) -> None:
        self._tick = now // TICK_MS
        self._levels: list[list[_Slot[T]]] = [[{} for _ in range(count)] for count in _SLOTS]
        self._used = [0] * len(_SLOTS)  # a bit for each slot that may hold something
        self._overdue: _Slot[T] = {}
        self._where: dict[T, _Slot[T]] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, token: T) -> bool:
        return token in self._where

    def add(self, token: T, due: Millis) -> None:
        """Sets the token's timer; an earlier one of the same token is forgotten."""
        if token in self._where:
            self.cancel(token)
        slot = self._slot(-(-due // TICK_MS))
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
        due = list(self._overdue.items())
        self._overdue.clear()
        target = now // TICK_MS
        while (tick := self._next_tick()) is not None and tick <= target:
            self._tick = tick
            self._fall(tick)
            slot = self._levels[0][tick & 255]
            due += slot.items()
            slot.clear()
            self._used[0] &= ~(1 << (tick & 255))
        self._tick = max(self._tick, target)
        # A slot of a coarser level that came up may have held timers of this very tick.
        due += self._overdue.items()
        self._overdue.clear()
        due.sort(key=lambda timer: (timer[1], timer[0]))
        for token, _ in due:
            del self._where[token]
        return [token for token, _ in due]

    def next_deadline(self) -> Millis | None:
        """When to call `advance` next; it may find nobody due then. None without timers."""
        if self._overdue:
            return self._tick * TICK_MS
        tick = self._next_tick() if self._where else None
        return None if tick is None else tick * TICK_MS

    def _slot(self, tick: int) -> _Slot[T]:
        """Where a timer of that tick lies now."""
        distance = tick - self._tick
        if distance <= 0:
            return self._overdue
        if distance >= _FAR:
            tick = self._tick + _FAR - 1
            level = 3
        else:
            level = 0 if distance < 1 << 8 else 1 if distance < 1 << 14 else 2 if distance < 1 << 20 else 3
        at = (tick >> _SHIFTS[level]) & (_SLOTS[level] - 1)
        self._used[level] |= 1 << at
        return self._levels[level][at]

    def _next_tick(self) -> int | None:
        """The next tick at which a slot of any level comes up."""
        best: int | None = None
        for level, used in enumerate(self._used):
            if used:
                count, shift = _SLOTS[level], _SHIFTS[level]
                turn = (self._tick >> shift) + 1
                start = turn & (count - 1)
                ahead = (used >> start) | (used << (count - start)) & ((1 << count) - 1)
                tick = (turn + (ahead & -ahead).bit_length() - 1) << shift
                if best is None or tick < best:
                    best = tick
        return best

    def _fall(self, tick: int) -> None:
        """Timers of coarser slots that come up now go where they belong."""
        for level in (3, 2, 1):
            shift = _SHIFTS[level]
            if tick & ((1 << shift) - 1):
                continue
            at = (tick >> shift) & (_SLOTS[level] - 1)
            self._used[level] &= ~(1 << at)
            slot = self._levels[level][at]
            timers = list(slot.items())
            slot.clear()
            for token, due in timers:
                into = self._slot(-(-due // TICK_MS))
                into[token] = due
                self._where[token] = into
