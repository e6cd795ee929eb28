"""Sessions with etcd: leases of its own, which `RenewedSession` keeps alive."""

from __future__ import annotations

import asyncio

import grpc

from goqueue.base.errors import StoreOutOfReach
from goqueue.drive.etcd_calls import GRANT, KEEP_ALIVE, REVOKE, EtcdCalls
from goqueue.drive.renewed_session import RenewedSession, passed_s
from goqueue.wire import etcd_pb2 as etcd


class EtcdLeases:
    """Without a quorum etcd ends no lease."""

    def __init__(self, calls: EtcdCalls) -> None:
        self._calls = calls

    async def begin(self, length_s: int) -> RenewedSession:
        sent = passed_s()
        granted = await self._calls.ask(GRANT, etcd.GrantRequest(ttl=length_s))
        return RenewedSession(self, granted.id, granted.ttl, sent)

    async def revoke(self, session: int) -> None:
        await self._calls.ask(REVOKE, etcd.RevokeRequest(id=session))

    async def keep_alive(self, session: int, within_s: float) -> float:
        member, stream = await self._calls.stream(KEEP_ALIVE)
        try:
            async with asyncio.timeout(max(within_s, 0.5)):
                await stream.write(etcd.KeepAliveRequest(id=session))
                answer = await stream.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self._calls.leave(member)
            raise StoreOutOfReach(f"The metadata store did not renew a session: {error}") from error
        except TimeoutError:
            self._calls.leave(member)
            raise
        finally:
            stream.cancel()
        if answer is grpc.aio.EOF:
            self._calls.leave(member)
            raise StoreOutOfReach("The metadata store ended a renewal without an answer.")
        return float(answer.ttl)
