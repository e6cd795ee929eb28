"""Looks at the wall clock once a second: has somebody set it?

A step is noticed at once, logged and counted. It is believed when the clock has run on from it for a while: then the
node's own time follows, and everybody who holds deadlines moves them by the same, so that what lasts thirty seconds
lasts thirty seconds. A clock that was wrong for moments changes nothing. The same look lets every driver see whether
something is due, so that no timer, however it was set, is trusted for longer than a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Millis
from goqueue.base.limits import CLOCK_BELIEVED_MS, CLOCK_STEP_MS_MIN
from goqueue.drive.repeating import Repeating

logger = logging.getLogger(__name__)

_PERIOD_S: Final = 1.0
_DRIFT_MS: Final = 5


class Timekeeper(Protocol):
    """A driver that holds deadlines."""

    def look_again(self) -> None:
        """Does what is due, if anything is."""
        ...

    def clock_moved(self, by_ms: Millis) -> None:
        """The time is later by so much, or earlier; every deadline stays as far away as it was."""
        ...


class ClockWatch:
    """Started once; `on_step` is told of every step, in milliseconds."""

    def __init__(self, clock: SteadyClock, drivers: Sequence[Timekeeper], on_step: Callable[[Millis], None]) -> None:
        self._clock = clock
        self._drivers = drivers
        self._on_step = on_step
        self._seen: Millis | None = None  # a step that is not believed yet
        self._since: Millis = 0
        self._rounds = Repeating(_PERIOD_S, self._round)
        self.start = self._rounds.start
        self.stop = self._rounds.stop

    async def _round(self) -> None:
        self.look()
        for driver in self._drivers:
            try:
                driver.look_again()
            except Exception:
                logger.exception("what is due could not be done; it is looked at again")

    def look(self) -> None:
        lag_ms = self._clock.lag_ms()
        if abs(lag_ms) < CLOCK_STEP_MS_MIN:
            self._seems_right(lag_ms)
        elif self._seen is None or abs(lag_ms - self._seen) >= CLOCK_STEP_MS_MIN:
            self._noticed(lag_ms)
        elif self._clock.monotonic_ms() - self._since >= CLOCK_BELIEVED_MS:
            self._believe(lag_ms)

    def _seems_right(self, lag_ms: Millis) -> None:
        if self._seen is not None:
            self._clock.stepped()
            logger.warning("the clock is right again", extra={"was_off_ms": self._seen})
            self._seen = None
        if abs(lag_ms) >= _DRIFT_MS:
            self._clock.follow(lag_ms)

    def _noticed(self, lag_ms: Millis) -> None:
        logger.warning("the clock was set; waiting whether it stays", extra={"step_ms": lag_ms - (self._seen or 0)})
        self._on_step(lag_ms - (self._seen or 0))
        self._clock.stepped()
        self._seen, self._since = lag_ms, self._clock.monotonic_ms()

    def _believe(self, lag_ms: Millis) -> None:
        logger.warning("the node follows the clock", extra={"step_ms": lag_ms})
        self._clock.follow(lag_ms)
        self._seen = None
        for driver in self._drivers:
            driver.clock_moved(lag_ms)
