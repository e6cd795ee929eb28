"""One timer for all deadlines of a machine: it is set anew only when the earliest deadline is another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.base.clock import Clock
from goqueue.base.ids import Millis

_REST_S: Final = 1.0  # before time is kept again after what was due could not be written


class DeadlineTimer:
    """Calls `tick` when the deadline has come."""

    def __init__(self, clock: Clock, tick: Callable[[], None]) -> None:
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._planned: Millis | None = None
        self._rests_until_s = 0.0  # by the loop's time

    def plan(self, deadline: Millis | None) -> None:
        """The earliest deadline there is now; None for none."""
        if deadline == self._planned:
            return
        self.stop()
        if deadline is not None:
            loop = asyncio.get_running_loop()
            delay_s = max(0, deadline - self._clock.now_ms()) / 1000
            self._timer = loop.call_later(max(delay_s, self._rests_until_s - loop.time()), self._tick)
            self._planned = deadline

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._planned = None

    def rest(self) -> None:
        """What was due could not be written; trying without a pause would keep the loop busy."""
        self._rests_until_s = asyncio.get_running_loop().time() + _REST_S

    def is_due(self, deadline: Millis | None) -> bool:
        is_resting = asyncio.get_running_loop().time() < self._rests_until_s
        return deadline is not None and not is_resting and deadline <= self._clock.now_ms()
