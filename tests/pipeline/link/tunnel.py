"""A line to a node that can be cut at a chosen moment: after so many requests or answers went through."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

Cut = Callable[[str, int], bool]  # which way ("there" or "back"), and how many frames went that way on this line


class Tunnel:
    """Passes whole frames on. Before each, `cut` is asked whether the line breaks instead."""

    def __init__(self, target: str, cut: Cut) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._cut = cut
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.lines = 0
        self.cuts = 0
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Tunnel:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self.lines += 1
            for way in (("there", near, far), ("back", far, near)):
                thread = threading.Thread(target=self._pass_on, args=way)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        count = 0
        with contextlib.suppress(OSError):
            while (frame := _frame(source)) and not self._breaks(way, count):
                sink.sendall(frame)
                count += 1
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()

    def _breaks(self, way: str, count: int) -> bool:
        is_cut = self._cut(way, count)
        self.cuts += is_cut
        return is_cut


def _frame(source: socket.socket) -> bytes:
    """One whole frame; nothing at the end of the line."""
    prefix = _exactly(source, 4)
    return prefix + _exactly(source, int.from_bytes(prefix, "big")) if prefix else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            return b""
        found += more
    return found
