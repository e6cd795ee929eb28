"""The listening socket of Kafka's door, and the dispatch of requests to their handlers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import socket
import time
from collections.abc import Awaitable, Mapping
from typing import Any

from goqueue.base.limits import MIB
from goqueue.base.settings import KafkaSettings
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.calls import Call, Handler
from goqueue.edge.kafka.connection import Answered, Connection
from goqueue.service.metrics import BrokerMetrics
from goqueue.wire.api import APIS, Api, decode_header, encode_response_frame
from goqueue.wire.errors import WireError

logger = logging.getLogger(__name__)

API_VERSIONS = 18
PRODUCE = 0
# Small structs unfold to many times their size; only a produce has reason to be large.
SMALL_REQUEST_BYTES = 8 * MIB


class Dispatcher:
    """Finds the handler of a frame's request and encodes its answer."""

    def __init__(self, handlers: Mapping[int, Handler], metrics: BrokerMetrics) -> None:
        self._handlers = handlers
        self._requests = {key: metrics.kafka_requests.labels(APIS[key].name) for key in handlers}
        self._seconds = {key: metrics.kafka_request_seconds.labels(APIS[key].name) for key in handlers}

    def __call__(self, frame: memoryview, peer: str, local: tuple[str, int]) -> Answered | Awaitable[Answered]:
        started = time.perf_counter()
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        handler = self._handlers.get(api.key)
        if handler is None:
            raise WireError(f"{api.name} is not supported")
        if api.key != PRODUCE and len(frame) > SMALL_REQUEST_BYTES:
            raise WireError(f"{api.name} of {len(frame)} bytes is larger than any sensible one")
        version = header.api_version
        if not api.min_version <= version <= api.max_version:
            if api.key != API_VERSIONS:
                raise WireError(f"{api.name} version {version} is not supported")
            # A client that is newer than the broker is told what there is, in the oldest form.
            call = Call(-1, header.client_id or "", peer, local)
            return encode_response_frame(api, 0, header.correlation_id, handler(call, None))
        call = Call(version, header.client_id or "", peer, local)
        self._requests[api.key].inc()
        answer = handler(call, api.decode_request(version, frame, at))
        if answer is None:
            return None
        if inspect.isawaitable(answer):
            return self._later(api, version, header.correlation_id, answer, started)
        self._seconds[api.key].observe(time.perf_counter() - started)
        return encode_response_frame(api, version, header.correlation_id, answer)

    async def _later(
        self, api: Api, version: int, correlation_id: int, answer: Awaitable[Any], started: float
    ) -> Answered:
        response = await answer
        self._seconds[api.key].observe(time.perf_counter() - started)
        return encode_response_frame(api, version, correlation_id, response)


class KafkaListener:
    """Accepts connections up to a limit; `stop` lets those under way finish."""

    def __init__(
        self, dispatcher: Dispatcher, sock: socket.socket, settings: KafkaSettings, metrics: BrokerMetrics
    ) -> None:
        self._dispatcher = dispatcher
        self._socket = sock
        self._settings = settings
        self._metrics = metrics
        self._connections: set[Connection] = set()
        self._budget = Budget(settings.buffered_bytes_max)
        self._server: asyncio.Server | None = None
        self._all_gone = asyncio.Event()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._make, sock=self._socket, backlog=1024)

    def _make(self) -> Connection:
        limit = self._settings.request_bytes_max
        return Connection(self._dispatcher, limit, self._budget, self._opened, self._closed)

    def _opened(self, connection: Connection) -> bool:
        if len(self._connections) >= self._settings.connections_max:
            logger.warning("connection refused", extra={"connections": len(self._connections)})
            return False
        self._connections.add(connection)
        self._metrics.kafka_connections.inc()
        return True

    def _closed(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._metrics.kafka_connections.dec()
        if not self._connections:
            self._all_gone.set()

    async def stop(self, drain_ms: int) -> None:
        """Takes no new connections; requests under way get a while to be answered."""
        if self._server is not None:
            self._server.close()
        self._all_gone.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), drain_ms / 1000)
        for connection in list(self._connections):
            connection.close()
