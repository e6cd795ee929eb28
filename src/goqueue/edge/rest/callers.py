"""Who calls over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from goqueue.base.commands import Caller, anonymous


def caller_of(request: Request) -> Caller:
    client = request.scope.get("client")
    return anonymous("rest", client[0] if client else "")
