"""Counts what a caller sends and gets over HTTP, where there are quotas."""

from __future__ import annotations

from starlette.types import Message, Receive, Scope, Send

from goqueue.base.commands import Caller
from goqueue.base.quotas import BYTES_IN, BYTES_OUT
from goqueue.service.quotas import ClientQuotas


def metered(quotas: ClientQuotas, caller: Caller, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """The same two, counted; `Throttled` if the caller has to wait first."""
    quotas.admit(caller)
    scope.pop("extensions", None)  # the short way of a whole answer goes past what counts it

    async def receiving() -> Message:
        message = await receive()
        if body := message.get("body"):
            quotas.charge(caller, "", BYTES_IN, len(body))
        return message

    async def sending(message: Message) -> None:
        if body := message.get("body"):
            quotas.charge(caller, "", BYTES_OUT, len(body))
        await send(message)

    return receiving, sending
