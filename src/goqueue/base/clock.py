"""Time as a port: drivers and verbs are handed a clock, machines are handed `now`."""

from __future__ import annotations

import time
from typing import Protocol

from goqueue.base.ids import Millis


class Clock(Protocol):
    """Wall-clock time. Timers belong to the event loop, not to the clock."""

    def now_ms(self) -> Millis: ...

    def now_ns(self) -> int:
        """The same moment, as fine as it is known."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> Millis:
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        return time.time_ns()
