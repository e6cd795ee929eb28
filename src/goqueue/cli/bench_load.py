"""Open-loop load: requests leave by the clock, not when the one before was answered, and each is timed from when it
should have left. A broker that stalls is seen to stall: nothing is left out because nobody asked meanwhile."""

from __future__ import annotations

import asyncio
import math
import struct
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

_WAITING_MAX: Final = 20_000
_HEAD: Final = struct.Struct(">QQI")  # number, when it should have left, checksum of both and of the rest
HEAD_BYTES: Final = _HEAD.size


class LatencySummary(msgspec.Struct, frozen=True):
    """Milliseconds."""

    count: int
    p50: float
    p90: float
    p99: float
    p999: float
    max: float


def summarise(seconds: Sequence[float]) -> LatencySummary:
    """By nearest rank: a percentile is a latency that was measured."""
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000 if ordered else 0.0

    return LatencySummary(len(ordered), at(0.5), at(0.9), at(0.99), at(0.999), at(1.0))


def make_payload(number: int, due_ns: int, size: int) -> bytes:
    """A message that says which it is and when it should have left, and can be checked."""
    filler = (number.to_bytes(8, "big") * (size // 8 + 1))[: max(0, size - HEAD_BYTES)]
    checksum = zlib.crc32(filler, zlib.crc32(struct.pack(">QQ", number, due_ns)))
    return _HEAD.pack(number, due_ns, checksum) + filler


def read_payload(data: bytes) -> tuple[int, int] | None:
    """Number and due time; None if it is not as it was made."""
    if len(data) < HEAD_BYTES:
        return None
    number, due_ns, checksum = _HEAD.unpack_from(data)
    made = zlib.crc32(data[HEAD_BYTES:], zlib.crc32(struct.pack(">QQ", number, due_ns)))
    return (number, due_ns) if made == checksum else None


class OpenLoop:
    """Sends `total` requests, `rate` a second. `send` gets a request's number and when it is due."""

    def __init__(self, rate: float, total: int, send: Callable[[int, int], Awaitable[None]]) -> None:
        self._rate = rate
        self._total = total
        self._send = send
        self.latencies: list[float] = []
        self.failures: list[str] = []
        self.seconds = 0.0

    async def run(self) -> None:
        began = time.monotonic_ns()
        running: set[asyncio.Task[None]] = set()
        for number in range(self._total):
            due = began + int(number * 1e9 / self._rate)
            if (pause := (due - time.monotonic_ns()) / 1e9) > 0:
                await asyncio.sleep(pause)
            while len(running) >= _WAITING_MAX:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._one(number, due))
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running)
        self.seconds = (time.monotonic_ns() - began) / 1e9

    async def _one(self, number: int, due: int) -> None:
        try:
            await self._send(number, due)
        except Exception as error:
            self.failures.append(str(error) or type(error).__name__)
        else:
            self.latencies.append((time.monotonic_ns() - due) / 1e9)


class Arrivals:
    """What came: each once and whole, or not."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen = bytearray(total)
        self.latencies: list[float] = []
        self.damaged = 0
        self.doubled = 0
        self.complete = asyncio.Event()

    def note(self, data: bytes | None) -> None:
        found = read_payload(data or b"")
        if found is None or found[0] >= self._total:
            self.damaged += 1
            return
        number, due_ns = found
        self.doubled += self._seen[number]
        self._seen[number] = 1
        self.latencies.append((time.monotonic_ns() - due_ns) / 1e9)
        if len(self.latencies) - self.doubled >= self._total:
            self.complete.set()

    @property
    def missing(self) -> int:
        return self._total - sum(self._seen)
