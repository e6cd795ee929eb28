"""Runs a door's HTTP server on the node's own loop. Signals belong to the node, not to the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from goqueue.base.errors import AddressUnusable
from goqueue.edge.http.connections import Connections, Render
from goqueue.edge.http.protocol import GuardedProtocol

# A client that vanished without a word is noticed after two minutes, also if nothing is sent to it.
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A bound socket; `AddressUnusable` says which setting to change."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _keep_alive(sock)
            sock.bind((host, port))
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise AddressUnusable(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another address with {setting} "
            "(port 0 picks a free one), or stop what uses it.",
            field=setting,
        ) from error
    sock.setblocking(False)
    return sock


def _keep_alive(sock: socket.socket) -> None:
    """What a listener is told holds for its connections too."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


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


class HttpServer:
    """One listener."""

    def __init__(
        self, app: ASGIApp, sock: socket.socket, drain_ms: int, connections: Connections, render: Render
    ) -> None:
        self._socket = sock
        self._connections = connections
        config = uvicorn.Config(
            app,
            http=partial(GuardedProtocol, connections=connections, render=render),  # type: ignore[arg-type]
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
