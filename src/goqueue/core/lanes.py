"""Which priority lane is served next: deficit round robin that spends its quantum, with a guard; or strict order.

A lane that is visited may hand out as many messages as its weight before the next lane's turn; what it cannot use is
lost. With every lane full the shares are the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from goqueue.base.ids import Millis

WEIGHTS: Final = (50, 25, 15, 7, 3)
GUARD_MS: Final = 30_000


class LaneTurn:
    """The turn of one consumer, or of one group whose members share everything."""

    __slots__ = ("_credit", "_current", "_guard_ms", "_since", "_weights", "visits")

    def __init__(self, weights: Sequence[int] = WEIGHTS, guard_ms: Millis = GUARD_MS) -> None:
        self._weights = tuple(weights)
        self._guard_ms = guard_ms
        self._current = 0
        self._credit = self._weights[0]
        self.visits = 0  # how often somebody came, for whoever takes other turns by it
        self._since: list[Millis | None] = [None] * len(weights)  # when a lane with messages began to wait

    def next(self, waiting: Sequence[bool], now: Millis, strict: bool = False) -> tuple[int, int] | None:
        """The lane to serve and how many messages it may hand out; None if no lane has any."""
        self._note(waiting, now)
        if not any(waiting):
            return None
        if strict:
            return list(waiting).index(True), self._weights[0]
        starving = self._starving(now)
        if starving is not None:
            return starving, 1
        while not waiting[self._current]:
            self._turn()
        return self._current, self._credit

    def served(self, lane: int, count: int, now: Millis) -> None:
        """The lane handed out so many; 0 says that it had none after all."""
        self._since[lane] = now if count else None
        if lane == self._current:
            self._credit -= count
            if self._credit <= 0 or not count:
                self._turn()

    def _turn(self) -> None:
        self._current = (self._current + 1) % len(self._weights)
        self._credit = self._weights[self._current]

    def _note(self, waiting: Sequence[bool], now: Millis) -> None:
        for lane, has_some in enumerate(waiting):
            if not has_some:
                self._since[lane] = None
            elif self._since[lane] is None:
                self._since[lane] = now

    def _starving(self, now: Millis) -> int | None:
        """The lane that has waited longest, if it is too long."""
        waits = [(since, lane) for lane, since in enumerate(self._since) if since is not None]
        since, lane = min(waits)
        return lane if now - since >= self._guard_ms else None
