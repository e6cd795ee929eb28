"""A connection to another node, made when it is needed and made again when it is gone; many calls at a time.

A call whose connection ends before its reply may have been carried out: `PeerLost`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final, cast

import msgspec

from goqueue.base.encoding import decode
from goqueue.base.errors import GoQueueError, Overloaded, PeerLost, PeerOutOfReach, PeerUntrusted
from goqueue.drive.peer_security import OPEN, PeerSecurity
from goqueue.wire.node_frames import (
    FRAME_BYTES_MAX,
    BadFrame,
    FrameSplitter,
    Hello,
    Kind,
    NodeFrame,
    agreed,
    decode_hello,
    encode_call,
    encode_frame,
    encode_hello,
)
from goqueue.wire.node_proof import MAGIC, CallerProof, WrongProof

logger = logging.getLogger(__name__)

HELLO_S: Final = 5.0
CALLS_MAX: Final = 1_000  # that wait for their replies on one connection
_UNSENT_MAX: Final = 64 * 1024 * 1024  # bytes that the other side has not taken yet


class PeerConnection(asyncio.Protocol):
    """One that stands. `welcomed` is done when the other side has said who it is."""

    def __init__(self, me: bytes, proof: CallerProof | None = None) -> None:
        """`proof` is given, and asked for, before anything else is sent or read."""
        self._proof = proof
        self.welcomed: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._me = me
        self._splitter = FrameSplitter()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._last = 0
        self._transport: asyncio.Transport | None = None

    # --- the transport's side --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._proof is None:
            self._transport.writelines(encode_frame(Kind.HELLO, 0, self._me))

    def data_received(self, data: bytes) -> None:
        try:
            if self._proof is None and not self.welcomed.done() and data.startswith(MAGIC):
                raise WrongProof("it asks for the cluster's secret")
            if self._proof is not None and (data := self._prove(self._proof, data)) == b"":
                return
            for frame in self._splitter.feed(data):
                self._take(frame)
        except (BadFrame, msgspec.MsgspecError, RecursionError) as error:
            logger.error("a node sends what is none of ours", extra={"error": str(error)[:200]})
            self.close()
        except WrongProof as error:
            if not self.welcomed.done():
                self.welcomed.set_exception(PeerUntrusted(f"The other node and this one differ: {error}."))
            self.close()

    def _prove(self, proof: CallerProof, data: bytes) -> bytes:
        """What is left for frames, once the other side has proved that it knows the secret."""
        sent, rest = proof.answer, proof.feed(data)
        if self._transport is not None and proof.answer != sent:
            self._transport.write(proof.answer)
        if rest is None:
            return b""
        self._proof = None
        if self._transport is not None:
            self._transport.writelines(encode_frame(Kind.HELLO, 0, self._me))
        return rest

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        lost = PeerLost("The connection to the other node ended.")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(lost)
        self._waiting.clear()
        if not self.welcomed.done():
            self.welcomed.set_exception(self._why(error))
        if not self.welcomed.cancelled():
            self.welcomed.exception()  # perhaps nobody waits for it any more

    def _why(self, error: Exception | None) -> PeerOutOfReach:
        if isinstance(error, ssl.SSLError):
            return PeerUntrusted(f"The other node does not take this one's certificate: {error}.")
        if self._proof is not None and self._proof.answer:
            return PeerUntrusted("The other node has another secret.")
        return PeerOutOfReach("The other node ended the connection.")

    def _take(self, frame: NodeFrame) -> None:
        if self.welcomed.cancelled():
            return  # whoever connected has given up
        if frame.kind is Kind.WELCOME and not self.welcomed.done():
            self.welcomed.set_result(_understood(decode_hello(frame.body)))
            self._splitter.bytes_max = FRAME_BYTES_MAX
        elif frame.kind is Kind.ERROR and not self.welcomed.done():
            self.welcomed.set_exception(decode(frame.body, GoQueueError))
        elif frame.kind in (Kind.REPLY, Kind.ERROR):
            self._answer(frame)
        else:
            raise BadFrame(f"{frame.kind.name} was not expected")

    def _answer(self, frame: NodeFrame) -> None:
        """A reply that nobody waits for any more is dropped."""
        waiting = self._waiting.pop(frame.number, None)
        if waiting is None or waiting.done():
            return
        if frame.kind is Kind.REPLY:
            waiting.set_result(frame.body)
        else:
            waiting.set_exception(decode(frame.body, GoQueueError))

    # --- the caller's side -----------------------------------------------------------------------------------

    @property
    def is_ungreeted(self) -> bool:
        """This side has a secret, and the other did not ask for it."""
        return self._proof is not None and not self._proof.answer

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, verb: str, body: bytes, within_s: float) -> bytes:
        """Not the caller alone stops waiting when the time is over: the other side is told."""
        transport = self._transport
        if transport is None or not self.is_open:
            raise PeerOutOfReach("The connection to the other node ended.")
        if len(self._waiting) >= CALLS_MAX or transport.get_write_buffer_size() > _UNSENT_MAX:
            raise Overloaded("Too many calls to the other node wait for their answers; try again in a moment.")
        self._last = number = (self._last + 1) % 2**32
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        transport.writelines(encode_call(number, verb, round(within_s * 1000), body))
        try:
            async with asyncio.timeout(within_s):
                return await waiting
        except TimeoutError:
            raise PeerLost(f"The other node did not answer {verb} within {within_s:g} s.") from None
        finally:
            if self._waiting.pop(number, None) is not None and self.is_open:
                transport.writelines(encode_frame(Kind.CANCEL, number))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _understood(hello: Hello) -> Hello:
    """The other side names the protocol that both speak."""
    if agreed(hello.protocol) != hello.protocol:
        raise BadFrame(f"protocol {hello.protocol} is not spoken here")
    return hello


class PeerLink:
    """To one address. The first call connects; so does the first after the connection was lost."""

    def __init__(
        self, host: str, port: int, me: Hello, peer_id: int | None = None, security: PeerSecurity = OPEN
    ) -> None:
        """`peer_id` is the node that has to be there, if that is known."""
        self._security = security
        self._at = host, port
        self._me = me
        self._peer_id = peer_id
        self._connection: PeerConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(self, verb: str, body: bytes, within_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        connection = await self._connected(within_s)
        return await connection.call(verb, body, max(0.001, deadline - loop.time()))

    async def _connected(self, within_s: float) -> PeerConnection:
        try:
            async with asyncio.timeout(within_s), self._connecting:
                if self._connection is None or not self._connection.is_open:
                    self._connection = await self._connect()
                return self._connection
        except ssl.SSLError as error:
            raise PeerUntrusted(f"The node at {self._at[0]}:{self._at[1]} is not trusted: {error}.") from error
        except (OSError, TimeoutError) as error:
            raise PeerOutOfReach(f"The node at {self._at[0]}:{self._at[1]} cannot be reached: {error}.") from error

    async def _connect(self) -> PeerConnection:
        hello, tls = encode_hello(self._me), self._security.client_tls()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: PeerConnection(hello, self._security.caller()),
            *self._at,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HELLO_S,
        )
        try:
            async with asyncio.timeout(HELLO_S):
                found = await connection.welcomed
        except TimeoutError:
            connection.close()
            if connection.is_ungreeted:
                raise PeerOutOfReach("The other node does not ask for the cluster's secret, or stands still.") from None
            raise
        except BaseException:
            connection.close()
            raise
        if self._peer_id is not None and found.node_id != self._peer_id:
            connection.close()
            raise PeerOutOfReach(f"Node {found.node_id} is at {self._at[0]}:{self._at[1]}, not node {self._peer_id}.")
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
