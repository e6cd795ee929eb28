"""How fast a node sends to replicas that moves add, so that clients do not notice them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.base.ids import Millis
from goqueue.core.quotas import Meter

_PARTS_PER_S: Final = 20  # so that it is even
_PART_BYTES_MIN: Final = 64 * 1024
_KEPT_S: Final = 1.0  # a node that was held up catches up on this much


class CopyThrottle:
    """Of all that one node sends. The limit may change at any time."""

    def __init__(self, bytes_per_s: Callable[[], int]) -> None:
        """0 means no limit."""
        self._bytes_per_s = bytes_per_s
        self._meter: Meter | None = None

    def wait_ms(self) -> Millis:
        """Before anything more may be sent."""
        meter = self._now()
        return 0 if meter is None else meter.wait_ms(_now_ms())

    def part(self, bytes_max: int) -> int:
        """How much may be sent at once now: more if nothing was sent for a while, since on a busy machine answers come
        too seldom to keep to the limit by small ones."""
        meter = self._now()
        if meter is None:
            return bytes_max
        if meter.wait_ms(_now_ms()):
            return 0
        part = max(int(meter.per_s) // _PARTS_PER_S, int(meter.left(_now_ms())))
        return min(bytes_max, max(_PART_BYTES_MIN, part))

    def sent(self, size: int) -> None:
        if self._meter is not None and size:
            self._meter.charge(size, _now_ms())

    def _now(self) -> Meter | None:
        per_s = self._bytes_per_s()
        if not per_s:
            self._meter = None
        elif self._meter is None or self._meter.per_s != per_s:
            self._meter = Meter(per_s, _now_ms(), _KEPT_S)
        return self._meter


def _now_ms() -> Millis:
    return int(asyncio.get_running_loop().time() * 1000)
