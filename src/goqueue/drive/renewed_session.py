"""A session with a store in another process: a lease that is renewed while this process lives.

Whether it holds is told by this machine's own clock, counted from when the last good renewal was sent: a store that is
out of reach, or stands still, ends no lease, and nobody tells.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, Protocol

from goqueue.base.errors import GoQueueError
from goqueue.drive.background_tasks import BackgroundTasks

logger = logging.getLogger(__name__)

_RENEWALS: Final = 3  # in the length of a session
_HURRY_S: Final = 0.2  # between two tries, after one failed
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def passed_s() -> float:
    """A clock that goes on while the machine is suspended, as that of the store does, where there is one."""
    return time.clock_gettime(_CLOCK)


class Renewing(Protocol):
    """How the store is told. Both raise `GoQueueError` or `TimeoutError` if it does not hear."""

    async def keep_alive(self, session: int, within_s: float) -> float:
        """Seconds that are left of the lease; 0 if it is no more."""
        ...

    async def revoke(self, session: int) -> None: ...


class RenewedSession:
    """A `Session`. `since` is when the lease was asked for."""

    def __init__(self, store: Renewing, session_id: int, length_s: float, since: float) -> None:
        self.id = session_id
        self._store = store
        self._length_s = length_s
        self._good_until = since + length_s
        self._is_over = False
        self._tasks = BackgroundTasks("the session with the metadata store")
        self._tasks.spawn(self._renew())

    @property
    def is_lost(self) -> bool:
        return self._is_over or passed_s() >= self._good_until

    async def end(self) -> None:
        """Its keys are gone when it returns, or go when the lease runs out."""
        self._is_over = True
        await self._tasks.stop()
        try:
            await self._store.revoke(self.id)
        except GoQueueError as error:
            logger.warning("a session ends by itself", extra={"error": error.message})

    async def _renew(self) -> None:
        every_s = self._length_s / _RENEWALS
        while not self.is_lost:
            await asyncio.sleep(every_s)
            sent = passed_s()
            try:
                left_s = await self._store.keep_alive(self.id, every_s)
            except (GoQueueError, TimeoutError) as error:
                logger.warning("the session was not renewed; trying again", extra={"error": str(error)})
                every_s = min(every_s, _HURRY_S)
                continue
            if left_s <= 0 or self.is_lost:  # another one may have been begun in its place
                break
            self._length_s, self._good_until, every_s = left_s, sent + left_s, left_s / _RENEWALS
        if not self._is_over:
            logger.error("the session with the metadata store is over")
        self._is_over = True
