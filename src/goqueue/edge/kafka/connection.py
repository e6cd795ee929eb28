"""One client connection: frames in, answers out in the order of the requests, bounded both ways.

Requests are begun in order, as they come, many at a time; a publish is appended before the next request is looked at,
so order holds. An answer waits for those before it. No more requests are begun while too many are under way, or while
the client does not read its answers; then the socket is not read either, so that the client's own buffers fill up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from goqueue.edge.kafka.budget import Budget
from goqueue.format.batch import Buffer
from goqueue.wire.errors import WireError
from goqueue.wire.framer import Framer

logger = logging.getLogger(__name__)

REQUESTS_MAX: Final = 64  # under way on one connection
WRITE_HIGH_BYTES: Final = 1 << 20  # unread answers beyond which nothing new is begun

Answered = list[Buffer] | None  # None: the request has no answer


class Serve(Protocol):
    """Handles one frame: an answer, or one to wait for. `WireError` closes the connection."""

    def __call__(self, frame: memoryview, peer: str, local: tuple[str, int]) -> Answered | Awaitable[Answered]: ...


class Connection(asyncio.Protocol):
    """Made by the listener for each client."""

    __slots__ = (
        "_budget",
        "_finishing",
        "_framer",
        "_frames",
        "_held",
        "_local",
        "_on_close",
        "_on_open",
        "_peer",
        "_reading",
        "_serve",
        "_transport",
        "_under_way",
        "_writable",
    )

    def __init__(
        self,
        serve: Serve,
        frame_bytes_max: int,
        budget: Budget,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._serve = serve
        self._framer = Framer(frame_bytes_max)
        self._budget = budget
        self._held = 0  # of the budget
        self._on_open = on_open
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._frames: deque[memoryview] = deque()
        self._under_way: deque[list[Buffer] | asyncio.Future[Answered] | None] = deque()
        self._writable = True
        self._reading = True
        self._finishing = False
        self._peer = ""
        self._local = ("", 0)

    # --- the transport's side --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        self._peer = str(peer[0])
        self._local = tuple((transport.get_extra_info("sockname") or ("", 0))[:2])
        if not self._on_open(self):
            self.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._frames.extend(self._framer.feed(data))
            self._pump()
            self._account()
        except WireError as why:
            self._refuse(why)
        except Exception:
            logger.exception("request failed", extra={"peer": self._peer})
            self.close()

    def pause_writing(self) -> None:
        self._writable = False
        try:
            self._account()
        except WireError as why:
            self._refuse(why)

    def resume_writing(self) -> None:
        self._writable = True
        self._pump_safely()

    def _account(self) -> None:
        """What this connection holds counts with all others'; `WireError` if that is too much."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        holds = self._framer.buffered + (unread if unread > WRITE_HIGH_BYTES else 0)
        if holds != self._held:
            change, self._held = holds - self._held, holds
            if not self._budget.change(change):
                raise WireError("the connections of this node hold too many bytes; this one has to go")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._budget.change(-self._held)
        self._held = 0
        self._frames.clear()
        for waiting in self._under_way:
            if isinstance(waiting, asyncio.Future):
                waiting.cancel()
        self._under_way.clear()
        self._on_close(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Closes as soon as what is under way is answered; nothing new is begun."""
        self._frames.clear()
        self._finishing = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._finishing and not self._under_way:
            self.close()

    # --- requests in, answers out ----------------------------------------------------------------------------

    def _pump_safely(self) -> None:
        try:
            self._pump()
            self._account()
        except WireError as why:
            self._refuse(why)
        except Exception:
            logger.exception("request failed", extra={"peer": self._peer})
            self.close()

    def _pump(self) -> None:
        """Begins what may be begun, sends what may be sent, and reads on if there is room."""
        while self._frames and self._may_begin():
            answer = self._serve(self._frames.popleft(), self._peer, self._local)
            if answer is None:
                continue
            if not isinstance(answer, list):
                answer = asyncio.ensure_future(answer)
                answer.add_done_callback(self._answered)
            self._under_way.append(answer)
            self._send_ready()
        self._regulate_reading()

    def _may_begin(self) -> bool:
        if self._transport is None or self._finishing or not self._writable:
            return False
        return len(self._under_way) < REQUESTS_MAX and self._transport.get_write_buffer_size() <= WRITE_HIGH_BYTES

    def _answered(self, done: asyncio.Future[Answered]) -> None:
        if done.cancelled() or self._transport is None:
            return
        if (error := done.exception()) is not None:
            if not isinstance(error, WireError):
                logger.error("request failed", exc_info=error, extra={"peer": self._peer})
            self.close()
            return
        self._send_ready()
        self._pump_safely()

    def _send_ready(self) -> None:
        while self._under_way and self._transport is not None:
            first = self._under_way[0]
            if isinstance(first, asyncio.Future):
                if not first.done():
                    return
                first = first.result()
            self._under_way.popleft()
            if first is not None:
                self._transport.writelines(first)
        self._close_if_done()

    def _regulate_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        may_read = not self._frames
        if may_read != self._reading:
            self._reading = may_read
            (self._transport.resume_reading if may_read else self._transport.pause_reading)()

    def _refuse(self, why: WireError) -> None:
        """What cannot be understood costs the connection, never the node."""
        logger.info("connection closed", extra={"peer": self._peer, "why": str(why)})
        if self._transport is not None:
            self._transport.abort()
