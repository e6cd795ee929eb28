"""Who calls over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from goqueue.base.commands import Caller, anonymous
from goqueue.edge.security.http_login import CALLER


def caller_of(request: Request) -> Caller:
    known: Caller | None = request.scope.get(CALLER)
    if known is not None:
        return known
    client = request.scope.get("client")
    return anonymous("rest", client[0] if client else "")
