"""A session with etcd: a lease that is renewed while the node lives.

Whether it holds is told by the node's own clock, counted from when the last good renewal was sent: without a quorum
etcd ends no lease, and nobody tells.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

import grpc

from goqueue.base.errors import GoQueueError, StoreOutOfReach
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.etcd_calls import GRANT, KEEP_ALIVE, REVOKE, EtcdCalls
from goqueue.wire import etcd_pb2 as etcd

logger = logging.getLogger(__name__)

_RENEWALS: Final = 3  # in the length of a session


class EtcdSession:
    """Made by `begin`."""

    def __init__(self, calls: EtcdCalls, lease: int, length_s: float, since: float) -> None:
        self.id = lease
        self._calls = calls
        self._length_s = length_s
        self._good_until = since + length_s
        self._is_over = False
        self._tasks = BackgroundTasks("the session with the metadata store")
        self._tasks.spawn(self._renew())

    @classmethod
    async def begin(cls, calls: EtcdCalls, length_s: int) -> EtcdSession:
        sent = time.monotonic()
        granted = await calls.ask(GRANT, etcd.GrantRequest(ttl=length_s))
        return cls(calls, granted.id, granted.ttl, sent)

    @property
    def is_lost(self) -> bool:
        return self._is_over or time.monotonic() >= self._good_until

    async def end(self) -> None:
        """Its keys are gone when it returns, or go when the lease runs out."""
        self._is_over = True
        await self._tasks.stop()
        try:
            await self._calls.ask(REVOKE, etcd.RevokeRequest(id=self.id))
        except GoQueueError as error:
            logger.warning("a session ends by itself", extra={"error": error.message})

    async def _renew(self) -> None:
        every_s = self._length_s / _RENEWALS
        while not self.is_lost:
            await asyncio.sleep(every_s)
            sent = time.monotonic()
            try:
                left_s = await self._keep_alive(every_s)
            except (GoQueueError, grpc.aio.AioRpcError, TimeoutError) as error:
                logger.warning("the session was not renewed; trying again", extra={"error": str(error)})
                every_s = min(every_s, 0.2)
                continue
            if left_s <= 0:
                break
            self._length_s, self._good_until, every_s = left_s, sent + left_s, left_s / _RENEWALS
        if not self._is_over:
            logger.error("the session with the metadata store is over")
        self._is_over = True

    async def _keep_alive(self, within_s: float) -> int:
        """What is left of the lease; 0 if it is no more."""
        member, stream = await self._calls.stream(KEEP_ALIVE)
        try:
            async with asyncio.timeout(max(within_s, 0.5)):
                await stream.write(etcd.KeepAliveRequest(id=self.id))
                answer = await stream.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
            self._calls.leave(member)
            raise
        finally:
            stream.cancel()
        if answer is grpc.aio.EOF:
            self._calls.leave(member)
            raise StoreOutOfReach("The metadata store ended a renewal without an answer.")
        return int(answer.ttl)
