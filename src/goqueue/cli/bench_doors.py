"""The doors that `goqueue bench` goes through: REST and gRPC by our own client, and Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from goqueue.cli.bench_load import Arrivals
from goqueue.cli.connecting import BrokerTarget
from goqueue.cli.failures import Failed
from goqueue.client import AsyncClient

_POLL_S: Final = 5.0
_TIMEOUT_S: Final = 60.0


class BenchClient:
    def __init__(self, target: BrokerTarget, topic: str, in_flight: int) -> None:
        self._client = AsyncClient(target.server, _TIMEOUT_S, key=target.key or None, ca_file=target.ca_file or None)
        self._topic = topic
        self._room = asyncio.Semaphore(in_flight)

    async def open(self) -> None:
        await self._client.topic(self._topic)

    async def publish(self, values: Sequence[bytes]) -> None:
        async with self._room:
            placed = await self._client.publish_many(self._topic, values)
        if len(placed) != len(values):
            raise Failed(f"{len(placed)} answers for {len(values)} messages")

    async def follow(self, arrivals: Arrivals, ready: asyncio.Event) -> None:
        ready.set()
        async for message in self._client.tail(self._topic, from_="earliest"):
            arrivals.note(message.value)

    async def work(self, group: str, arrivals: Arrivals, ready: asyncio.Event) -> None:
        """As a member of a group: a message has arrived when its ack is answered."""
        async with self._client.consumer(group, [self._topic], mode="shared", auto_commit=False) as consumer:
            ready.set()
            while True:
                messages = await consumer.poll(500, _POLL_S)
                if messages:
                    await consumer.ack(*messages)
                for one in messages:
                    arrivals.note(one.value)

    async def close(self) -> None:
        await self._client.close()


class BenchKafka:
    """By aiokafka, with an idempotent producer that waits for all replicas."""

    def __init__(self, servers: str, topic: str, in_flight: int, options: Mapping[str, Any]) -> None:
        """`options` are arguments of aiokafka's clients that say who asks."""
        self._options = options
        self._servers = servers
        self._topic = topic
        self._room = asyncio.Semaphore(in_flight)
        self._producer: Any = None

    async def open(self) -> None:
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True, **self._options)
        await self._producer.start()

    async def publish(self, values: Sequence[bytes]) -> None:
        async with self._room:
            sent = [await self._producer.send(self._topic, value) for value in values]
            placed = await asyncio.gather(*sent)
        if any(one.offset < 0 for one in placed):
            raise Failed("an answer without an offset")

    async def follow(self, arrivals: Arrivals, ready: asyncio.Event) -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self._options,
        )
        await consumer.start()
        ready.set()
        try:
            async for record in consumer:
                arrivals.note(record.value)
        finally:
            await consumer.stop()

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()
