"""One client connection: frames in, answers out in the order of the requests, bounded both ways.

Requests are begun in order, as they come, many at a time, but only for a bounded time in one pass of the loop; a
publish is appended before the next request is looked at, so order holds. An answer waits for those before it. No more
requests are begun while too many are under way, while answers of too many bytes wait, while a large request is worked
on in parts, or while the client does not read its answers; then the socket is not read either, so that the client's
own buffers fill up. All that is held counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from goqueue.base.limits import SASL_BYTES_MAX
from goqueue.drive.fair_turns import ConnectionTurn, FairTurns
from goqueue.edge.doors import KAFKA
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.calls import ConnectionEnd, KafkaPeer, PeerLogin
from goqueue.edge.kafka.idle import Activity
from goqueue.edge.kafka.passes import BoundedPass
from goqueue.format.batch import Buffer
from goqueue.wire.errors import WireError
from goqueue.wire.framer import Framer

logger = logging.getLogger(__name__)

REQUESTS_MAX: Final = 64  # under way on one connection
WRITE_HIGH_BYTES: Final = 1 << 20  # unread answers beyond which nothing new is begun
ANSWERS_HIGH_BYTES: Final = 1 << 20  # answers that wait for others, beyond which nothing new is begun

Answered = list[Buffer] | None  # None: the request has no answer


class Later(msgspec.Struct, frozen=True, gc=False):
    """An answer to wait for; what its request holds until then; whether nothing else may be begun meanwhile."""

    answer: Awaitable[Answered]
    held: int = 0
    is_exclusive: bool = False


class Serve(Protocol):
    """Handles one frame: an answer, or one to wait for. `WireError` closes the connection."""

    def __call__(
        self, frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd
    ) -> Answered | Later: ...


class ConnectionEvents(Protocol):
    """Told when a connection begins (it answers why it must not, or nothing) and ends."""

    def opened(self, connection: KafkaConnection) -> str: ...

    def closed(self, connection: KafkaConnection) -> None: ...

    def refused(self, why: str) -> None: ...


class LoginOf(Protocol):
    """Begins the login of a connection."""

    def __call__(self, transport: asyncio.BaseTransport, peer: KafkaPeer, at: KafkaConnection) -> PeerLogin: ...


class WayIn(NamedTuple):
    """How a client shows who it is, if it has to, by which listener it comes, and with whom it takes turns."""

    login: LoginOf | None = None
    listener: str = KAFKA
    turns: FairTurns | None = None


class _Pending:
    """A request under way."""

    __slots__ = ("answer", "future", "held", "is_done")

    def __init__(self, held: int, answer: Answered = None, is_done: bool = False) -> None:
        self.held = held
        self.answer = answer
        self.is_done = is_done
        self.future: asyncio.Future[None] | None = None


class KafkaConnection(asyncio.Protocol):
    """Made by the listener for each client."""

    __slots__ = (
        "_activity",
        "_answer_bytes",
        "_budget",
        "_clock",
        "_end",
        "_ends",
        "_exclusive",
        "_finishing",
        "_frame_bytes_max",
        "_framer",
        "_frames",
        "_local",
        "_login",
        "_muted",
        "_pass",
        "_peer",
        "_reading",
        "_request_bytes",
        "_serve",
        "_transport",
        "_turn",
        "_under_way",
        "_writable",
        "held",
    )

    def __init__(
        self,
        serve: Serve,
        frame_bytes_max: int,
        budget: Budget,
        ends: ConnectionEvents,
        clock: Callable[[], float],
        way_in: WayIn,
    ) -> None:
        """With a login frames have to be small until the client has shown who it is."""
        login, listener, turns = way_in
        self._serve = serve
        self._frame_bytes_max = frame_bytes_max
        self._framer = Framer(frame_bytes_max if login is None else min(frame_bytes_max, SASL_BYTES_MAX))
        self._login = login
        self._budget = budget
        self.held = 0  # of the budget
        self._ends = ends
        self._end = ConnectionEnd()
        self._clock = clock
        self._activity = Activity(clock())
        self._transport: asyncio.Transport | None = None
        self._frames: deque[memoryview] = deque()
        self._under_way: deque[_Pending] = deque()
        self._request_bytes = 0  # of requests under way
        self._answer_bytes = 0  # of answers that wait for others before them
        self._exclusive: _Pending | None = None
        self._writable = self._reading = True
        self._finishing = False
        self._pass = BoundedPass(clock, self._pump_safely)
        self._muted: asyncio.TimerHandle | None = None  # until when nothing new is begun, because of a quota
        self._turn = None if turns is None else ConnectionTurn(turns, KAFKA, self._pump_safely)
        self._peer = KafkaPeer("", listener=listener)
        self._local = ("", 0)

    # --- the transport's side --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        login = self._login
        shows = None if login is None else lambda one: login(transport, one, self)
        self._peer = KafkaPeer(str(peer[0]), shows, self._peer.listener)
        self._local = tuple((transport.get_extra_info("sockname") or ("", 0))[:2])
        if error := self._ends.opened(self):
            self.drop(error)
        else:
            self._budget.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._framer.feed(data)
            self._activity.received(self._clock(), bool(frames), self._framer.buffered > 0)
            self._frames.extend(frames)
            self._pump()
            self.recount()
        except WireError as error:
            self._refuse(error)
        except Exception:
            logger.exception("request failed", extra={"peer": self.peer})
            self.close()

    def pause_writing(self) -> None:
        self._writable = False
        self.recount()

    def resume_writing(self) -> None:
        self._writable = True
        self._pump_safely()

    def recount(self) -> None:
        """What this connection holds counts with all others'."""
        if self._transport is None:
            return
        holds = self._framer.buffered + self._request_bytes + self._answer_bytes
        holds += self._transport.get_write_buffer_size()
        if self._frames:
            holds += sum(map(len, self._frames))
        if holds != self.held:
            change, self.held = holds - self.held, holds
            self._budget.change(change)

    def let_in(self) -> None:
        """It is known who this is: frames may be as large as any."""
        self._framer.allow(self._frame_bytes_max)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        if self._peer.login is not None:
            self._peer.login.leave()
        self._ends.closed(self)
        self._end.over()

    def evict(self) -> None:
        """All connections together hold too much, and this one the most."""
        self.drop("memory")

    def drop(self, why: str) -> None:
        """Ends the connection now; what it holds is forgotten."""
        logger.info("connection closed", extra={"peer": self.peer, "error": why})
        self._ends.refused(why)
        transport = self._transport
        self._forget()
        if transport is not None:
            transport.abort()

    def _forget(self) -> None:
        self._transport = None
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._pass.cancel()
        self._budget.discard(self)
        held, self.held = self.held, 0
        self._frames.clear()
        self._framer.clear()
        for pending in self._under_way:
            if pending.future is not None:
                pending.future.cancel()
        self._under_way.clear()
        self._budget.change(-held)

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

    @property
    def peer(self) -> str:
        """Its address."""
        return self._peer.host

    @property
    def is_stalled(self) -> bool:
        """The client did not take any of its answers for a while."""
        return self._activity.is_stalled

    @property
    def asked_s(self) -> float:
        """When its last request came; below 0 if none did."""
        return self._activity.asked

    def overdue(self, now: float, frame_s: float, idle_s: float) -> str:
        """Why the connection has been silent for too long, or nothing."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._activity.overdue(now, unread, bool(self._under_way), self._reading, frame_s, idle_s)

    # --- requests in, answers out ----------------------------------------------------------------------------

    def _pump_safely(self) -> None:
        try:
            self._pump()
            self.recount()
        except WireError as error:
            self._refuse(error)
        except Exception:
            logger.exception("request failed", extra={"peer": self.peer})
            self.close()

    def _pump(self) -> None:
        """Begins what may be begun, sends what may be sent, and reads on if there is room."""
        turn = self._turn
        while self._frames and self._may_begin():
            if turn is not None and not turn.may_begin(self._peer.caller):
                break
            answer = self._serve(self._frames.popleft(), self._peer, self._local, self._end)
            if isinstance(answer, list) and not self._under_way:
                self._write(answer)
            elif answer is not None:
                self._queue(answer)
                self._send_ready()
            self._mute()
            if turn is not None:
                turn.begun()
            if self._frames:
                self._pass.begun()
        self._regulate_reading()

    def _mute(self) -> None:
        """For as long as the client is throttled. Answers go out."""
        if wait_ms := self._peer.take_mute():
            if self._muted is not None:
                self._muted.cancel()
            self._muted = asyncio.get_running_loop().call_later(wait_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._pump_safely()

    def _may_begin(self) -> bool:
        if self._transport is None or self._finishing or not self._writable or self._exclusive is not None:
            return False
        if self._muted is not None or self._pass.is_over or len(self._under_way) >= REQUESTS_MAX:
            return False
        unread = self._transport.get_write_buffer_size()
        return unread <= WRITE_HIGH_BYTES and self._answer_bytes <= ANSWERS_HIGH_BYTES

    def _queue(self, answer: list[Buffer] | Later) -> None:
        if isinstance(answer, list):
            pending = _Pending(0, answer, is_done=True)
            self._answer_bytes += sum(map(len, answer))
        else:
            pending = _Pending(answer.held)
            self._request_bytes += answer.held
            if answer.is_exclusive:
                self._exclusive = pending
            later = answer.answer if self._turn is None else self._turn.later(answer.answer)
            pending.future = asyncio.get_running_loop().create_task(self._run(pending, later))
            pending.future.add_done_callback(self._answered)
        self._under_way.append(pending)

    async def _run(self, pending: _Pending, answer: Awaitable[Answered]) -> None:
        """The answer goes out, or counts, from the very moment on that it is there."""
        pending.answer = await answer
        pending.is_done = True
        self._request_bytes -= pending.held
        if pending.answer is not None:
            self._answer_bytes += sum(map(len, pending.answer))
        if self._exclusive is pending:
            self._exclusive = None
        self._mute()
        self._send_ready()
        self._pump_safely()

    def _answered(self, done: asyncio.Future[None]) -> None:
        if done.cancelled() or self._transport is None or (error := done.exception()) is None:
            return
        if isinstance(error, WireError):
            self._refuse(error)
            return
        logger.error("request failed", exc_info=error, extra={"peer": self.peer})
        self.close()

    def _send_ready(self) -> None:
        while self._under_way and self._transport is not None:
            first = self._under_way[0]
            if not first.is_done:
                return
            self._under_way.popleft()
            if first.answer is not None:
                self._answer_bytes -= sum(map(len, first.answer))
                self._write(first.answer)
        self._close_if_done()

    def _write(self, answer: list[Buffer]) -> None:
        if self._transport is not None:
            self._transport.writelines(answer)

    def _regulate_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        may_read = not self._frames
        if may_read != self._reading:
            self._reading = may_read
            (self._transport.resume_reading if may_read else self._transport.pause_reading)()

    def _refuse(self, error: WireError) -> None:
        """What cannot be understood costs the connection, never the node."""
        logger.info("request refused", extra={"peer": self.peer, "error": str(error)})
        self.drop("request")
