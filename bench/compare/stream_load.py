"""Logs that do not speak Kafka's protocol: `python -m bench.compare.stream_load PEER PORT STREAM COUNT SIZE`.

One line of JSON on stdout. The same work as that of `log_load`, by each system's client for Python: everything is
published and confirmed, then read from the first offset and checked.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import uvloop

from bench.compare.bodies import Ledger, body, number_of
from bench.compare.model import CheckFailed
from bench.peers import nats, rabbitmq, redis_streams
from bench.peers.client import Consumer, Handle, Taken

BATCH: Final = 1_000
BATCHES_IN_FLIGHT: Final = 8
PREFETCH: Final = 5_000
_WAIT_S: Final = 180.0
_FIRST: Final = {"x-stream-offset": "first"}

Found = dict[str, float]


class Stream(Protocol):
    async def create(self) -> None: ...

    async def publish(self, bodies: Sequence[bytes]) -> None:
        """Returns when all are confirmed."""

    async def reader(self) -> Consumer:
        """From the first message on."""

    async def close(self) -> None: ...


class RabbitStream(rabbitmq.Client):
    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, rabbitmq.STREAM, name)

    async def reader(self) -> Consumer:
        return await self.consumer(PREFETCH, _FIRST)


class RedisStream:
    """XADD in pipelines, XREAD from the beginning."""

    def __init__(self, port: int, name: str) -> None:
        self._redis = redis_streams.connection(port)
        self._name = name
        self._last: Any = "0"

    async def create(self) -> None: ...

    async def publish(self, bodies: Sequence[bytes]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for one in bodies:
            pipeline.xadd(self._name, {"v": one})
        await pipeline.execute()

    async def reader(self) -> Consumer:
        return self

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        found = await self._redis.xread({self._name: self._last}, count=limit, block=wait_ms)
        taken = [(fields[b"v"], name) for _, entries in found for name, fields in entries]
        self._last = taken[-1][1] if taken else self._last
        return taken

    async def ack(self, handles: Sequence[Handle]) -> None: ...

    async def close(self) -> None:
        await self._redis.aclose()


class NatsStream(nats.Client):
    """A stream that keeps everything; the last message of a batch acknowledges all before it."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port)
        self._name = name

    async def create(self) -> None:
        from nats.js.api import StorageType

        stream = await self._stream()
        await stream.add_stream(name=self._name, subjects=[self._name], storage=StorageType.FILE)

    async def publish(self, bodies: Sequence[bytes]) -> None:
        stream = await self._stream()
        await asyncio.gather(*[await stream.publish_async(self._name, one) for one in bodies])

    async def reader(self) -> Consumer:
        from nats.js.api import AckPolicy, ConsumerConfig

        connection = await self._connect()
        stream = connection.jetstream()
        config = ConsumerConfig(durable_name="reader", ack_policy=AckPolicy.ALL, max_ack_pending=4 * PREFETCH)
        await stream.add_consumer(self._name, config)
        return NatsReader(connection, await stream.pull_subscribe_bind("reader", self._name))


class NatsReader(nats.Consumer):
    async def ack(self, handles: Sequence[Handle]) -> None:
        await handles[-1].ack()


STREAMS: Final[dict[str, Callable[[int, str], Stream]]] = {
    "rabbitmq": RabbitStream,
    "redis_streams": RedisStream,
    "nats": NatsStream,
}


async def throughput(stream: Stream, count: int, size: int) -> Found:
    """Publishes, then reads from the beginning; both rates."""
    await stream.create()
    bodies = [body(number, size) for number in range(count)]
    await stream.publish([body(count, size)])
    began = time.perf_counter()
    await _publish(stream, bodies)
    published = time.perf_counter() - began
    spent = await _read_back(stream, count + 1, size)
    return {"publish": count / published, "consume": (count + 1) / spent}


async def singles(stream: Stream, count: int) -> list[tuple[float, float]]:
    """One message after the other; when each was sent and when it was confirmed, by the clock of the day."""
    await stream.create()
    found: list[tuple[float, float]] = []
    for number in range(count):
        sent = time.time()
        await stream.publish([body(number)])
        found.append((sent, time.time()))
    await stream.close()
    return found


async def _publish(stream: Stream, bodies: Sequence[bytes]) -> None:
    """Returns when all were confirmed; some batches are on their way at a time."""
    starts = iter(range(0, len(bodies), BATCH))

    async def run() -> None:
        for start in starts:
            await stream.publish(bodies[start : start + BATCH])

    async with asyncio.timeout(_WAIT_S):
        await asyncio.gather(*(run() for _ in range(BATCHES_IN_FLIGHT)))


async def _read_back(stream: Stream, count: int, size: int) -> float:
    """Seconds from the first message to the last. They are checked when the clock has stopped."""
    reader = await stream.reader()
    values: list[bytes | str] = []
    began = ended = 0.0
    until = time.monotonic() + _WAIT_S
    while len(values) < count and time.monotonic() < until:
        taken = await reader.take(PREFETCH, 500)
        if taken:
            await reader.ack([handle for _, handle in taken])
            ended = time.perf_counter()
            began = began or ended
            values += [value for value, _ in taken]
    await reader.close()
    ledger = Ledger(0, count)
    ledger.note(number_of(one, size) for one in values)
    ledger.close()
    return ended - began


async def main(arguments: Sequence[str]) -> Found:
    peer, port, name, count, size = arguments
    stream = STREAMS[peer](int(port), name)
    try:
        return await throughput(stream, int(count), int(size))
    finally:
        await stream.close()


if __name__ == "__main__":
    try:
        print(json.dumps(uvloop.run(main(sys.argv[1:]))))
    except (CheckFailed, TimeoutError) as error:
        print(json.dumps({"failed": str(error) or "not everything was confirmed in time"}))
