"""Sockets that doors listen at."""

from __future__ import annotations

import socket
from typing import Final

from goqueue.base.startup_errors import AddressUnusable

# A client that vanished without a word is noticed after two minutes, also if nothing is sent to it.
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


# Connections have the options of their listener, also after their end, while the system remembers them: one without
# SO_REUSEADDR would keep its port from the next start for a minute.
_ALONE: Final = (socket.SO_REUSEADDR,)
_SHARED: Final = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
_HELD: Final = (socket.SO_REUSEPORT,)


def listen(host: str, port: int, setting: str, is_shared: bool = False) -> socket.socket:
    """A bound socket; `AddressUnusable` says which setting to change. With `is_shared` other processes may bind it too,
    and connections are dealt out among those that listen."""
    return _bound(host, port, setting, _SHARED if is_shared else _ALONE)


def hold(host: str, port: int, setting: str) -> socket.socket:
    """Bound for listeners that share it, and never to be listened at: whoever wants the port alone is refused."""
    return _bound(host, port, setting, _HELD)


def _bound(host: str, port: int, setting: str, options: tuple[int, ...]) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            for option in options:
                sock.setsockopt(socket.SOL_SOCKET, option, 1)
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
