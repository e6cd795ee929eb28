"""A group of stock classic consumers takes in one of the server-side protocol and goes back, while everybody reads."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from goqueue.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from goqueue.wire.messages.list_groups import ListGroupsRequest
from tests.door.kafka.raw import Line, new_topic, unique
from tests.waiting import wait_until

PARTITIONS = 6
EACH = 200


class Reader:
    """A consumer on a thread of its own; commits what it read."""

    def __init__(self, kafka: str, group: str, topic: str, **settings: Any) -> None:
        self.values: list[bytes] = []
        self.partitions: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.subscribe([topic], on_revoke=self._revoked)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _revoked(self, consumer: Consumer, partitions: Any) -> None:
        self._commit()

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except Exception:  # nothing to commit, or its place is gone: what was not committed comes again
            return

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            self.partitions = {one.partition for one in self._consumer.assignment()}
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._commit()
        self._consumer.close()


def kind(line: Line, group: str) -> str:
    (found,) = [one for one in line.ask(ListGroupsRequest()).groups if one.group_id == group]
    return str(found.group_type)


def shared_out(*readers: Reader) -> bool:
    held = [number for reader in readers for number in reader.partitions]
    return sorted(held) == list(range(PARTITIONS)) and all(reader.partitions for reader in readers)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_moves_to_the_new_protocol_and_back_under_load(kafka: str, strategy: str) -> None:
    topic, group = unique("move"), unique("g")
    stopped = threading.Event()
    sent: list[bytes] = []

    def write() -> None:
        producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1, "log_level": 0})
        while not stopped.wait(0.01) and len(sent) < 20_000:
            value = str(len(sent)).encode()
            producer.produce(topic, value, partition=len(sent) % PARTITIONS)
            sent.append(value)
            producer.poll(0)
        producer.flush(60)

    with Line(kafka) as line:
        line.ask(new_topic(topic, PARTITIONS))
        writing = threading.Thread(target=write)
        writing.start()
        classic: dict[str, Any] = {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 300}
        old = [Reader(kafka, group, topic, **classic) for _ in range(2)]
        readers = list(old)
        try:
            assert wait_until(lambda: shared_out(*old)) and kind(line, group) == "classic"
            new = Reader(kafka, group, topic, group_protocol="consumer")
            readers.append(new)
            assert wait_until(lambda: shared_out(*old, new)), [one.partitions for one in readers]
            assert kind(line, group) == "consumer"
            (told,) = line.ask(ConsumerGroupDescribeRequest([group])).groups
            assert sorted(one.member_type for one in told.members) == [0, 0, 1]
            new.stop()
            assert wait_until(lambda: shared_out(*old)) and kind(line, group) == "classic"
        finally:
            stopped.set()
            writing.join(60)
            wait_until(lambda: set(sent) <= {value for one in readers for value in one.values})
            for one in old:
                one.stop()
    read = Counter(value for one in readers for value in one.values)
    assert read.keys() == set(sent)
