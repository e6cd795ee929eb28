"""What a route is, for serving it and for describing it in OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from goqueue.edge.http.cycle import answer_of

Handler = Callable[[Request], Awaitable[Response]]


class Param(msgspec.Struct, frozen=True):
    """A query parameter."""

    name: str
    doc: str
    type: Literal["string", "integer", "boolean"] = "string"


class RestOperation(msgspec.Struct, frozen=True):
    """One method of one path."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handler: Handler
    summary: str
    tag: str
    reply: Any = None
    status: int = 200
    body: Any = None
    params: tuple[Param, ...] = ()
    media_type: str = "application/json"
    also: str = ""  # it stands behind this prefix too
    media_types: tuple[str, ...] = ()  # of the answer and its errors, if the client can choose
    error: Any = None  # the form of its errors, if it is not a problem
    consumes: bool = False  # a GET that takes something away
    is_public: bool = False  # also for those who have not shown who they are


class JsonResponse(Response):
    """Encoded JSON. Its head is what any response has, made without asking what it might be."""

    def __init__(self, body: bytes, status: int, media_type: str) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", media_type.encode("latin-1"))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """At once, where the server can."""
        answer = answer_of(scope)
        if answer is None:
            await super().__call__(scope, receive, send)
        else:
            head = b"".join([b"%b: %b\r\n" % pair for pair in self.raw_headers])
            await answer(self.status_code, head, bytes(self.body))


def json(reply: object, status: int = 200, media_type: str = "application/json") -> Response:
    """An answer that ends its line, for those who read it in a terminal."""
    return JsonResponse(msgspec.json.encode(reply) + b"\n", status, media_type)
