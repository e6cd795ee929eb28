"""Who calls over HTTP."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from goqueue.base.commands import Caller, anonymous

CALLER: Final = "goqueue.caller"  # where the door notes who has shown who it is


def caller_of(request: Request) -> Caller:
    known: Caller | None = request.scope.get(CALLER)
    if known is not None:
        return known
    client = request.scope.get("client")
    return anonymous("rest", client[0] if client else "")
