"""How long to keep trying: pauses that double, until the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from goqueue.pipeline.link.errors import NodeUnreachable

_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0


class Patience:
    """Begins with the first failure; progress makes it whole again."""

    def __init__(self, address: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = None
        self._pause_s = _PAUSE_FIRST_S

    @property
    def seconds(self) -> float:
        return self._seconds

    def renew(self) -> None:
        """Something went well."""
        self._since = None
        self._pause_s = _PAUSE_FIRST_S

    def is_over(self) -> bool:
        """Whether the time is up; the first call begins it."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since >= self._seconds

    def pause(self, why: Exception) -> None:
        """Waits before the next attempt. With no time left it raises: `why`, or that nobody answered."""
        if self.is_over():
            if isinstance(why, OSError):
                raise NodeUnreachable(self._address, self._seconds, str(why) or type(why).__name__) from why
            raise why
        time.sleep(self._pause_s)
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s)
