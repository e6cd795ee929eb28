"""The client over HTTP and over gRPC: the same words, results and errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from bench.node_process import NodeProcess
from bench.peers.server import free_port
from goqueue.client import AsyncClient, Client, ConnectionFailed, GoQueueClientError, NewMessage, Placed
from goqueue.format.batch import split
from goqueue.format.records import NewRecord, build, decode

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def urls(server: NodeProcess) -> list[str]:
    return [server.url, f"grpc://{server.grpc}"]


@pytest.fixture
def topic(server: NodeProcess) -> str:
    with Client(server.url) as client:
        return client.create_topic(f"t-{uuid4().hex[:8]}", 1, {"queue.retry.ms": 1, "max.message.bytes": 100_000}).name


SENT: list[NewMessage | bytes | str] = [
    NewMessage("text", key="k", headers={"a": b"\x00\xff", "b": None}),
    NewMessage("first", headers=[("a", "1"), ("a", "2")], priority="high"),
    b"bytes",
    "text",
    b"",
    NewMessage(b"", key=b""),
    NewMessage(None, key=b"gone"),
]


def test_what_one_sends_is_what_the_other_sends(urls: list[str], topic: str) -> None:
    for url in urls:
        with Client(url) as client:
            first = len(client.read(topic).messages)
            places = [Placed(0, first + number) for number in range(14)]
            assert client.publish_many(topic, SENT) == places[:7]
            plain = [one for one in SENT if not isinstance(one, NewMessage) or one.priority is None]
            assert client.publish_many(topic, plain) == places[7:13]
            assert client.publish(topic, "one") == places[13]
    with Client(urls[0]) as client:
        shown = [(one.key, one.value, one.headers, one.priority) for one in client.read(topic).messages]
    assert shown[:14] == shown[14:] and len(shown) == 28


def test_what_one_is_handed_is_what_the_other_is_handed(urls: list[str], topic: str) -> None:
    with Client(urls[0]) as client:
        client.publish_many(topic, SENT)
    found = []
    for url in urls:
        with Client(url) as client, client.consumer(url[:4], [topic], mode="shared") as consumer:
            messages = sorted(consumer.poll(10), key=lambda one: one.offset)
            consumer.ack(*messages)
            found.append([(one.key, one.value, one.headers, one.priority, one.timestamp) for one in messages])
    assert found[0] == found[1] and len(found[0]) == 7


WRONG: list[Callable[[Client, str], Any]] = [
    lambda client, topic: client.publish("none-such", "a"),
    lambda client, topic: client.publish("a/b", "a"),
    lambda client, topic: client.publish(topic, "\ud800"),
    lambda client, topic: client.publish(topic, "a", headers=[("a",)]),  # type: ignore[list-item]
    lambda client, topic: client.publish(topic, "a", delay="soon"),
    lambda client, topic: client.publish(topic, "a", partition=9),
    lambda client, topic: client.publish(topic, 7),  # type: ignore[arg-type]
    lambda client, topic: client.publish(topic, bytes(200_000)),
    lambda client, topic: client.publish_many(topic, []),
    lambda client, topic: client.publish_many(topic, ["a"], acks="some"),  # type: ignore[arg-type]
    lambda client, topic: client.publish_many(topic, [b"a", bytes(200_000)]),
    lambda client, topic: client.read(topic, partition=0, offset=99),
    lambda client, topic: client.topic("none-such"),
    lambda client, topic: client.create_topic("x", partitions=-1),
    lambda client, topic: client.group("none-such"),
    lambda client, topic: client.consumer("g", ["none-such"]).__enter__(),
    lambda client, topic: next(client.tail("none-such")),
    lambda client, topic: _acks(client, topic, "nonsense"),
    lambda client, topic: _acks(client, topic, f"{topic}:0:0:1:nonce"),
    lambda client, topic: client.perform(_poll_of_a_stranger(topic)),
]


def _acks(client: Client, topic: str, receipt: str) -> None:
    with client.consumer(f"g-{topic}", [topic]) as consumer:
        consumer.ack(receipt)


def _poll_of_a_stranger(topic: str) -> Any:
    from goqueue.client.member_calls import poll

    return poll("none-such", "nobody", 1, 10, 0.0)


@pytest.mark.parametrize("ask", WRONG)
def test_errors_are_the_same(urls: list[str], topic: str, ask: Callable[[Client, str], Any]) -> None:
    found = []
    for url in urls:
        with Client(url) as client, pytest.raises(GoQueueClientError) as caught:
            ask(client, topic)
        error = caught.value
        found.append((type(error), error.code, error.detail, error.field, error.status, error.extra))
    assert found[0] == found[1]


@pytest.mark.asyncio
async def test_batches_go_in_and_out_as_bytes(urls: list[str], topic: str) -> None:
    async with AsyncClient(urls[1]) as client, AsyncClient(urls[0]) as http:
        await client.publish_many(topic, [b"a", b"b"])
        batches, after = await client.fetch_batches(topic, 0, 0)
        assert [one.value for one in decode(next(split(batches)))] == [b"a", b"b"] and after == 2
        batch = build([NewRecord(None, value, (), time.time_ns() // 1_000_000) for value in (b"a", b"b")])
        assert await client.publish_batch(topic, 0, batch) == Placed(0, 2)
        again, after = await client.fetch_batches(topic, 0, 2, wait=10)
        assert [one.value for one in decode(next(split(again)))] == [b"a", b"b"] and after == 4
        with pytest.raises(GoQueueClientError, match="needs-grpc"):
            await http.fetch_batches(topic, 0, 0)


def test_addresses_are_of_one_kind_and_have_a_host() -> None:
    for wrong in (["http://a:1", "grpc://a:2"], "grpc://", "grpc://a:1/path", "ftp://a"):
        with pytest.raises(GoQueueClientError) as caught:
            Client(wrong)
        assert caught.value.field == "url"
    with Client(["grpc://a", "grpcs://b:1"]) as client:
        assert client.url == "grpc://a"


def test_a_client_over_grpc_goes_on_at_the_next_address(server: NodeProcess) -> None:
    nobody, here = f"grpc://127.0.0.1:{free_port()}", f"grpc://{server.grpc}"
    with Client([nobody, here]) as client:
        assert client.version().version
        assert client.url == here, "it stays there"
    with Client([nobody, nobody]) as client, pytest.raises(ConnectionFailed) as caught:
        client.version()
    assert not caught.value.may_have_arrived


@pytest.mark.asyncio
async def test_a_node_that_goes_away_is_waited_for(node: NodeProcess) -> None:
    async with AsyncClient(f"grpc://{node.grpc}") as client:
        await client.create_topic("t", 1)
        async with client.consumer("g", ["t"], mode="shared", patience=0.5) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout=60))
            await client.publish("t", "a")
            await consumer.ack(*await waiting)
            node.kill()
            with pytest.raises(ConnectionFailed):
                await consumer.poll(timeout=60)
        with pytest.raises(ConnectionFailed):
            await client.publish("t", "a")
