"""The stock C client: producer, idempotent producer, consumer in every kind of group."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.door.kafka.closing import close
from tests.door.kafka.raw import unique
from tests.kafka_messages import error_of, place_of

WAIT_S = 30
MEGABYTE = 1_000_000


def producer(kafka: str, **more: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": kafka, "linger.ms": 5, **{key.replace("_", "."): v for key, v in more.items()}}
    )


def deliver(sending: Producer, topic: str, messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Where each message was stored."""
    places: list[tuple[int, int]] = []

    def told(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        places.append(place_of(message))

    for message in messages:
        sending.produce(topic, on_delivery=told, **message)
    assert sending.flush(WAIT_S) == 0
    return places


Make = Callable[..., Consumer]


@pytest.fixture
def consumer(kafka: str) -> Iterator[Make]:
    """Consumers that are closed in the end."""
    made: list[Consumer] = []

    def make(group: str, **more: Any) -> Consumer:
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        settings |= {key.replace("_", "."): value for key, value in more.items()}
        made.append(Consumer({"bootstrap.servers": kafka, "group.id": group, **settings}))
        return made[-1]

    yield make
    for one in made:
        close(one)


def take(reading: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in reading.consume(count - len(found), 1):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_goes_in_comes_out_in_every_codec(kafka: str, topic: str, group: str, consumer: Make, codec: str) -> None:
    messages: list[dict[str, Any]] = [
        {"key": b"a", "value": b"text " * 100, "headers": [("h", b"1"), ("h", b"2"), ("empty", b""), ("none", None)]},
        {"key": None, "value": b"no key"},
        {"key": b"no value", "value": None},
        {"key": b"", "value": b""},
        {"key": b"stamped", "value": b"x" * 1000, "timestamp": 1_700_000_000_000},
    ]
    sent = [{**one, "partition": 1} for one in messages]
    deliver(producer(kafka, compression_type=codec), topic, sent)
    reading = consumer(group)
    reading.subscribe([topic])
    found = take(reading, len(messages))
    assert [(one.key(), one.value()) for one in found] == [(one["key"], one["value"]) for one in messages]
    assert found[0].headers() == messages[0]["headers"]
    assert found[4].timestamp()[1] == 1_700_000_000_000
    assert [one.offset() for one in found] == list(range(len(messages)))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_messages_of_a_megabyte(kafka: str, topic: str, group: str, consumer: Make, codec: str) -> None:
    values = [os.urandom(MEGABYTE) for _ in range(5)]
    sending = producer(kafka, message_max_bytes=2 * MEGABYTE, compression_type=codec)
    deliver(sending, topic, [{"value": value, "partition": 0} for value in values])
    reading = consumer(group)
    reading.subscribe([topic])
    assert [one.value() for one in take(reading, 5)] == values


def test_seek_timestamps_watermarks_and_pause(kafka: str, topic: str, group: str, consumer: Make) -> None:
    base = 1_700_000_000_000
    messages = [{"value": b"%d" % n, "partition": 0, "timestamp": base + n * 1000} for n in range(50)]
    deliver(producer(kafka), topic, messages)
    reading = consumer(group)
    at = TopicPartition(topic, 0, 0)
    reading.assign([at])
    assert [one.value() for one in take(reading, 50)] == [one["value"] for one in messages]
    reading.seek(TopicPartition(topic, 0, 10))
    assert take(reading, 1)[0].value() == b"10"
    (found,) = reading.offsets_for_times([TopicPartition(topic, 0, base + 19_500)], WAIT_S)
    assert found.offset == 20
    (beyond,) = reading.offsets_for_times([TopicPartition(topic, 0, base + 10**9)], WAIT_S)
    assert beyond.offset == -1  # the end
    assert reading.get_watermark_offsets(at, WAIT_S) == (0, 50)
    reading.pause([at])
    reading.seek(TopicPartition(topic, 0, 0))
    assert reading.consume(1, 0.3) == []
    reading.resume([at])
    assert take(reading, 1)[0].offset() == 0


def test_a_second_consumer_goes_on_where_the_first_committed(
    kafka: str, topic: str, group: str, consumer: Make
) -> None:
    deliver(producer(kafka), topic, [{"value": b"%d" % n, "partition": 0} for n in range(20)])
    first = consumer(group)
    first.subscribe([topic])
    last = take(first, 8)[-1]
    (done,) = first.commit(message=last, asynchronous=False)
    assert done.error is None and done.offset == 8
    close(first)
    second = consumer(group)
    second.subscribe([topic])
    assert [one.value() for one in take(second, 12)] == [b"%d" % n for n in range(8, 20)]
    (place,) = second.committed([TopicPartition(topic, 0)], WAIT_S)
    assert place.offset == 8


def test_an_idempotent_producer_keeps_order(kafka: str, topic: str, group: str, consumer: Make) -> None:
    sending = producer(kafka, enable_idempotence=True, batch_num_messages=100)
    places = deliver(sending, topic, [{"value": b"%d" % n, "partition": 0} for n in range(5000)])
    assert [offset for _, offset in places] == list(range(5000))
    reading = consumer(group)
    reading.subscribe([topic])
    assert [one.value() for one in take(reading, 5000)] == [b"%d" % n for n in range(5000)]


def test_an_unknown_topic_is_created_by_a_producer_and_reported_to_a_consumer(
    kafka: str, group: str, consumer: Make
) -> None:
    reading = consumer(group)
    name = unique("auto")
    reading.subscribe([name])
    told = reading.poll(WAIT_S)
    assert told is not None
    assert error_of(told).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert len(deliver(producer(kafka), name, [{"value": b"v"}])) == 1


def settled_pair(consumer: Make, topic: str, group: str, members: int = 2, **more: Any) -> list[int]:
    """How many partitions each of the members has, once all partitions are given out."""
    owned: list[set[int]] = [set() for _ in range(members)]
    reading = []
    for number in range(members):

        def gained(_: Consumer, parts: list[TopicPartition], number: int = number) -> None:
            owned[number] |= {one.partition for one in parts}

        def lost(_: Consumer, parts: list[TopicPartition], number: int = number) -> None:
            owned[number] -= {one.partition for one in parts}

        one = consumer(group, **more)
        one.subscribe([topic], on_assign=gained, on_revoke=lost, on_lost=lost)
        reading.append(one)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for one in reading:
            one.poll(0.05)
        if sorted(len(parts) for parts in owned) == [1, 2] and set.union(*owned) == {0, 1, 2}:
            break
    return sorted(len(parts) for parts in owned)


@pytest.mark.parametrize(
    "kind",
    [
        {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 200},
        {"partition_assignment_strategy": "roundrobin", "heartbeat_interval_ms": 200},
        {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200},
        {"group_protocol": "consumer"},
        {"group_protocol": "consumer", "group_remote_assignor": "range"},
    ],
    ids=["range", "roundrobin", "cooperative-sticky", "server-side", "server-side-range"],
)
def test_two_members_on_three_partitions_get_two_and_one(
    topic: str, group: str, consumer: Make, kind: dict[str, Any]
) -> None:
    assert settled_pair(consumer, topic, group, **kind) == [1, 2]


def test_a_pattern_finds_topics_made_later(kafka: str, group: str, consumer: Make) -> None:
    stem = unique("late")
    reading = consumer(group, topic_metadata_refresh_interval_ms=200)
    reading.subscribe([f"^{stem}-.*"])
    deliver(producer(kafka), f"{stem}-1", [{"value": b"1"}])
    deadline = time.monotonic() + WAIT_S
    seen: set[str] = set()
    while len(seen) < 2 and time.monotonic() < deadline:
        message = reading.poll(1)
        if message is not None and message.error() is None and (name := message.topic()) not in seen:
            assert name is not None
            seen.add(name)
            deliver(producer(kafka), f"{stem}-2", [{"value": b"2"}])
    assert seen == {f"{stem}-1", f"{stem}-2"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_to_what_it_had(
    kafka: str, topic: str, group: str, consumer: Make, protocol: str
) -> None:
    common: dict[str, Any] = {"group_protocol": protocol}
    if protocol == "classic":
        common["heartbeat_interval_ms"] = 200
    more = {**common, "group_instance_id": "i"}
    deliver(producer(kafka), topic, [{"value": b"%d" % n, "partition": n % 3} for n in range(9)])
    other = consumer(group, **common)
    other.subscribe([topic])
    first = consumer(group, **more)
    first.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while sorted([len(first.assignment()), len(other.assignment())]) != [1, 2] and time.monotonic() < deadline:
        first.poll(0.05)
        other.poll(0.05)
    had, kept = ({one.partition for one in reading.assignment()} for reading in (first, other))
    assert had and kept and had | kept == {0, 1, 2}
    close(first)
    again = consumer(group, **more)
    again.subscribe([topic])
    while not again.assignment() and time.monotonic() < deadline:
        again.poll(0.05)
        other.poll(0.05)
        assert {one.partition for one in other.assignment()} == kept, "the other member keeps reading"
    assert {one.partition for one in again.assignment()} == had


def test_a_second_process_under_one_instance_id_is_fenced(topic: str, group: str, consumer: Make) -> None:
    first = consumer(group, group_instance_id="i", heartbeat_interval_ms=200)
    first.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while not first.assignment() and time.monotonic() < deadline:
        first.poll(0.05)
    second = consumer(group, group_instance_id="i")
    second.subscribe([topic])
    errors: list[KafkaError] = []
    while not errors and time.monotonic() < deadline:
        second.poll(0.05)
        try:
            told = first.poll(0.05)
        except KafkaException as failed:
            errors.append(failed.args[0])
        else:
            if told is not None and told.error() is not None:
                errors.append(error_of(told))
    assert errors[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_a_long_poll_is_woken_by_a_message(kafka: str, topic: str, group: str, consumer: Make) -> None:
    sending = producer(kafka, linger_ms=0)
    deliver(sending, topic, [{"value": b"first", "partition": 0}])
    reading = consumer(group, fetch_wait_max_ms=20_000)
    reading.assign([TopicPartition(topic, 0, 0)])
    assert take(reading, 1)[0].value() == b"first"
    threading.Timer(0.3, lambda: deliver(sending, topic, [{"value": b"second", "partition": 0}])).start()
    began = time.monotonic()
    assert take(reading, 1)[0].value() == b"second"
    assert time.monotonic() - began < 15  # and not after the twenty seconds that it may wait
