"""RabbitMQ over AMQP: confirms and manual acks. A quorum queue syncs its log before it confirms, a stream does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.peers.client import QUEUE, Handle, Taken
from bench.peers.server import Server, free_port, program, serve

PREFETCH = 100
QUORUM: Final = {"x-queue-type": "quorum"}
STREAM: Final = {"x-queue-type": "stream"}


@contextmanager
def server(root: Path) -> Iterator[Server]:
    """The name server of Erlang runs beside it, so that none is left behind."""
    home = root.resolve() / "rabbitmq"
    rabbit = program("/usr/lib/rabbitmq/bin/rabbitmq-server")
    port, names = free_port(), free_port()
    environ = {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(home / "none"),
        "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
        "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, instead of watching over it
    }
    with (
        serve([program("epmd"), "-port", str(names)], names, home, environ),
        serve([rabbit], port, home, environ) as running,
    ):
        yield running


class Client:
    """Over pika's asyncio connections, the fastest of the usual clients."""

    def __init__(self, port: int, arguments: Mapping[str, Any] = QUORUM, queue: str = QUEUE) -> None:
        self._port = port
        self._arguments = dict(arguments)
        self._queue = queue
        self._channel: Any = None
        self._last_tag = 0
        self._unconfirmed: dict[int, asyncio.Future[None]] = {}

    async def create(self) -> None:
        self._channel = await open_channel(self._port)
        await answered(self._channel.queue_declare, self._queue, durable=True, arguments=self._arguments)
        await answered(self._channel.confirm_delivery, ack_nack_callback=self._confirmed)

    async def publish(self, bodies: Sequence[bytes], priority: int | None = None) -> None:
        from pika import BasicProperties

        if self._channel is None:
            await self.create()
        persistent = BasicProperties(delivery_mode=2, priority=priority)
        for body in bodies:
            self._channel.basic_publish("", self._queue, body, persistent)
        self._last_tag += len(bodies)
        waiting = asyncio.get_running_loop().create_future()
        self._unconfirmed[self._last_tag] = waiting
        await waiting

    def _confirmed(self, frame: Any) -> None:
        """Quorum queues and streams confirm in order."""
        for tag in [tag for tag in self._unconfirmed if tag <= frame.method.delivery_tag]:
            waiting = self._unconfirmed.pop(tag)
            if frame.method.NAME == "Basic.Nack":
                waiting.set_exception(RuntimeError("the broker refused a message"))
            else:
                waiting.set_result(None)

    async def consumer(self, prefetch: int = PREFETCH, arguments: Mapping[str, Any] | None = None) -> Consumer:
        """`arguments` are of the consumer: a stream's says where it begins."""
        channel = await open_channel(self._port)
        await answered(channel.basic_qos, prefetch_count=prefetch)
        consumer = Consumer(channel)
        channel.basic_consume(self._queue, consumer.receive, arguments=arguments)
        return consumer

    async def close(self) -> None:
        if self._channel is not None:
            await close_connection(self._channel.connection)


class Consumer:
    """Messages are pushed, and wait here until they are taken."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._arrived: list[Taken] = []
        self._some = asyncio.Event()

    def receive(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self._arrived.append((body, method.delivery_tag))
        self._some.set()

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._some.wait()
        except TimeoutError:
            return []
        taken, self._arrived = self._arrived[:limit], self._arrived[limit:]
        if not self._arrived:
            self._some.clear()
        return taken

    async def ack(self, handles: Sequence[Handle]) -> None:
        """AMQP confirms no ack: this returns when it is sent."""
        self._channel.basic_ack(handles[-1], multiple=True)

    async def close(self) -> None:
        await close_connection(self._channel.connection)


async def open_channel(port: int) -> Any:
    """A connection of its own, and one channel on it."""
    from pika import ConnectionParameters
    from pika.adapters.asyncio_connection import AsyncioConnection

    loop = asyncio.get_running_loop()
    opened: asyncio.Future[Any] = loop.create_future()
    AsyncioConnection(
        ConnectionParameters("127.0.0.1", port),
        on_open_callback=opened.set_result,
        on_open_error_callback=lambda _, error: opened.set_exception(error),
        custom_ioloop=loop,
    )
    connection = await opened
    channel: asyncio.Future[Any] = loop.create_future()
    connection.channel(on_open_callback=channel.set_result)
    return await channel


async def answered(method: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    method(*arguments, callback=done.set_result, **named)
    await done


async def close_connection(connection: Any) -> None:
    closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.add_on_close_callback(lambda *_: closed.set_result(None))
    connection.close()
    await closed
