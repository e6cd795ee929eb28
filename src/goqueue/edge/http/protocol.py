"""One connection over HTTP/1.1, held to the door's limits.

The server's own protocol parses and answers; this one counts what it is fed and looks at the clock. It reads in three
states: between requests, in a head, in a body. A refusal is written in the door's form if nothing else is under way on
the connection; then the connection is closed, but what the client still sends is read and dropped for a moment, since
a close with unread data would take the refusal away from it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from goqueue.base.errors import (
    GoQueueError,
    HeadTooLarge,
    MalformedRequest,
    Overloaded,
    RequestTooSlow,
)
from goqueue.edge.http.connections import Connections, Render
from goqueue.edge.http.corked import CorkedTransport
from goqueue.edge.http.cycle import Cycle, cycle_of, plain_head
from goqueue.edge.http.gate import is_same_host
from goqueue.edge.http.refusals import head_too_large, last_answer

_LINGER_S: Final = 1.0
_LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
_CHUNKS_FREE: Final = 1_024  # of one body; beyond them chunks have to be worth their frames
_CHUNK_BYTES_MIN: Final = 32
_BRISK_BYTES_PER_S: Final = 64 * 1024  # who reads faster is never cut off to make room for others

Reading = Literal["nothing", "head", "body"]


class GuardedProtocol(HttpToolsProtocol):
    """A connection that knows its table of connections."""

    def __init__(self, *args: Any, connections: Connections, render: Render, **named: Any) -> None:
        super().__init__(*args, **named)
        self.address, self.url = "", b""
        self._table = connections
        self._limits = connections.limits
        self._render = render
        self._reading: Reading = "nothing"
        self._since = 0.0  # when what is being read began, or how far it had come was last looked at
        self._head_left = self._limits.head_bytes_max
        self._has_begun = False
        self._body_bytes = self._body_mark = 0
        self._chunks = self._framing_bytes = self._trailers = 0
        self._is_upgrade = False
        self._running: Cycle | None = None
        self._refusal: tuple[GoQueueError, str] | None = None
        self._unread_since = self._unread_mark = 0.0
        self._dropped = 0
        self._close_at = 0.0  # no later than this, once it is closing

    # --- come and go -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(CorkedTransport(transport, self.loop))  # type: ignore[arg-type]
        self.address = self.client[0] if self.client else ""
        self._since = self.loop.time()
        if not self._table.admit(self):
            self._answer(Overloaded("Too many connections are open; close some, or try again in a moment."))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Every request of the connection hears of it, not only the newest."""
        self._table.forget(self)
        cycles: list[Any] = [cycle for cycle, _ in self.pipeline]
        if self._running is not None:
            cycles.append(self._running)
        self.pipeline.clear()
        super().connection_lost(exc)
        for cycle in cycles:
            if not cycle.response_complete:
                cycle.lose()
            cycle.message_event.set()

    def close_idle(self) -> None:
        if self.unread_bytes():
            self.transport.abort()  # a close would wait for the client to read
        else:
            self.transport.close()

    def cut_off(self, reason: str) -> None:
        self._table.count(reason)
        self.transport.abort()

    # --- what comes in ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._close_at:
            self._drop(data)
            return
        try:
            if self._reading == "body" or len(data) <= self._head_left:
                self._feed(data)
            else:
                self._feed_in_parts(memoryview(data))
        except httptools.HttpParserError as cause:
            error = MalformedRequest(f"The request is not well-formed HTTP: {cause}.")
            self._refuse(*(self._refusal or (error, "malformed")))

    def _feed_in_parts(self, data: memoryview) -> None:
        """Never more of a head than it may have."""
        while data and not self._close_at:
            size = len(data) if self._reading == "body" else self._head_left
            self._feed(data[:size])
            data = data[size:]

    def _feed(self, data: bytes | memoryview) -> None:
        before, body_before = self._reading, self._body_bytes
        if before == "nothing":
            self._reading, self._since = "head", self.loop.time()
        self._has_begun = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay_with_http(data[upgrade.args[0] :])
            return
        if self._has_begun and before != "nothing":
            return  # behind another request: how much of the data is this head's is not known
        if self._reading == "head":
            self._head_left -= len(data)
            if self._head_left <= 0:
                self._stop(*head_too_large(self.url, self._table))
        elif self._reading == "body" and before == "body":
            self._count_framing(len(data) - (self._body_bytes - body_before))

    def _count_framing(self, size: int) -> None:
        """Sizes and extensions of chunks, and trailers: all that is not the body itself."""
        self._framing_bytes += size
        if self._framing_bytes > self._limits.head_bytes_max + self._body_bytes:
            self._stop(MalformedRequest("The body is mostly framing; send larger chunks."), "body-framing")

    def _stay_with_http(self, rest: bytes | memoryview) -> None:
        """Nothing but HTTP/1.1 is spoken here, so an offer to change is passed over, and the body is still read.

        The parser takes what follows such a head for the other protocol. A new one reads the head again without it.
        """
        head = plain_head(self)
        self._is_upgrade = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(head)
        if rest:
            self._feed_in_parts(memoryview(rest))

    def _stop(self, error: GoQueueError, reason: str) -> None:
        """Ends the parsing of this connection, from within a callback or not."""
        self._refusal = error, reason
        raise httptools.HttpParserError(reason)

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > _LINGER_BYTES_MAX:
            self.transport.abort()

    # --- the parser's callbacks ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined_requests_max:
            self._stop(Overloaded("Too many requests at once on one connection."), "pipelined-requests")
        self._reading, self._since, self._has_begun = "head", self.loop.time(), True
        self._head_left = self._limits.head_bytes_max
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._limits.request_line_bytes_max:
            self._stop(*head_too_large(self.url, self._table))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading == "body":
            self._trailers += 1  # nobody asks for trailers; they are counted and dropped
            if self._trailers > self._limits.headers_max:
                self._stop(HeadTooLarge("Too many trailers behind the body."), "headers")
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > self._limits.headers_max:
            most = self._limits.headers_max
            self._stop(HeadTooLarge(f"More than {most} headers ({self._table.setting('headers_max')})."), "headers")

    def on_headers_complete(self) -> None:
        if self.url[:1] != b"/":
            self._check_target()
        self._is_upgrade = self.parser.should_upgrade()
        if self._is_upgrade:
            self._begin_upgrade()
            return
        self._reading, self._since = "body", self.loop.time()
        self._body_bytes = self._body_mark = self._chunks = self._framing_bytes = self._trailers = 0
        self._table.busy(self)
        before, self.cycle = self.cycle, cycle_of(self)
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _check_target(self) -> None:
        """A line that names a host, as a proxy is asked, or none at all, as `OPTIONS *` does."""
        if self.url == b"*" and self.parser.get_method() == b"OPTIONS":
            self.url = b"/"
        elif not is_same_host(self.url, dict(self.headers).get(b"host")):
            self._stop(MalformedRequest("The request line and the Host header name different hosts."), "malformed")

    def _begin_upgrade(self) -> None:
        if self._get_upgrade() == b"websocket" or self.parser.get_method() == b"CONNECT":
            self._stop(MalformedRequest("There are no websockets and no tunnels here; use plain HTTP."), "upgrade")

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > _CHUNKS_FREE + self._body_bytes // _CHUNK_BYTES_MIN:
            self._stop(MalformedRequest("The body comes in needlessly small chunks; send larger ones."), "body-framing")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()
        elif self._body_bytes > 2 * self._table.body_bytes_max:
            self._stop(MalformedRequest("The request was answered long ago."), "body-unwanted")

    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._reading, self._since = "nothing", self.loop.time()
        self._head_left = self._limits.head_bytes_max
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    # --- what goes out ---------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        assert isinstance(cycle, Cycle)
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._since = self.loop.time()
            self._table.idle(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since, self._unread_mark = self.loop.time(), self.unread_bytes()
        self._table.behind(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = 0.0
        self._table.caught_up(self)

    def unread_bytes(self) -> int:
        return int(self.transport.get_write_buffer_size())

    def stalled_s(self, now: float) -> float:
        """For how long its client has read next to nothing."""
        waited = now - self._unread_since if self._unread_since else 0.0
        return waited if self._unread_mark - self.unread_bytes() < waited * _BRISK_BYTES_PER_S else 0.0

    # --- refusals --------------------------------------------------------------------------------------------

    def _refuse(self, error: GoQueueError, reason: str) -> None:
        self._table.count(reason)
        running = self._running
        if running is None or (running.response_complete and self._reading != "body"):
            self._answer(error)
        elif running is self.cycle and not running.response_started and self._reading == "body":
            running.lose()
            self._answer(error)
        else:
            self.transport.abort()  # an answer is under way or was given: nothing can be said beside it

    def _answer(self, error: GoQueueError) -> None:
        self.transport.write(last_answer(self._render(error)))
        if self.transport.can_write_eof():  # TLS cannot
            self.transport.write_eof()
        self._close_at = self.loop.time() + _LINGER_S
        self.flow.resume_reading()

    # --- time ------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Looked at every second or so."""
        limits = self._limits
        if self._close_at:
            if now >= self._close_at:
                self.transport.abort()
        elif self._unread_since:
            self._check_reader(now)
        elif self.transport.is_closing():
            self._close_at = now + limits.answer_stall_ms / 1000
        elif self._reading == "head" and not self.flow.read_paused:
            if now - self._since > limits.head_ms / 1000:
                self._refuse(RequestTooSlow("The head of the request did not arrive in time."), "head-time")
        elif self._reading == "body":
            self._check_body(now)
        elif (self._running is None or self._running.response_complete) and now - self._since > limits.idle_ms / 1000:
            self._table.count("idle-time")
            self.transport.close()

    def _check_body(self, now: float) -> None:
        if self.flow.read_paused:
            self._since, self._body_mark = now, self._body_bytes  # it is the node that makes it wait
        elif now - self._since > self._limits.body_stall_ms / 1000:
            if self._body_bytes - self._body_mark < self._bytes_min(now - self._since):
                self._refuse(RequestTooSlow("The body of the request did not arrive in time."), "body-time")
            self._since, self._body_mark = now, self._body_bytes

    def _check_reader(self, now: float) -> None:
        if now - self._unread_since > self._limits.answer_stall_ms / 1000:
            unread = self.unread_bytes()
            if self._unread_mark - unread < self._bytes_min(now - self._unread_since):
                self.cut_off("answer-time")
            self._unread_since, self._unread_mark = now, unread

    def _bytes_min(self, seconds: float) -> float:
        return max(1.0, self._limits.transfer_bytes_per_second_min * seconds)
