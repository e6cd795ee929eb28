"""The clients and producers against a real node."""

from __future__ import annotations

import asyncio
import socket
import uuid
from contextlib import aclosing, closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.client import (
    AsyncClient,
    AsyncProducer,
    Batching,
    Client,
    GoQueueClientError,
    NewMessage,
    NotStored,
    PartlyStored,
    Producer,
    Retries,
)
from tests.client.brokers import offset_of


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4()}"


def test_a_topics_life(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        made = client.create_topic(name, partitions=2, config={"retention.ms": 60_000})
        assert (made.num_partitions, made.overrides) == (2, {"retention.ms": "60000"})
        assert name in [topic.name for topic in client.topics()]
        with pytest.raises(GoQueueClientError) as caught:
            client.create_topic(name)
        assert (caught.value.code, caught.value.status) == ("topic-exists", 409)
        assert client.create_topic(name, 9, {"retention.ms": 5}, exist_ok=True) == client.topic(name) == made
        changed = client.alter_topic(name, {"retention.ms": None, "segment.bytes": "1048576"}, partitions=3)
        assert (changed.num_partitions, changed.overrides) == (3, {"segment.bytes": "1048576"})
        assert client.topic(name) == changed
        client.delete_topic(name)
        with pytest.raises(GoQueueClientError) as caught:
            client.topic(name)
        assert caught.value.code == "unknown-topic"


@pytest.mark.asyncio
async def test_a_topic_that_exists_can_be_asked_for_again(server_url: str, name: str) -> None:
    async with AsyncClient(server_url) as client:
        made = await client.create_topic(name, partitions=2, exist_ok=True)
        assert await client.create_topic(name, exist_ok=True) == made
        with pytest.raises(GoQueueClientError) as caught:
            await client.create_topic(name, partitions=-1, exist_ok=True)
        assert caught.value.code == "invalid-partitions"


def test_a_lost_message_cannot_be_overlooked(server_url: str, name: str) -> None:
    with Client(server_url) as client, pytest.raises(NotStored) as left, Producer(client) as producer:
        producer.send(name, "to a topic that is not there")
    assert left.value.failures[0].code == "unknown-topic"


def test_every_part_of_a_message_survives(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.publish(
            name,
            b"\xff\x00",
            key=b"\xfe",
            headers=[("a", "1"), ("a", b"\xfd"), ("n", None)],
            priority=0,
            timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC),
        )
        client.publish(name, None, key="k")
        first, second = client.read(name, partition=0)
    assert (first.value, first.key, first.priority) == (b"\xff\x00", b"\xfe", "critical")
    assert first.headers == (("a", b"1"), ("a", b"\xfd"), ("n", None))
    assert first.timestamp == 1_769_860_800_000
    assert (second.value, second.key_text, second.text) == (None, "k", None)


def test_pages_lead_through_a_topic(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=3)
        values = [f"v{number}" for number in range(50)]
        assert len(client.publish_many(name, [NewMessage(value, key=value) for value in values])) == 50
        found: list[str | None] = []
        page = client.read(name, limit=7)
        while page.messages:
            found += [message.text for message in page]
            page = client.read(name, from_=page.next, limit=7)
        assert sorted(found, key=str) == sorted(values)
        assert client.read(name, from_="latest").messages == []


def test_an_offset_beyond_the_log_says_what_there_is(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.publish(name, "v")
        with pytest.raises(GoQueueClientError) as caught:
            client.read(name, partition=0, offset=99)
    assert (caught.value.code, caught.value.status) == ("offset-out-of-range", 416)
    assert (caught.value.extra["start_offset"], caught.value.extra["end_offset"]) == (0, 1)


def test_a_partly_stored_publish_says_which(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        with pytest.raises(PartlyStored) as caught:
            client.publish_many(name, ["good", NewMessage("bad", partition=9)])
        good, bad = caught.value.results
        assert not isinstance(good, GoQueueClientError)
        assert isinstance(bad, GoQueueClientError)
        assert bad.code == "unknown-partition"


def test_the_node_tells_about_itself(server_url: str) -> None:
    with Client(server_url) as client:
        assert client.version().name == "goqueue"
        assert client.ready()
        assert client.stats()


def test_a_tail_shows_what_was_and_what_comes(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.publish(name, "was")
        with closing(client.tail(name, from_="earliest", partition=0)) as tail:
            assert next(tail).text == "was"
            client.publish(name, "comes")
            assert next(tail).text == "comes"


def test_a_producer_stores_everything_in_order(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        with Producer(client) as producer:
            futures = [producer.send(name, str(number)) for number in range(5_000)]
        assert [offset_of(future.result(0)) for future in futures] == list(range(5_000))
        messages = client.read(name, partition=0, offset=4_990)
        assert [message.text for message in messages] == [str(number) for number in range(4_990, 5_000)]


@pytest.mark.asyncio
async def test_the_async_forms_do_the_same(server_url: str, name: str) -> None:
    async with AsyncClient(server_url) as client:
        await client.create_topic(name, partitions=1)
        async with AsyncProducer(client, acks="leader") as producer:
            futures = [await producer.send(name, str(number)) for number in range(1_000)]
        assert [offset_of(future.result()) for future in futures] == list(range(1_000))
        assert [message.text for message in await client.read(name, limit=3)] == ["0", "1", "2"]
        async with aclosing(client.tail(name, from_="0:999")) as tail:
            assert (await anext(tail)).text == "999"
            await client.publish(name, "live")
            assert (await anext(tail)).text == "live"
        assert (await client.topic(name)).messages == 1_001
        await client.delete_topic(name)


@pytest.mark.asyncio
async def test_a_long_poll_is_woken_by_a_message(server_url: str, name: str) -> None:
    async with AsyncClient(server_url, timeout=5.0) as client:
        await client.create_topic(name, partitions=1)
        waiting = asyncio.create_task(client.read(name, timeout=20.0))
        await client.publish(name, "here")
        assert [message.text for message in await waiting] == ["here"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@pytest.mark.parametrize(("scheme", "door"), [("http", "--rest"), ("grpc", "--grpc")])
def test_a_tail_and_a_producer_outlive_a_killed_node(tmp_path: Path, scheme: str, door: str) -> None:
    port = _free_port()
    settings = {"GOQUEUE_LOG_FSYNC": "always"}
    node = NodeProcess(tmp_path / "data", door, f"127.0.0.1:{port}", settings=settings)
    client = Client(f"{scheme}://127.0.0.1:{port}")
    batching, retries = Batching(linger_ms=0), Retries(pause_first=0.05, seconds_max=60.0)
    with node, client, Producer(client, batching=batching, retries=retries) as producer:
        client.create_topic("orders", partitions=1)
        producer.send("orders", "before").result(30)
        with closing(client.tail("orders", from_="earliest")) as tail:
            assert next(tail).text == "before"
            node.kill()
            during = producer.send("orders", "during")
            node.start()
            assert offset_of(during.result(60)) == 1
            producer.send("orders", "after").result(30)
            assert [message.text for message in islice(tail, 2)] == ["during", "after"]


def test_an_idempotent_producer_stores_in_order_and_says_where(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        with Producer(client, idempotent=True, batching=Batching(messages_max=20)) as producer:
            futures = [producer.send(name, str(number)) for number in range(100)]
            with pytest.raises(GoQueueClientError, match="no delayed messages"):
                producer.send(name, "later", delay="1h")
        assert [offset_of(one.result(0)) for one in futures] == sorted({offset_of(one.result(0)) for one in futures})
        assert [one.text for one in client.read(name)] == [str(number) for number in range(100)]
        with pytest.raises(NotStored), Producer(client, idempotent=True) as producer:
            producer.send(name, "nowhere", partition=7)


@pytest.mark.asyncio
async def test_an_idempotent_producer_on_asyncio_sends_to_topics_side_by_side(server_url: str, name: str) -> None:
    async with AsyncClient(server_url) as client:
        topics = [f"{name}-{number}" for number in range(3)]
        for topic in topics:
            await client.create_topic(topic, partitions=1)
        async with AsyncProducer(client, idempotent=True) as producer:
            for number in range(90):
                await producer.send(topics[number % 3], str(number))
        for place, topic in enumerate(topics):
            assert [one.text for one in await client.read(topic)] == [str(number) for number in range(place, 90, 3)]
