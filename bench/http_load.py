"""A lean HTTP client for load: prepared requests on keep-alive connections, answers counted and checked."""

from __future__ import annotations

import asyncio
import time
from typing import cast
from urllib.parse import urlsplit

from bench.report import percentile


def post(url: str, body: bytes) -> bytes:
    """The bytes of a POST."""
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(url: str) -> bytes:
    """The bytes of a GET."""
    parts = urlsplit(url)
    return f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()


class Refused(RuntimeError):
    """An answer that says no."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status} {body!r}")
        self.status = status


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def send(self, request: bytes) -> bytes:
        """The answer's body; anything but 200, 201 and 204 is an error."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0 or self._answer is None:
            return
        head = bytes(self._buffer[:head_end]).lower()
        status, size = int(head[9:12]), 0
        if status != 204:
            at = head.index(b"content-length:") + 15
            size = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
        if len(self._buffer) < head_end + 4 + size:
            return
        body = bytes(self._buffer[head_end + 4 : head_end + 4 + size])
        del self._buffer[: head_end + 4 + size]
        if status not in (200, 201, 204):
            self._answer.set_exception(Refused(status, body))
        else:
            self._answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(url: str, count: int) -> list[Connection]:
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    host, port = parts.hostname or "", parts.port or 80
    made = [await loop.create_connection(Connection, host, port) for _ in range(count)]
    return [protocol for _, protocol in made]


async def saturate(url: str, request: bytes, connections: int, seconds: float) -> float:
    """Requests a second, as many as go."""
    lines = await connect(url, connections)
    until = time.perf_counter() + seconds
    counts = [0] * connections

    async def run(number: int) -> None:
        while time.perf_counter() < until:
            await lines[number].send(request)
            counts[number] += 1

    began = time.perf_counter()
    await asyncio.gather(*(run(number) for number in range(connections)))
    spent = time.perf_counter() - began
    for line in lines:
        line.close()
    return sum(counts) / spent


async def paced(url: str, request: bytes, rate: int, seconds: float, connections: int = 16) -> dict[str, float]:
    """Latencies in ms at a fixed rate, each counted from the moment the request was due, waiting included."""
    lines = await connect(url, connections)
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for line in lines:
        free.put_nowait(line)
    latencies: list[float] = []
    began = time.perf_counter()

    async def one(due: float) -> None:
        line = await free.get()
        await line.send(request)
        latencies.append((time.perf_counter() - due) * 1000)
        free.put_nowait(line)

    tasks: list[asyncio.Task[None]] = []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    for line in lines:
        line.close()
    latencies.sort()
    return {name: percentile(latencies, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
