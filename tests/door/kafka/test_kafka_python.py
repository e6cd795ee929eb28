"""The plain Python client."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.node_process import NodeProcess
from tests.door.kafka.raw import unique

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the client reads its own files in an old way
    import kafka.codec
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.structs import OffsetAndMetadata

# It loads more of them as it runs.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WAIT_S = 30
Make = Callable[..., KafkaConsumer]


@pytest.fixture
def producer(shared_node: NodeProcess) -> Iterator[Callable[..., KafkaProducer]]:
    made: list[KafkaProducer] = []

    def make(**more: Any) -> KafkaProducer:
        made.append(KafkaProducer(bootstrap_servers=shared_node.kafka, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def consumer(shared_node: NodeProcess) -> Iterator[Make]:
    made: list[KafkaConsumer] = []

    def make(*topics: str, **more: Any) -> KafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 300, **more}
        made.append(KafkaConsumer(*topics, bootstrap_servers=shared_node.kafka, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def take(reading: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for records in reading.poll(500, max_records=count - len(found)).values():
            found += records
    assert len(found) == count
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_what_goes_in_comes_out_in_every_codec(
    topic: str, group: str, producer: Callable[..., KafkaProducer], consumer: Make, codec: str | None
) -> None:
    if codec is not None and not getattr(kafka.codec, f"has_{codec}")():
        pytest.skip(f"this client has no {codec} here")
    sending = producer(compression_type=codec)
    messages: list[dict[str, Any]] = [
        {"key": b"a", "value": b"text " * 100, "headers": [("h", b"1"), ("h", b"2"), ("empty", b"")]},
        {"key": None, "value": b"no key"},
        {"key": b"no value", "value": None},
        {"key": b"stamped", "value": b"x" * 1000, "timestamp_ms": 1_700_000_000_000},
    ]
    for message in messages:
        sending.send(topic, partition=1, **message).get(WAIT_S)
    found = take(consumer(topic, group_id=group), len(messages))
    assert [(one.key, one.value) for one in found] == [(one["key"], one["value"]) for one in messages]
    assert list(found[0].headers) == messages[0]["headers"]
    assert found[3].timestamp == 1_700_000_000_000


def test_messages_of_a_megabyte(topic: str, group: str, producer: Callable[..., KafkaProducer], consumer: Make) -> None:
    sending = producer(max_request_size=2_000_000)
    values = [os.urandom(1_000_000) for _ in range(3)]
    for value in values:
        sending.send(topic, value, partition=0).get(WAIT_S)
    assert [one.value for one in take(consumer(topic, group_id=group), 3)] == values


def test_seek_timestamps_and_pause(topic: str, producer: Callable[..., KafkaProducer], consumer: Make) -> None:
    base = 1_700_000_000_000
    sending = producer()
    for number in range(20):
        sending.send(topic, b"%d" % number, partition=0, timestamp_ms=base + number * 1000)
    sending.flush(WAIT_S)
    reading, at = consumer(), TopicPartition(topic, 0)
    reading.assign([at])
    assert [one.offset for one in take(reading, 20)] == list(range(20))
    reading.seek(at, 5)
    assert take(reading, 1)[0].value == b"5"
    assert reading.offsets_for_times({at: base + 9_500})[at].offset == 10
    assert reading.beginning_offsets([at]) == {at: 0} and reading.end_offsets([at]) == {at: 20}
    reading.pause(at)
    reading.seek_to_beginning(at)
    assert reading.poll(300) == {}
    reading.resume(at)
    assert take(reading, 1)[0].offset == 0


def test_a_second_consumer_goes_on_where_the_first_committed(
    topic: str, group: str, producer: Callable[..., KafkaProducer], consumer: Make
) -> None:
    sending = producer()
    for number in range(10):
        sending.send(topic, b"%d" % number, partition=0)
    sending.flush(WAIT_S)
    first, at = consumer(topic, group_id=group), TopicPartition(topic, 0)
    take(first, 4)
    first.commit({at: OffsetAndMetadata(4, "note", -1)})
    first.close()
    second = consumer(topic, group_id=group)
    assert [one.value for one in take(second, 6)] == [b"%d" % number for number in range(4, 10)]
    assert second.committed(at) == 4


def test_an_idempotent_producer_keeps_order(
    topic: str, group: str, producer: Callable[..., KafkaProducer], consumer: Make
) -> None:
    sending = producer(enable_idempotence=True)
    stored = [sending.send(topic, b"%d" % number, partition=0) for number in range(1000)]
    assert [one.get(WAIT_S).offset for one in stored] == list(range(1000))
    reading = consumer(topic, group_id=group)
    assert [one.value for one in take(reading, 1000)] == [b"%d" % number for number in range(1000)]


def test_two_members_share_three_partitions(topic: str, group: str, consumer: Make) -> None:
    members = [consumer(topic, group_id=group) for _ in range(2)]
    deadline = time.monotonic() + WAIT_S
    while sorted(len(one.assignment()) for one in members) != [1, 2] and time.monotonic() < deadline:
        for one in members:
            one.poll(50)
    assert sorted(len(one.assignment()) for one in members) == [1, 2]
    assert {at.partition for one in members for at in one.assignment()} == {0, 1, 2}


def test_administration(
    shared_node: NodeProcess, group: str, producer: Callable[..., KafkaProducer], consumer: Make
) -> None:
    name = unique("admin")
    admin = KafkaAdminClient(bootstrap_servers=shared_node.kafka)
    try:
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
        assert name in admin.list_topics()
        producer().send(name, b"v", partition=0).get(WAIT_S)
        reading = consumer(name, group_id=group)
        take(reading, 1)
        reading.commit()
        reading.close()
        admin.delete_topics([name])
        assert name not in admin.list_topics()
    finally:
        admin.close()
