"""Topics with something in them, and what is in them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.node_process import NodeProcess
from goqueue.client import Client
from tests.kafka_messages import error_of, place_of

_SECONDS = 30.0


class Row(NamedTuple):
    """One message; `partition` -1 leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: Sequence[tuple[str, bytes | None]] = ()


class Stored(NamedTuple):
    """One message as it lies in the log."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def make_topic(node: NodeProcess, name: str, partitions: int = 1, **config: Any) -> str:
    """A new topic; its name. Settings go in with underscores for dots."""
    with Client(node.url) as client:
        client.create_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
    return name


def fill(node: NodeProcess, topic: str, rows: Iterable[Row | bytes]) -> None:
    """Writes them all, in order within a partition, and returns when the node has them."""
    failures: list[object] = []

    def done(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 5, "enable.idempotence": True})
    for given in rows:
        row = given if isinstance(given, Row) else Row(given)
        while not _is_taken(producer, topic, row, done):
            producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(_SECONDS)
    assert not left and not failures, (left, failures[:3])


def _is_taken(producer: Producer, topic: str, row: Row, done: Callable[[object, object], None]) -> bool:
    """Not if too much waits."""
    headers: list[tuple[str, str | bytes | None]] = [*row.headers]
    try:
        producer.produce(topic, row.value, row.key, row.partition, headers=headers or None, on_delivery=done)
    except BufferError:
        return False
    return True


def contents(node: NodeProcess, topic: str, isolation: str = "read_committed") -> list[Stored]:
    """Everything a reader of that isolation sees up to the end, by partition and offset."""
    with Client(node.url) as client:
        partitions = [one.partition for one in client.topic(topic).partitions]
    consumer = Consumer(
        {
            "bootstrap.servers": node.kafka,
            "group.id": "contents",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        return sorted(_drained(consumer, topic, partitions))
    finally:
        consumer.close()


def _drained(consumer: Consumer, topic: str, partitions: list[int]) -> Iterable[Stored]:
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    waiting = set(partitions)
    while waiting:
        message = consumer.poll(_SECONDS)
        assert message is not None, f"no end of {topic} within {_SECONDS} s"
        if message.error() is None:
            yield _stored(message)
        elif error_of(message).code() == -191:  # the end of a partition
            waiting.discard(place_of(message)[0])
        else:
            raise AssertionError(message.error())


def _stored(message: Any) -> Stored:
    headers = tuple(message.headers() or ())
    return Stored(message.partition(), message.offset(), message.key(), message.value(), headers)
