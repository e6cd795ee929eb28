"""Any request of the REST API, over gRPC: it is answered by the same application, which also finds who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from goqueue.base.errors import BodyTooLarge, InvalidField
from goqueue.base.limits import KIB
from goqueue.drive.carry_on import carry_on
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send
from goqueue.edge.security.http_login import CERTIFICATE
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Api"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
# What a caller may say itself, and what is taken from the call's metadata.
_HEADERS: Final = frozenset({"accept", "content-type", "last-event-id"})
_METADATA: Final = frozenset({"authorization", "traceparent", "tracestate", "user-agent"})
_REACHED: Final = "reached"  # under which host the caller knows this node, for answers that have addresses
_HOST_CHARS_MAX: Final = 255
_TARGET_CHARS_MAX: Final = 16_384
_STREAM_BODY_BYTES_MAX: Final = 64 * KIB  # it is held as long as the stream lasts


class ApiMethods:
    """Public to gRPC's own checks, since the application asks who calls, counts and limits as over HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def methods(self) -> list[GrpcMethod]:
        call, stream = pb.CallApiRequest, pb.StreamApiRequest
        return [
            GrpcMethod(f"{_SERVICE}/CallApi", call, self.call, is_wait=True, is_public=True),
            GrpcMethod(f"{_SERVICE}/StreamApi", stream, self.stream, "answers", is_wait=True, is_public=True),
        ]

    async def call(self, request: pb.CallApiRequest, call: GrpcCall) -> pb.CallApiResponse:
        exchange, parts, has_no_end = _Exchange(request.body), list[bytes](), False

        async def take(status: int, body: bytes, is_part: bool) -> None:
            """What comes in parts is a stream, which would be gathered here without an end."""
            nonlocal has_no_end
            if is_part:
                has_no_end = True
                exchange.leave()
            else:
                parts.append(body)

        await exchange.run(self._app, _scope(request, call), take)
        if has_no_end:
            raise InvalidField("This answer is a stream; ask for it with StreamApi.", field="path")
        return pb.CallApiResponse(status=exchange.status, body=b"".join(parts))

    async def stream(self, request: pb.StreamApiRequest, call: GrpcCall, send: Send) -> None:
        if len(request.request.body) > _STREAM_BODY_BYTES_MAX:
            raise BodyTooLarge(f"What asks for a stream has a body of at most {_STREAM_BODY_BYTES_MAX} bytes.")
        exchange, scope = _Exchange(request.request.body), _scope(request.request, call)

        async def take(status: int, body: bytes, is_part: bool) -> None:
            await send(pb.StreamApiResponse(status=status, body=body))

        await exchange.run(self._app, scope, take)


class _Exchange:
    """One request and its answer. If the caller goes away the application is told, and ends by itself."""

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self._body: bytes | None = body
        self._gone = asyncio.Event()

    async def run(self, app: ASGIApp, scope: Scope, take: Callable[[int, bytes, bool], Awaitable[None]]) -> None:
        """`take` gets the status, what there is of the body, and whether more follows."""

        async def send(message: Message) -> None:
            self.status = message.get("status", self.status)
            if not self._gone.is_set():
                await take(self.status, message.get("body", b""), message.get("more_body", False))

        async def serve() -> None:
            await app(scope, self._receive, send)

        try:
            await carry_on(serve())
        finally:
            self.leave()

    def leave(self) -> None:
        """Nobody wants more of the answer."""
        self._gone.set()

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


def _scope(request: pb.CallApiRequest, call: GrpcCall) -> Scope:
    """As a server for HTTP has it."""
    if request.method not in _METHODS:
        raise InvalidField(f"method is one of {', '.join(sorted(_METHODS))}.", field="method")
    if not request.path.startswith("/") or len(request.path) + len(request.query) > _TARGET_CHARS_MAX:
        raise InvalidField(
            f"path begins with /; with the query it has up to {_TARGET_CHARS_MAX} characters.", field="path"
        )
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "2",  # which needs no Host header
        "scheme": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": request.query.encode(),
        "root_path": "",
        "headers": _headers(request, call),
        "client": (call.caller.host, 0),
        "server": (request.headers.get(_REACHED, "")[:_HOST_CHARS_MAX] or "127.0.0.1", 0),
    }
    if call.certificate:
        scope[CERTIFICATE] = call.certificate
    return scope


def _headers(request: pb.CallApiRequest, call: GrpcCall) -> list[tuple[bytes, bytes]]:
    given = [(name, value) for name, value in request.headers.items() if name in _HEADERS]
    shown = [(name, value) for name, value in call.metadata if name in _METADATA and isinstance(value, str)]
    found = [(name.encode(), value.encode()) for name, value in (*given, *shown)]
    if request.body:
        found.append((b"content-length", b"%d" % len(request.body)))
    return found
