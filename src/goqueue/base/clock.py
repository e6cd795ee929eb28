"""Time as a port: drivers and verbs are handed a clock, machines are handed `now`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from goqueue.base.ids import Millis

_MS: Final = 1_000_000  # nanoseconds
_MEASURES: Final = 5


class Clock(Protocol):
    """Wall-clock time, which may be set, and monotonic time, which may not. Timers belong to the event loop."""

    def now_ms(self) -> Millis: ...

    def now_ns(self) -> int:
        """The same moment, as fine as it is known."""
        ...

    def monotonic_ns(self) -> int:
        """Only differences mean something."""
        ...


class SystemClock:
    """The machine's clock."""

    monotonic_ns = staticmethod(time.monotonic_ns)  # itself: it is asked several times for every request

    def now_ms(self) -> Millis:
        return time.time_ns() // _MS

    def now_ns(self) -> int:
        return time.time_ns()


class SteadyClock:
    """Wall-clock time that runs by the monotonic clock, so that it does not jump when the wall clock is set.

    `lag_ms` says how far the wall clock is ahead of it, and `follow` takes that over. Who holds deadlines moves them by
    the same: between the two a lease of thirty seconds lasts thirty seconds, whatever happens to the wall clock.
    """

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._monotonic_ns: Callable[[], int] = wall.monotonic_ns
        self._offset_ns = 0
        self._offset_ns = self._measure_ns()
        self._stepped_ns: int | None = None

    def now_ms(self) -> Millis:
        return (self._monotonic_ns() + self._offset_ns) // _MS

    def now_ns(self) -> int:
        return self._monotonic_ns() + self._offset_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns()

    def monotonic_ms(self) -> Millis:
        """For what lasts so long, whatever time it is."""
        return self._monotonic_ns() // _MS

    def agreed_ms(self) -> Millis:
        """A time that has come by this clock and by the wall clock: for what must not happen too early."""
        return min(self.now_ms(), self._wall.now_ms())

    def _measure_ns(self) -> int:
        """How far the wall clock is ahead. The shortest of some looks counts: a process can be held up in one."""
        found: list[tuple[int, int]] = []
        for _ in range(_MEASURES):
            before = self._monotonic_ns()
            wall = self._wall.now_ns()
            after = self._monotonic_ns()
            found.append((after - before, wall - (before + after) // 2 - self._offset_ns))
        return min(found)[1]

    def lag_ms(self) -> Millis:
        """So far is the wall clock ahead; less than nothing if it is behind."""
        return round(self._measure_ns() / _MS)

    def follow(self, lag_ms: Millis) -> None:
        """From now on the time is another."""
        self._offset_ns += lag_ms * _MS

    def stepped(self) -> None:
        """The wall clock was set just now."""
        self._stepped_ns = self._monotonic_ns()

    def is_steady(self, for_ms: Millis) -> bool:
        """Nobody set the wall clock for so long."""
        return self._stepped_ns is None or self._monotonic_ns() - self._stepped_ns >= for_ms * _MS


class AgreedClock:
    """Shows the time that has come by the node's clock and by the wall clock: what runs by it never runs early."""

    def __init__(self, steady: SteadyClock) -> None:
        self.now_ms: Callable[[], Millis] = steady.agreed_ms
        self.monotonic_ns: Callable[[], int] = steady.monotonic_ns

    def now_ns(self) -> int:
        return self.now_ms() * _MS
