"""A node that has handed over goes on answering Kafka's clients until each of them has asked once more."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.base.kafka_settings import KafkaSettings
from goqueue.edge.doors import KAFKA
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.calls import ConnectionEnd, KafkaPeer
from goqueue.edge.kafka.connection import Answered
from goqueue.edge.kafka.listener import KafkaEntrance, KafkaListener
from goqueue.edge.slots import ConnectionSlots
from goqueue.service.metrics import BrokerMetrics

FRAME = b"\0\0\0\4ping"
LONG_S = 60.0


def echo(frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd) -> Answered:
    return [FRAME]


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[KafkaListener, int]]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        listener = KafkaListener(
            KafkaEntrance(echo),
            {KAFKA: sock},
            KafkaSettings(),
            BrokerMetrics(),
            Budget(1 << 20),
            ConnectionSlots(100),
        )
        await listener.start()
        yield listener, sock.getsockname()[1]
        await listener.stop(100)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def at(cls, port: int) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        await client.ask()
        return client

    async def ask(self) -> None:
        self._writer.write(FRAME)
        async with asyncio.timeout(LONG_S):
            assert await self._reader.readexactly(len(FRAME)) == FRAME

    def close(self) -> None:
        self._writer.close()


def test_every_client_that_is_connected_is_answered_once_more() -> None:
    async def main() -> None:
        async with listening() as (listener, port):
            clients = [await Client.at(port), await Client.at(port)]
            moving = asyncio.create_task(listener.let_move(LONG_S))
            await clients[0].ask()
            done, _ = await asyncio.wait([moving], timeout=0.3)
            assert not done, "the other one was not told yet"
            late = await Client.at(port)
            await clients[1].ask()
            began = time.monotonic()
            await moving
            assert time.monotonic() - began < LONG_S / 2
            for client in (*clients, late):
                client.close()

    asyncio.run(main())


def test_silent_clients_are_not_waited_for_longer_than_that() -> None:
    async def main() -> None:
        async with listening() as (listener, port):
            await listener.let_move(LONG_S)  # there is nobody
            client = await Client.at(port)
            await listener.let_move(0.05)
            client.close()

    asyncio.run(main())


def test_nobody_waits_for_a_client_that_has_gone() -> None:
    async def main() -> None:
        async with listening() as (listener, port):
            client = await Client.at(port)
            moving = asyncio.create_task(listener.let_move(LONG_S))
            client.close()
            began = time.monotonic()
            await moving
            assert time.monotonic() - began < LONG_S / 2

    asyncio.run(main())
