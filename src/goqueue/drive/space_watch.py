"""Measures the disk once a second, so that nobody has to ask on the way of a message."""

from __future__ import annotations

import logging

from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating
from goqueue.log.space import SpaceGuard

logger = logging.getLogger(__name__)

_PERIOD_S = 1.0


class SpaceWatch:
    """Also tells when the limit is crossed, either way."""

    def __init__(self, guard: SpaceGuard, offload: Offload) -> None:
        self._guard = guard
        self._offload = offload
        self._was_full = guard.is_full
        self._rounds = Repeating(_PERIOD_S, self._look)
        self.start = self._rounds.start
        self.stop = self._rounds.stop

    async def _look(self) -> None:
        usage = await self._offload(self._guard.measure)
        if self._guard.is_full != self._was_full:
            self._was_full = self._guard.is_full
            message = (
                "disk over its limit, writes refused" if self._was_full else "disk has room again, writes accepted"
            )
            logger.warning(message, extra={"used_percent": round(usage.used_percent, 1)})
