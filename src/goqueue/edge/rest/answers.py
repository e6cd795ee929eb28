"""Answers to messages under a lease: ack, nack, reject, visibility; and how queues stand."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.answers import AckIn, AnswersOut, NackIn, OutcomeOut, RejectIn, VisibilityIn
from goqueue.api.messages import ErrorOut
from goqueue.base.errors import InvalidField, Unavailable
from goqueue.base.ids import Millis
from goqueue.base.leases import Outcome
from goqueue.base.times import parse_duration_ms
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.errors import problem
from goqueue.edge.rest.operations import JsonResponse, RestOperation, json
from goqueue.edge.rest.requests import Bodies, decode
from goqueue.service.front import Front
from goqueue.service.leasing import LEASE_MS_MAX, Leasing

_WELL_BEGIN, _WELL_NEXT, _WELL_END = '{"results":[{"receipt":"', '","ok":true},{"receipt":"', '","ok":true}]}\n'


class AnswerRoutes:
    def __init__(self, leasing: Front[Leasing], bodies: Bodies) -> None:
        self._leasing = leasing
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag = "queue"
        return [
            RestOperation("POST", "/messages/ack", self.ack, "Done with messages", tag, AnswersOut, 200, AckIn),
            RestOperation("POST", "/messages/nack", self.nack, "Failed: again later", tag, AnswersOut, 200, NackIn),
            RestOperation(
                "POST", "/messages/reject", self.reject, "To the dead letters", tag, AnswersOut, 200, RejectIn
            ),
            RestOperation(
                "POST", "/messages/visibility", self.visibility, "Keep longer", tag, AnswersOut, 200, VisibilityIn
            ),
        ]

    async def ack(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            receipts = _receipts(decode(body, AckIn))
        return told(receipts, await self._leasing.by(caller_of(request)).ack(receipts))

    async def nack(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, NackIn)
        receipts = _receipts(given)
        delay_ms = None if given.delay is None else _duration_ms(given.delay, "delay")
        return told(receipts, await self._leasing.by(caller_of(request)).nack(receipts, delay_ms, given.reason))

    async def reject(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, RejectIn)
        receipts = _receipts(given)
        return told(receipts, await self._leasing.by(caller_of(request)).reject(receipts, given.reason))

    async def visibility(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, VisibilityIn)
        receipts = _receipts(given)
        return told(
            receipts,
            await self._leasing.by(caller_of(request)).extend(receipts, _duration_ms(given.timeout, "timeout")),
        )


def _receipts(given: AckIn | NackIn | RejectIn | VisibilityIn) -> list[str]:
    if (given.receipt is None) == (given.receipts is None):
        raise InvalidField("Send either one receipt or a list of receipts.", field="receipt")
    return given.receipts if given.receipts is not None else [given.receipt or ""]


def _duration_ms(given: int | str, field: str) -> Millis:
    duration_ms = parse_duration_ms(given, field) if isinstance(given, str) else given
    if duration_ms > LEASE_MS_MAX:
        raise InvalidField(f"At most {LEASE_MS_MAX} ms (12 hours).", field=field)
    return duration_ms


def told(receipts: Sequence[str], outcomes: Sequence[Outcome]) -> Response:
    """200 if all went well, 207 if some did, a problem if none did. That of a receipt of which nothing is known comes
    first, so that nobody takes all of them for over."""
    if outcomes.count(None) == len(outcomes):
        return _all_well(receipts)
    failed = [outcome for outcome in outcomes if outcome is not None]
    if len(failed) == len(outcomes):
        return problem(next((one for one in failed if isinstance(one, Unavailable)), failed[0]))
    results = [
        OutcomeOut(receipt, True)
        if outcome is None
        else OutcomeOut(receipt, False, ErrorOut(outcome.code, outcome.message, outcome.field))
        for receipt, outcome in zip(receipts, outcomes, strict=True)
    ]
    return json(AnswersOut(results), 207)


def _all_well(receipts: Sequence[str]) -> Response:
    """`AnswersOut` of receipts that named leases: the names of topics, numbers and nonces, which JSON takes as they
    are."""
    text = f"{_WELL_BEGIN}{_WELL_NEXT.join(receipts)}{_WELL_END}"
    return JsonResponse(text.encode(), 200, "application/json")
