"""How long a message waits after a failure."""

from __future__ import annotations

from goqueue.base.ids import Millis

JITTER: float = 0.2  # the wait is shortened by up to this share, so that failures do not come back in step


def backoff_ms(failures: int, first_ms: Millis, longest_ms: Millis, chance: float) -> Millis:
    """Doubles with each failure up to the longest; `chance` is from 0 to 1."""
    doublings = min(failures - 1, 40)
    wait = min(first_ms << max(0, doublings), longest_ms)
    return int(wait * (1 - JITTER * chance))
