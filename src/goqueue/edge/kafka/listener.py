"""The listening sockets of Kafka's door: who may connect, and how long somebody may be silent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from goqueue.base.kafka_settings import KafkaSettings
from goqueue.drive.fair_turns import FairTurns
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.connection import KafkaConnection, LoginOf, Serve, WayIn
from goqueue.edge.security.tls import Handshakes
from goqueue.edge.slots import ConnectionSlots
from goqueue.service.metrics import BrokerMetrics

logger = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
_LOOK_S: Final = 0.02
_SILENT_S: Final = 0.1  # of a client that was told where to go, and has asked what it had to


class KafkaEntrance(NamedTuple):
    """What connections are served with: with a `login` by those alone who show who they are, who take `turns`; with
    `tls` behind it."""

    serve: Serve
    login: LoginOf | None = None
    tls: Handshakes | None = None
    turns: FairTurns | None = None


class KafkaListener:
    """Accepts connections up to a limit, at one socket or several by name; `stop` lets those under way finish."""

    def __init__(
        self,
        entrance: KafkaEntrance,
        sockets: Mapping[str, socket.socket],
        settings: KafkaSettings,
        metrics: BrokerMetrics,
        budget: Budget,
        slots: ConnectionSlots,
    ) -> None:
        self._entrance = entrance
        self._sockets = sockets
        self._settings = settings
        self._metrics = metrics
        self._connections: set[KafkaConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._budget = budget
        self._slots = slots
        self._servers: list[asyncio.Server] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._all_gone = asyncio.Event()

    def address(self, listener: str) -> str:
        host, port = self._sockets[listener].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._metrics.kafka_buffered_bytes.set_function(lambda: self._budget.held)
        for name, sock in self._sockets.items():
            make = self._connections_of(name)
            self._servers.append(await loop.create_server(make, sock=sock, backlog=1024))
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)

    def _connections_of(self, listener: str) -> Callable[[], asyncio.BaseProtocol]:
        tls, plain = self._entrance.tls, partial(self._make, listener)
        return plain if tls is None else lambda: tls.protocol(plain)

    def _make(self, listener: str) -> KafkaConnection:
        serve, login, _, turns = self._entrance
        bytes_max = self._settings.request_bytes_max
        return KafkaConnection(serve, bytes_max, self._budget, self, time.monotonic, WayIn(login, listener, turns))

    # --- connections that begin and end ------------------------------------------------------------------------

    def opened(self, connection: KafkaConnection) -> str:
        """Why there must not be one more, or nothing."""
        if len(self._connections) >= self._settings.connections_max:
            return "connections"
        if self._by_address[connection.peer] >= self._settings.connections_per_address_max:
            return "address"
        if not self._slots.take():
            return "descriptors"
        self._connections.add(connection)
        self._by_address[connection.peer] += 1
        self._metrics.kafka_connections.inc()
        return ""

    def closed(self, connection: KafkaConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._slots.give_back()
            self._by_address[connection.peer] -= 1
            if not self._by_address[connection.peer]:
                del self._by_address[connection.peer]
            self._metrics.kafka_connections.dec()
        if not self._connections:
            self._all_gone.set()

    def refused(self, why: str) -> None:
        self._metrics.kafka_connections_refused.labels(why).inc()

    def _sweep(self) -> None:
        """Ends what has been silent for too long, and counts what was read since."""
        now = time.monotonic()
        frame_s, idle_s = self._settings.frame_ms / 1000, self._settings.idle_ms / 1000
        for connection in list(self._connections):
            connection.recount()
            if error := connection.overdue(now, frame_s, idle_s):
                connection.drop(error)
        self._make_room()
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _make_room(self) -> None:
        """Who does not read must not keep others from reading: the largest of them goes, until there is room."""
        if self._budget.is_tight():
            stalled = sorted((one for one in self._connections if one.is_stalled), key=lambda one: -one.held)
            for connection in stalled:
                connection.evict()
                if not self._budget.is_tight():
                    break

    # --- the end -----------------------------------------------------------------------------------------------

    async def let_move(self, within_s: float) -> None:
        """Before a stop, when others lead: goes on answering until every client has asked once more, and so was told
        who leads now. One that finds its connection closed instead looks for the leader for a second or two."""
        since = time.monotonic()
        while self._connections and (now := time.monotonic()) < since + within_s:
            if all(since <= one.asked_s <= now - _SILENT_S for one in self._connections):
                return
            await asyncio.sleep(_LOOK_S)

    async def stop(self, drain_ms: int) -> None:
        """Takes no new connections; requests under way get a while to be answered."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for server in self._servers:
            server.close()
        self._all_gone.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), drain_ms / 1000)
        for connection in list(self._connections):
            connection.close()
