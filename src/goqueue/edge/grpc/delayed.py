"""Delayed messages."""

from __future__ import annotations

from typing import Any, Final

from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.edge.grpc.translate import headers_out, number_in
from goqueue.service.front import Front, answer_of
from goqueue.service.scheduling import DelayedMessage, Scheduling
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.DelayedMessages"
_LIMIT: Final = 100


class DelayedMethods:
    def __init__(self, scheduling: Front[Scheduling]) -> None:
        self._scheduling = scheduling

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/ListDelayed", pb.ListDelayedRequest, self.list),
            GrpcMethod(f"{_SERVICE}/GetDelayed", pb.GetDelayedRequest, self.get),
            GrpcMethod(f"{_SERVICE}/CancelDelayed", pb.CancelDelayedRequest, self.cancel),
        ]

    async def list(self, request: pb.ListDelayedRequest, call: GrpcCall) -> pb.ListDelayedResponse:
        limit = number_in(request.limit or _LIMIT, "limit", 1, MESSAGES_PER_READ_MAX)
        skip = number_in(request.skip, "skip", 0, 2**63 - 1)
        found = await self._scheduling.by(call.caller).list(request.topic, limit, skip)
        pending = await answer_of(self._scheduling.by(call.caller).pending(request.topic))
        return pb.ListDelayedResponse(delayed=[_out(one) for one in found], pending=pending)

    async def get(self, request: pb.GetDelayedRequest, call: GrpcCall) -> pb.DelayedMessage:
        return _out(await self._scheduling.by(call.caller).show(*address_in(request)))

    async def cancel(self, request: pb.CancelDelayedRequest, call: GrpcCall) -> pb.CancelDelayedResponse:
        await self._scheduling.by(call.caller).cancel(*address_in(request))
        return pb.CancelDelayedResponse()


def address_in(request: Any) -> tuple[str, int, int]:
    partition = number_in(request.partition, "partition", 0, 2**31 - 1)
    return request.topic, partition, number_in(request.offset, "offset", 0, 2**63 - 1)


def _out(one: DelayedMessage) -> pb.DelayedMessage:
    shown = made(pb.DelayedMessage, one, deliver_at_ms=one.due_ms)
    if one.message is not None:
        shown.MergeFrom(pb.DelayedMessage(key=one.message.key, value=one.message.value))
        shown.headers.extend(headers_out(one.message.headers))
        shown.accepted_ms = one.message.timestamp_ms
    return shown
