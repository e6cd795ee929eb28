"""Redis Streams with an append-only file: XADD, XREADGROUP, XACK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.peers.client import GROUP, QUEUE, Handle, Taken
from bench.peers.server import Server, free_port, program, serve

CONNECTIONS = 64  # of the publisher; more requests wait for one


@contextmanager
def server(root: Path, appendfsync: str) -> Iterator[Server]:
    home = root.resolve() / f"redis-{appendfsync}"
    port = free_port()
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(home),
        "appendonly": "yes",
        "appendfsync": appendfsync,
        "save": "",
    }
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    with serve([program("redis-server"), *flags], port, home) as running:
        yield running


def connection(port: int) -> Any:
    from redis.asyncio import BlockingConnectionPool, Redis

    return Redis.from_pool(BlockingConnectionPool(CONNECTIONS, timeout=60, host="127.0.0.1", port=port))


class Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._redis = connection(port)
        self._names = 0

    async def create(self) -> None:
        from redis.exceptions import ResponseError

        with suppress(ResponseError):  # it exists
            await self._redis.xgroup_create(QUEUE, GROUP, id="0", mkstream=True)

    async def publish(self, bodies: Sequence[bytes]) -> None:
        if len(bodies) == 1:
            await self._redis.xadd(QUEUE, {"v": bodies[0]})
            return
        pipeline = self._redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(QUEUE, {"v": body})
        await pipeline.execute()

    async def consumer(self) -> Consumer:
        self._names += 1
        return Consumer(connection(self._port), f"consumer-{self._names}")

    async def close(self) -> None:
        await self._redis.aclose()


class Consumer:
    def __init__(self, redis: Any, name: str) -> None:
        self._redis = redis
        self._name = name

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        found = await self._redis.xreadgroup(GROUP, self._name, {QUEUE: ">"}, count=limit, block=wait_ms)
        return [(fields[b"v"], name) for _, entries in found for name, fields in entries]

    async def ack(self, handles: Sequence[Handle]) -> None:
        await self._redis.xack(QUEUE, GROUP, *handles)

    async def close(self) -> None:
        await self._redis.aclose()
