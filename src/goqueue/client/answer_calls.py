"""Answers to messages under a lease: ack, nack, reject, extend. Without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError, PartlyAnswered, error_of_problem, invalid
from goqueue.client.leases import Leased
from goqueue.client.messages import Span, span


class _Outcome(msgspec.Struct):
    receipt: str
    ok: bool
    error: dict[str, Any] | None = None


class _Outcomes(msgspec.Struct):
    results: list[_Outcome]


def ack(receipts: Sequence[str]) -> RestCall[None]:
    return _answer("ack", receipts, {})


def nack(receipts: Sequence[str], delay: Span | None, reason: str) -> RestCall[None]:
    return _answer("nack", receipts, {"delay": span(delay, "delay"), "reason": reason})


def reject(receipts: Sequence[str], reason: str) -> RestCall[None]:
    return _answer("reject", receipts, {"reason": reason})


def extend(receipts: Sequence[str], timeout: Span) -> RestCall[None]:
    return _answer("visibility", receipts, {"timeout": span(timeout, "timeout")})


def receipts_of(messages: Sequence[Leased | str]) -> list[str]:
    """Messages and receipts, mixed, as receipts."""
    for one in messages:
        if not isinstance(one, Leased | str):
            raise invalid(f"An answer is for messages of a consumer or their receipts, not {one!r}.", "messages")
    return [one if isinstance(one, str) else one.receipt for one in messages]


def _answer(verb: str, receipts: Sequence[str], members: dict[str, object]) -> RestCall[None]:
    """`PartlyAnswered` if only some went well; where none did, the broker's own error for the first."""
    given = {name: value for name, value in members.items() if value not in (None, "")}

    def read(status: int, body: bytes) -> None:
        results = msgspec.json.decode(body, type=_Outcomes).results
        failures = {one.receipt: _error_of(one) for one in results if not one.ok}
        if failures:
            raise PartlyAnswered(failures, len(results))

    return RestCall("POST", f"/messages/{verb}", read, body=msgspec.json.encode({"receipts": list(receipts), **given}))


def _error_of(outcome: _Outcome) -> GoQueueClientError:
    return error_of_problem(None, outcome.error)
