"""Runs a door's HTTP server on the node's own loop. Signals belong to the node, not to the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from goqueue.edge.http.connections import Connections, Render
from goqueue.edge.http.protocol import GuardedProtocol
from goqueue.edge.security.tls import Handshakes


class _Server(uvicorn.Server):
    """Leaves signals alone and tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


def _protocol(make: Callable[..., asyncio.Protocol], tls: Handshakes | None) -> Callable[..., asyncio.Protocol]:
    if tls is None:
        return make
    return lambda *args, **named: tls.protocol(partial(make, *args, **named))


class HttpServer:
    """One listener."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        drain_ms: int,
        connections: Connections,
        render: Render,
        tls: Handshakes | None = None,
    ) -> None:
        self.scheme = "http" if tls is None else "https"
        self._socket = sock
        self._connections = connections
        config = uvicorn.Config(
            app,
            http=_protocol(partial(GuardedProtocol, connections=connections, render=render), tls),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, drain_ms // 1000),
            backlog=1024,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}"

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await self._server.serving.wait()
        self._connections.start()

    async def stop(self) -> None:
        """Takes no new connections, finishes what is under way."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._connections.stop()
