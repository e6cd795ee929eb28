"""Answers to messages under a lease: ack, nack, reject, extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField, Unavailable
from goqueue.base.leases import Outcome
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.errors import brief
from goqueue.service.front import Front
from goqueue.service.leasing import LEASE_MS_MAX, Leasing
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Subscriber"
_TEXT_MAX: Final = 1_000


class AnswerMethods:
    def __init__(self, leasing: Front[Leasing]) -> None:
        self._leasing = leasing

    def methods(self) -> list[GrpcMethod]:
        kinds = {"Ack": pb.AckRequest, "Nack": pb.NackRequest, "Reject": pb.RejectRequest, "Extend": pb.ExtendRequest}
        return [GrpcMethod(f"{_SERVICE}/{name}", kind, self.answer) for name, kind in kinds.items()]

    async def answer(self, request: Any, call: GrpcCall) -> pb.AnswerResponse:
        """An error if all failed: that of a receipt of which nothing is known before others, so that nobody takes all
        of them for over."""
        receipts, outcomes = await self.outcomes(request, call.caller)
        failed = [one for one in outcomes if one is not None]
        if len(failed) == len(outcomes):
            raise next((one for one in failed if isinstance(one, Unavailable)), failed[0])
        return pb.AnswerResponse(failures=failures_out(receipts, outcomes))

    async def outcomes(self, request: Any, caller: Caller) -> tuple[list[str], Sequence[Outcome]]:
        receipts = _receipts(request)
        leasing = self._leasing.by(caller)
        if isinstance(request, pb.AckRequest):
            return receipts, await leasing.ack(receipts)
        if isinstance(request, pb.NackRequest):
            delay_ms = _lease(request.delay_ms, "delay_ms") if request.HasField("delay_ms") else None
            return receipts, await leasing.nack(receipts, delay_ms, _reason(request.reason))
        if isinstance(request, pb.RejectRequest):
            return receipts, await leasing.reject(receipts, _reason(request.reason))
        return receipts, await leasing.extend(receipts, _lease(request.lease_ms, "lease_ms"))


def failures_out(receipts: Sequence[str], outcomes: Sequence[Outcome]) -> list[pb.ReceiptFailure]:
    if outcomes.count(None) == len(outcomes):
        return []
    return [
        pb.ReceiptFailure(receipt=receipt, error=brief(outcome))
        for receipt, outcome in zip(receipts, outcomes, strict=True)
        if outcome is not None
    ]


def _receipts(request: Any) -> list[str]:
    if not 0 < len(request.receipts) <= MESSAGES_PER_READ_MAX:
        raise InvalidField(f"Send 1 to {MESSAGES_PER_READ_MAX} receipts.", field="receipts")
    return list(request.receipts)


def _lease(value: int, field: str) -> int:
    if not 0 <= value <= LEASE_MS_MAX:
        raise InvalidField(f"From 0 to {LEASE_MS_MAX} ms (12 hours).", field=field)
    return value


def _reason(text: str) -> str:
    if len(text) > _TEXT_MAX:
        raise InvalidField(f"A reason has at most {_TEXT_MAX} characters.", field="reason")
    return text
