"""So many a second, and no more: a bucket that fills with time."""

from __future__ import annotations

from typing import Final

from goqueue.base.ids import Millis

_BURST_MS: Final = 100  # what was not used for longer than this is lost
_TICK_MS: Final = 50  # little by little, not one by one


class TokenBucket:
    """Begins empty. Without a rate there is no bound."""

    def __init__(self, per_s: float | None, now: Millis) -> None:
        self._per_s = per_s
        self._tokens = 0.0
        self._at = now

    def take(self, wanted: int, now: Millis) -> int:
        """How many may go now; at most as many as wanted."""
        if self._per_s is None:
            return wanted
        self._fill(now)
        given = min(wanted, int(self._tokens))
        self._tokens -= given
        return given

    def wait_ms(self, wanted: int, now: Millis) -> Millis:
        """How long until it is worth to ask again."""
        if self._per_s is None:
            return 0
        self._fill(now)
        enough = max(1.0, min(float(wanted), self._per_s * _TICK_MS / 1000))
        missing = enough - self._tokens
        return 0 if missing <= 0 else max(1, round(missing * 1000 / self._per_s))

    def _fill(self, now: Millis) -> None:
        assert self._per_s is not None
        most = max(2.0, self._per_s * _BURST_MS / 1000)
        self._tokens = min(most, self._tokens + max(0, now - self._at) * self._per_s / 1000)
        self._at = now
