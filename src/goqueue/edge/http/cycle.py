"""One request and its answer. An answer that is whole is written at once, head and body together."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from goqueue.edge.security.http_login import CERTIFICATE

_TARGETS_KEPT: Final = 1_024
_TARGET_KEPT_BYTES_MAX: Final = 512
_EXTENSION: Final = "goqueue.answer"
_WATCH: Final = "goqueue.watch"
_HOP_HEADERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})

Gone: TypeAlias = Callable[[], object]
Watch: TypeAlias = Callable[[Gone | None], None]
Answer: TypeAlias = Callable[[int, bytes, bytes], Awaitable[None]]


def answer_of(scope: Scope) -> Answer | None:
    """How to send a whole answer at once: its status, the lines of its head, and its body. None if the server is
    another."""
    found: Answer | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


def watch_of(scope: Scope) -> Watch | None:
    """How to hear that the client has gone; None if the server is another."""
    found: Watch | None = scope.get("extensions", {}).get(_WATCH)
    return found


def _target(url: bytes) -> tuple[str, bytes, bytes]:
    """The path, as it is meant and as it came, and the query."""
    target = httptools.parse_url(url)
    path = target.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, target.path, target.query or b""


_kept_target: Final = lru_cache(_TARGETS_KEPT)(_target)  # who polls asks the same again and again


def cycle_of(connection: HttpToolsProtocol) -> Cycle:
    """Of the request whose head was just read."""
    parser, scope, url = connection.parser, connection.scope, connection.url
    version = parser.get_http_version()
    scope["method"], scope["http_version"] = parser.get_method().decode("ascii"), version
    target = _kept_target(url) if len(url) <= _TARGET_KEPT_BYTES_MAX else _target(url)
    scope["path"], scope["raw_path"], scope["query_string"] = target
    if connection.scheme == "https" and (certificate := connection.transport.get_extra_info("peercert")):
        scope[CERTIFICATE] = certificate  # type: ignore[typeddict-unknown-key]
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
        self.scope["extensions"] = {_EXTENSION: self.answer, _WATCH: self.watch}  # type: ignore[dict-item]
        self._on_gone: Gone | None = None

    def watch(self, on_gone: Gone | None) -> None:
        """It is called when the client goes away before it is answered, also if it has gone already. None ends that."""
        self._on_gone = on_gone
        if on_gone is not None:
            self.flow.resume_reading()
            if self.disconnected:
                self.lose()

    def lose(self) -> None:
        """The client has gone."""
        self.disconnected = True
        self.message_event.set()
        on_gone, self._on_gone = self._on_gone, None
        if on_gone is not None:
            on_gone()

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
