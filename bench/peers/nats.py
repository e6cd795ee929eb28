"""NATS JetStream: file storage, work-queue retention, explicit acks, pull batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.client import GROUP, QUEUE, Handle, Taken
from bench.peers.server import Server, free_port, program, serve


@contextmanager
def server(root: Path) -> Iterator[Server]:
    home = root.resolve() / "nats"
    port = free_port()
    command = [program("nats-server"), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(home)]
    with serve(command, port, home) as running:
        yield running


class Client:
    def __init__(self, port: int) -> None:
        self._url = f"nats://127.0.0.1:{port}"
        self._publisher: Any = None

    async def _connect(self) -> Any:
        import nats

        return await nats.connect(self._url)

    async def _stream(self) -> Any:
        if self._publisher is None:
            self._publisher = await self._connect()
        return self._publisher.jetstream(publish_async_max_pending=10_000)

    async def create(self) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType

        stream = await self._stream()
        kept = {"retention": RetentionPolicy.WORK_QUEUE, "storage": StorageType.FILE}
        await stream.add_stream(name=QUEUE, subjects=[f"{QUEUE}.>"], **kept)
        config = ConsumerConfig(durable_name=GROUP, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=20_000)
        await stream.add_consumer(QUEUE, config)

    async def publish(self, bodies: Sequence[bytes]) -> None:
        stream = await self._stream()
        if len(bodies) == 1:
            await stream.publish(f"{QUEUE}.all", bodies[0])
            return
        confirms = [await stream.publish_async(f"{QUEUE}.all", body) for body in bodies]
        await asyncio.gather(*confirms)

    async def consumer(self) -> Consumer:
        connection = await self._connect()
        return Consumer(connection, await connection.jetstream().pull_subscribe_bind(GROUP, QUEUE))

    async def close(self) -> None:
        if self._publisher is not None:
            await self._publisher.close()


class Consumer:
    def __init__(self, connection: Any, subscription: Any) -> None:
        self._connection = connection
        self._subscription = subscription

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        try:
            messages = await self._subscription.fetch(limit, timeout=wait_ms / 1000)
        except TimeoutError:
            return []
        return [(message.data, message) for message in messages]

    async def ack(self, handles: Sequence[Handle]) -> None:
        """Acks of one connection are worked off in order, so that the last one confirms all."""
        for message in handles[:-1]:
            await message.ack()
        await handles[-1].ack_sync(timeout=30)

    async def close(self) -> None:
        await self._connection.close()
