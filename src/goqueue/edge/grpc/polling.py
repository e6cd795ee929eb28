"""Messages under leases by request, for members that joined over the REST API."""

from __future__ import annotations

from typing import Final

from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.base.names import check_name
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.deliveries import columns
from goqueue.edge.grpc.translate import number_in
from goqueue.service.consume import Consuming, Poll
from goqueue.service.front import Front
from goqueue.service.leasing import LEASE_MS_MAX
from goqueue.wire import goqueue_pb2 as pb

_LIMIT_DEFAULT: Final = 100


class PollMethods:
    def __init__(self, consuming: Front[Consuming]) -> None:
        self._consuming = consuming

    def methods(self) -> list[GrpcMethod]:
        return [GrpcMethod("goqueue.v1.Subscriber/Poll", pb.PollRequest, self.poll, is_wait=True)]

    async def poll(self, request: pb.PollRequest, call: GrpcCall) -> pb.PollResponse:
        """As a member that joined over the REST API does."""
        asked = Poll(
            check_name(request.group, "group", "group"),
            request.member_id,
            number_in(request.generation, "generation", 0, 2**31 - 1),
            number_in(request.limit or _LIMIT_DEFAULT, "limit", 1, MESSAGES_PER_READ_MAX),
            call.wait_ms(request.wait_ms),
            number_in(request.lease_ms, "lease_ms", 0, LEASE_MS_MAX) or None,
            call.caller,
        )
        polled = await self._consuming.by(call.caller).poll(asked)
        answer = pb.PollResponse(generation=polled.generation, rebalance=polled.rebalance)
        columns(polled.runs, answer)
        return answer
