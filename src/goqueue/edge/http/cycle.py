"""One request and its answer. An answer that is whole is written at once, head and body together."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

_EXTENSION: Final = "goqueue.answer"
_HOP_HEADERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})

Answer: TypeAlias = Callable[[int, bytes, bytes], Awaitable[None]]


def answer_of(scope: Scope) -> Answer | None:
    """How to send a whole answer at once: its status, the lines of its head, and its body. None if the server is
    another."""
    found: Answer | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


def cycle_of(connection: HttpToolsProtocol) -> Cycle:
    """Of the request whose head was just read."""
    parser, scope = connection.parser, connection.scope
    version, target = parser.get_http_version(), httptools.parse_url(connection.url)
    path = target.path.decode("ascii")
    scope["method"], scope["http_version"] = parser.get_method().decode("ascii"), version
    scope["path"] = urllib.parse.unquote(path) if "%" in path else path
    scope["raw_path"], scope["query_string"] = target.path, target.query or b""
    return Cycle(
        scope=scope,
        transport=connection.transport,
        flow=connection.flow,
        logger=connection.logger,
        access_logger=connection.access_logger,
        access_log=connection.access_log,
        default_headers=connection.server_state.default_headers,
        message_event=asyncio.Event(),
        expect_100_continue=connection.expect_100_continue,
        keep_alive=version != "1.0" and parser.should_keep_alive(),
        on_response=connection.on_response_complete,
    )


def plain_head(connection: HttpToolsProtocol) -> bytes:
    """The head that was just read, without the offer to speak another protocol."""
    parser, kept = connection.parser, [pair for pair in connection.headers if pair[0] not in _HOP_HEADERS]
    line = b"%s %s HTTP/%s\r\n" % (parser.get_method(), connection.url, parser.get_http_version().encode())
    return b"".join((line, *(b"%s: %s\r\n" % pair for pair in kept), b"\r\n"))


class Cycle(RequestResponseCycle):
    """What the server does in two messages, each looked at closely, in one that the door made itself."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.scope["extensions"] = {_EXTENSION: self.answer}  # type: ignore[dict-item]

    async def answer(self, status: int, head: bytes, body: bytes) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_started:
            raise RuntimeError("The request was answered before.")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self._write(STATUS_LINE[status], head, b"" if self.scope["method"] == "HEAD" else body)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _write(self, line: bytes, head: bytes, body: bytes) -> None:
        usual = b"".join([b"%b: %b\r\n" % pair for pair in self.default_headers])
        last = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((line, usual, head, last, body)))
