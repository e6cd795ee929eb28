"""The port between nodes: who connects says which node of which cluster it is, and then calls verbs.

Until then little is read and nothing is done. A connection has so many calls under way; one that is cancelled, or whose
connection ends, is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Final, Protocol, cast

import msgspec

from goqueue.base.encoding import encode
from goqueue.base.errors import (
    GoQueueError,
    InvalidField,
    NotFound,
    Overloaded,
    PeerLost,
    WrongCluster,
    WrongVersion,
)
from goqueue.drive.peer_security import OPEN, PeerSecurity
from goqueue.drive.peers import PeerVerb
from goqueue.wire.node_frames import (
    FRAME_BYTES_MAX,
    PROTOCOL,
    PROTOCOL_MIN,
    BadFrame,
    Call,
    FrameSplitter,
    Hello,
    Kind,
    NodeFrame,
    agreed,
    decode_call,
    decode_hello,
    encode_frame,
    encode_hello,
)
from goqueue.wire.node_proof import CalledProof, WrongProof

logger = logging.getLogger(__name__)

CALLS_MAX: Final = 256  # under way on one connection
CONNECTIONS_MAX: Final = 512
STRANGERS_MAX: Final = 128  # connections that have not said hello yet
HELD_BYTES_MAX: Final = 4 * FRAME_BYTES_MAX  # of the calls of all connections
HELLO_S: Final = 5.0
_WITHIN_MS_MAX: Final = 120_000
_UNREAD_MAX: Final = 64 * 1024 * 1024  # bytes of replies that the caller has not taken


class Port(Protocol):
    me: Hello
    security: PeerSecurity

    held: int  # bytes of calls under way

    def hold(self, size: int) -> None: ...

    def verb(self, name: str) -> PeerVerb: ...

    def greeted(self, connection: PeerServing) -> None: ...

    def opened(self, connection: PeerServing) -> bool: ...

    def closed(self, connection: PeerServing) -> None: ...


class PeerServing(asyncio.Protocol):
    """One connection, as the side that is called sees it."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._proof = port.security.called()
        self._splitter = FrameSplitter()
        self._peer: Hello | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._port.opened(self):
            self._greeting = asyncio.get_running_loop().call_later(HELLO_S, self.close)
            if self._proof is not None:
                self._transport.write(self._proof.greeting)
        else:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._port.closed(self)
        if self._greeting is not None:
            self._greeting.cancel()
        for task in self._calls.values():
            task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            if self._proof is not None and (data := self._prove(self._proof, data)) == b"":
                return
            for frame in self._splitter.feed(data):
                self._take(frame)
        except (BadFrame, WrongProof) as error:
            logger.warning("not a node of ours", extra={"error": str(error)})
            self.close()

    def _prove(self, proof: CalledProof, data: bytes) -> bytes:
        """What is left for frames, once the other side has proved that it knows the secret."""
        rest = proof.feed(data)
        if rest is None or self._transport is None:
            return b""
        self._proof = None
        self._transport.write(proof.answer)
        return rest

    def _take(self, frame: NodeFrame) -> None:
        if self._peer is None:
            self._greet(frame)
        elif frame.kind is Kind.CALL and frame.number not in self._calls:
            self._begin(frame.number, decode_call(frame.body))
        elif frame.kind is Kind.CANCEL:
            if (task := self._calls.get(frame.number)) is not None:
                task.cancel()
        else:
            raise BadFrame(f"{frame.kind.name} was not expected")

    def _greet(self, frame: NodeFrame) -> None:
        if frame.kind is not Kind.HELLO:
            raise BadFrame("no hello")
        hello, me = decode_hello(frame.body), self._port.me
        if (protocol := agreed(hello.protocol)) is None:
            spoken = f"{PROTOCOL_MIN} to {PROTOCOL}"
            self._refuse(WrongVersion(f"This node speaks protocols {spoken}, not {hello.protocol}; upgrade the older."))
        elif hello.cluster_id != me.cluster_id:
            self._refuse(WrongCluster(f"This is cluster {me.cluster_id}, not {hello.cluster_id[:60]}."))
        elif hello.node_id == me.node_id and hello.start != me.start:
            self._refuse(WrongCluster(f"Node {me.node_id} is here; every node needs a number of its own."))
        else:
            self._peer = hello
            self._port.greeted(self)
            self._splitter.bytes_max = FRAME_BYTES_MAX
            self._send(Kind.WELCOME, 0, encode_hello(msgspec.structs.replace(me, protocol=protocol)))
            if self._greeting is not None:
                self._greeting.cancel()

    def _refuse(self, error: GoQueueError) -> None:
        self._send(Kind.ERROR, 0, encode(error))
        if self._transport is not None:
            self._transport.close()

    # --- calls -----------------------------------------------------------------------------------------------

    def _begin(self, number: int, call: Call) -> None:
        if len(self._calls) >= CALLS_MAX or self._port.held + len(call.body) > HELD_BYTES_MAX:
            error = Overloaded("Too many calls of one node are under way; try again in a moment.")
            self._send(Kind.ERROR, number, encode(error))
            return
        task = asyncio.get_running_loop().create_task(self._run(number, call))
        self._calls[number] = task
        self._port.hold(len(call.body))
        task.add_done_callback(lambda _: self._ended(number, len(call.body)))

    def _ended(self, number: int, size: int) -> None:
        self._calls.pop(number, None)
        self._port.hold(-size)

    async def _run(self, number: int, call: Call) -> None:
        try:
            async with asyncio.timeout(min(call.within_ms, _WITHIN_MS_MAX) / 1000):
                self._send(Kind.REPLY, number, await self._port.verb(call.verb)(self._of_peer(), call.body))
        except TimeoutError:
            self._send(Kind.ERROR, number, encode(PeerLost(f"{call.verb} took longer than the caller waits.")))
        except GoQueueError as error:
            self._send(Kind.ERROR, number, encode(error))
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            logger.warning(
                "a call that says nothing to this node", extra={"verb": call.verb, "error": str(error)[:200]}
            )
            told = InvalidField(f"{call.verb} cannot be read: {str(error)[:200]}.", field="body")
            self._send(Kind.ERROR, number, encode(told))
        except Exception:
            logger.exception("a call of another node failed", extra={"verb": call.verb})
            self._send(Kind.ERROR, number, encode(PeerLost(f"{call.verb} failed; the node's log says why.")))

    def _of_peer(self) -> Hello:
        assert self._peer is not None
        return self._peer

    def _send(self, kind: Kind, number: int, body: bytes) -> None:
        """Who does not read its replies is let go."""
        if self._transport is None:
            return
        self._transport.writelines(encode_frame(kind, number, body))
        if self._transport.get_write_buffer_size() > _UNREAD_MAX:
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class PeerDoor:
    """Serves verbs by their names, each with bytes in and out."""

    def __init__(
        self, me: Hello, sock: socket.socket, verbs: Mapping[str, PeerVerb], security: PeerSecurity = OPEN
    ) -> None:
        self.me = me
        self.security = security
        self._socket = sock
        self._verbs = verbs
        self._server: asyncio.Server | None = None
        self._connections: set[PeerServing] = set()
        self._strangers: dict[PeerServing, None] = {}  # who has not said hello yet, the oldest first
        self.held = 0

    def hold(self, size: int) -> None:
        self.held += size

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        loop, tls = asyncio.get_running_loop(), self.security.server_tls()
        self._server = await loop.create_server(
            lambda: PeerServing(self),
            sock=self._socket,
            backlog=128,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HELLO_S,
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in [*self._connections, *self._strangers]:
            connection.close()

    def verb(self, name: str) -> PeerVerb:
        found = self._verbs.get(name)
        if found is None:
            raise NotFound(f"This node knows no verb {name[:60]!r}.")
        return found

    def opened(self, connection: PeerServing) -> bool:
        """Of strangers the oldest has to go: a node says hello at once, and does not wait behind those who do not."""
        if len(self._connections) >= CONNECTIONS_MAX:
            logger.warning("too many connections between nodes")
            return False
        if len(self._strangers) >= STRANGERS_MAX:
            next(iter(self._strangers)).close()
        self._strangers[connection] = None
        return True

    def greeted(self, connection: PeerServing) -> None:
        self._strangers.pop(connection, None)
        self._connections.add(connection)

    def closed(self, connection: PeerServing) -> None:
        self._strangers.pop(connection, None)
        self._connections.discard(connection)
