"""Counts what a caller sends and gets over gRPC, where there are quotas."""

from __future__ import annotations

import asyncio

from goqueue.base.commands import Caller
from goqueue.base.ids import Millis
from goqueue.service.quotas import ClientQuotas


class CallMeter:
    """Of one call. A call is refused at its beginning alone; a stream that is over a quota is slowed down. Without
    `quotas` nothing is counted."""

    def __init__(self, quotas: ClientQuotas | None, caller: Caller) -> None:
        self._quotas = quotas
        self._caller = caller

    def admit(self) -> None:
        """`Throttled` if the caller has to wait because of what it did before."""
        if self._quotas is not None and self._quotas.is_set:
            self._quotas.admit(self._caller)

    def charge(self, limit: str, size: int) -> Millis:
        """How long the caller has to wait after this."""
        quotas = self._quotas
        return quotas.charge(self._caller, "", limit, size) if quotas is not None and quotas.is_set else 0

    async def wait(self, limit: str, size: int) -> None:
        """Until the average is kept."""
        wait_ms = self.charge(limit, size)
        if wait_ms and self._quotas is not None:
            self._quotas.throttled(self._caller.door, limit, wait_ms)
            await asyncio.sleep(wait_ms / 1000)
