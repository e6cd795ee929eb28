"""Answers to messages under a lease: ack, nack, reject, extend. Without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from goqueue.api.answers import AckIn, AnswersOut, NackIn, OutcomeOut, RejectIn, VisibilityIn
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError, PartlyAnswered, error_of_problem, invalid
from goqueue.client.leases import Leased
from goqueue.client.messages import Span, span
from goqueue.client.native_calls import NativeAck


def ack(receipts: Sequence[str]) -> RestCall[None]:
    return _answer("ack", AckIn(receipts=list(receipts)), NativeAck(receipts))


def nack(receipts: Sequence[str], delay: Span | None, reason: str) -> RestCall[None]:
    return _answer("nack", NackIn(receipts=list(receipts), delay=span(delay, "delay"), reason=reason))


def reject(receipts: Sequence[str], reason: str) -> RestCall[None]:
    return _answer("reject", RejectIn(receipts=list(receipts), reason=reason))


def extend(receipts: Sequence[str], timeout: Span) -> RestCall[None]:
    return _answer("visibility", VisibilityIn(cast(int | str, span(timeout, "timeout")), receipts=list(receipts)))


def receipts_of(messages: Sequence[Leased | str]) -> list[str]:
    """Messages and receipts, mixed, as receipts."""
    try:
        return [one if isinstance(one, str) else one.receipt for one in messages]
    except AttributeError:
        wrong = next(one for one in messages if not isinstance(one, (Leased, str)))
        raise invalid(
            f"An answer is for messages of a consumer or their receipts, not {wrong!r}.", "messages"
        ) from None


def _answer(
    verb: str, answer: AckIn | NackIn | RejectIn | VisibilityIn, native: NativeAck | None = None
) -> RestCall[None]:
    """`PartlyAnswered` if only some went well; where none did, the broker's own error for the first."""

    def read(status: int, body: bytes) -> None:
        results = from_json(body, AnswersOut).results
        failures = {one.receipt: _error_of(one) for one in results if not one.ok}
        if failures:
            raise PartlyAnswered(failures, len(results))

    return RestCall("POST", f"/messages/{verb}", read, body=lambda: msgspec.json.encode(answer), native=native)


def _error_of(outcome: OutcomeOut) -> GoQueueClientError:
    return error_of_problem(None, msgspec.to_builtins(outcome.error))
