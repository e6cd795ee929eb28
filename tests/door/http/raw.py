"""HTTP by hand: what no client library would send."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import httpx

from bench.node_process import NodeProcess
from tests.waiting import wait_until

DEADLINE_S = 60.0  # no test waits so long; it only ends one that would never end


class Line:
    """A connection. Everything that is read is kept in `got`."""

    def __init__(self, url: str, receive_buffer: int | None = None) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect((host, int(port)))
        self.got = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    close = __exit__

    def send(self, *parts: bytes) -> Line:
        """As much as the node takes; one that closed the connection is met again when reading."""
        try:
            for part in parts:
                self._socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self

    def read(self) -> bytes:
        """The next bytes; empty if the node closed the connection."""
        try:
            data = self._socket.recv(65_536)
        except ConnectionResetError:
            return b""
        self.got += data
        return data

    def read_to_end(self) -> bytes:
        while self.read():
            pass
        return self.got

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        while b"\r\n\r\n" not in self.got:
            assert self.read(), f"closed before an answer; got {self.got!r}"
        head, _, rest = self.got.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        while len(rest) < size:
            assert self.read(), "closed within an answer"
            rest = self.got.partition(b"\r\n\r\n")[2]
        self.got = rest[size:]
        return int(lines[0].split()[1]), headers, rest[:size]

    def problem(self) -> tuple[int, str]:
        """The next answer's status and the error code or shape in it."""
        status, _, body = self.answer()
        told: dict[str, Any] = json.loads(body)
        return status, str(told.get("code") or told["__type"].rpartition("#")[2])


def refused(node: NodeProcess, door: str, reason: str) -> float:
    """How often the metric says that this limit was met."""
    text = httpx.get(f"{node.url}/metrics").text
    found = re.search(rf'goqueue_http_refused_total{{door="{door}",reason="{reason}"}} (\S+)', text)
    return float(found[1]) if found else 0.0


def counted(node: NodeProcess, door: str, reason: str, times: float = 1.0) -> None:
    """Waits until the metric, which is at most a second old, says so."""
    wait_until(lambda: refused(node, door, reason) >= times)
