"""The asyncio client of the Python world."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka import TopicPartition as At
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.door.kafka.raw import unique

pytestmark = pytest.mark.asyncio
WAIT_S = 30
Produce = Callable[..., Awaitable[AIOKafkaProducer]]
Consume = Callable[..., Awaitable[AIOKafkaConsumer]]


@pytest_asyncio.fixture
async def producer(kafka: str) -> AsyncIterator[Produce]:
    made: list[AIOKafkaProducer] = []

    async def make(**more: Any) -> AIOKafkaProducer:
        made.append(AIOKafkaProducer(bootstrap_servers=kafka, **more))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


@pytest_asyncio.fixture
async def consumer(kafka: str) -> AsyncIterator[Consume]:
    made: list[AIOKafkaConsumer] = []

    async def make(*topics: str, **more: Any) -> AIOKafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 300, **more}
        made.append(AIOKafkaConsumer(*topics, bootstrap_servers=kafka, **settings))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def take(reading: AIOKafkaConsumer, count: int) -> list[ConsumerRecord[Any, Any]]:
    async with asyncio.timeout(WAIT_S):
        return [await reading.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_goes_in_comes_out_in_every_codec(
    topic: str, group: str, producer: Produce, consumer: Consume, codec: str | None
) -> None:
    sending = await producer(compression_type=codec)
    messages: list[dict[str, Any]] = [
        {"key": b"a", "value": b"text " * 100, "headers": [("h", b"1"), ("h", b"2"), ("empty", b"")]},
        {"key": None, "value": b"no key"},
        {"key": b"no value", "value": None},
        {"key": b"stamped", "value": b"x" * 1000, "timestamp_ms": 1_700_000_000_000},
    ]
    for message in messages:
        await sending.send_and_wait(topic, partition=1, **message)
    found = await take(await consumer(topic, group_id=group), len(messages))
    assert [(one.key, one.value) for one in found] == [(one["key"], one["value"]) for one in messages]
    assert list(found[0].headers) == messages[0]["headers"]
    assert found[3].timestamp == 1_700_000_000_000


async def test_messages_of_a_megabyte(topic: str, group: str, producer: Produce, consumer: Consume) -> None:
    sending = await producer(max_request_size=2_000_000)
    values = [os.urandom(1_000_000) for _ in range(3)]
    for value in values:
        await sending.send_and_wait(topic, value, partition=0)
    assert [one.value for one in await take(await consumer(topic, group_id=group), 3)] == values


async def test_seek_timestamps_and_pause(topic: str, producer: Produce, consumer: Consume) -> None:
    base = 1_700_000_000_000
    sending = await producer()
    for number in range(20):
        await sending.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=base + number * 1000)
    reading = await consumer()
    at = At(topic, 0)
    reading.assign([at])
    assert [one.offset for one in await take(reading, 20)] == list(range(20))
    reading.seek(at, 5)
    assert (await take(reading, 1))[0].value == b"5"
    found = await reading.offsets_for_times({at: base + 9_500})
    assert found[at].offset == 10
    assert await reading.beginning_offsets([at]) == {at: 0} and await reading.end_offsets([at]) == {at: 20}
    reading.pause(at)
    await reading.seek_to_beginning(at)
    assert await reading.getmany(timeout_ms=300) == {}
    reading.resume(at)
    assert (await take(reading, 1))[0].offset == 0


async def test_a_second_consumer_goes_on_where_the_first_committed(
    topic: str, group: str, producer: Produce, consumer: Consume
) -> None:
    sending = await producer()
    for number in range(10):
        await sending.send_and_wait(topic, b"%d" % number, partition=0)
    first = await consumer(topic, group_id=group)
    await take(first, 4)
    await first.commit({At(topic, 0): 4})
    await first.stop()
    second = await consumer(topic, group_id=group)
    assert [one.value for one in await take(second, 6)] == [b"%d" % number for number in range(4, 10)]
    assert await second.committed(At(topic, 0)) == 4


async def test_an_idempotent_producer_keeps_order(topic: str, group: str, producer: Produce, consumer: Consume) -> None:
    sending = await producer(enable_idempotence=True)
    stored = [await sending.send(topic, b"%d" % number, partition=0) for number in range(1000)]
    assert [(await one).offset for one in stored] == list(range(1000))
    reading = await consumer(topic, group_id=group)
    assert [one.value for one in await take(reading, 1000)] == [b"%d" % number for number in range(1000)]


async def test_two_members_share_three_partitions(topic: str, group: str, consumer: Consume) -> None:
    members = [await consumer(topic, group_id=group) for _ in range(2)]
    async with asyncio.timeout(WAIT_S):
        while sorted(len(one.assignment()) for one in members) != [1, 2]:
            await asyncio.gather(*(one.getmany(timeout_ms=50) for one in members))
    assert {at.partition for one in members for at in one.assignment()} == {0, 1, 2}


async def test_a_static_member_comes_back(topic: str, group: str, consumer: Consume) -> None:
    first = await consumer(topic, group_id=group, group_instance_id="i")
    had = first.assignment()
    await first.stop()
    again = await consumer(topic, group_id=group, group_instance_id="i")
    assert again.assignment() == had and len(had) == 3


async def test_administration(kafka: str, group: str, producer: Produce, consumer: Consume) -> None:
    name = unique("admin")
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1)])
        refused = await admin.create_topics([NewTopic(name, 1, 1)])
        assert refused.topic_errors[0][1] == TopicAlreadyExistsError.errno
        await admin.create_partitions({name: NewPartitions(3)})
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        reading = await consumer(name, group_id=group)
        await (await producer()).send_and_wait(name, b"v", partition=0)
        await take(reading, 1)
        await reading.commit()
        assert (group, "consumer") in [tuple(one[:2]) for one in await admin.list_consumer_groups()]
        assert (await admin.list_consumer_group_offsets(group))[At(name, 0)].offset == 1
        await admin.delete_topics([name])
        gone = await admin.delete_topics([name])
        assert gone.topic_error_codes[0][1] == UnknownTopicOrPartitionError.errno
    finally:
        await admin.close()
