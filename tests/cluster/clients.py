"""Clients of the tests of a cluster: Kafka's C library and plain HTTP."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_until


class Reachable(Protocol):
    """A cluster, as a client that begins knows it."""

    @property
    def bootstrap(self) -> str: ...


class NodePlace(Protocol):
    """Where a node is reached, and where its data is."""

    @property
    def url(self) -> str: ...

    @property
    def kafka(self) -> str: ...

    @property
    def sqs(self) -> str: ...

    @property
    def data_dir(self) -> Path: ...


class Cluster(Reachable, Protocol):
    """One under test: processes here, or pods."""

    @property
    def nodes(self) -> Sequence[NodePlace]: ...

    @property
    def running(self) -> list[int]: ...


def make_topic(cluster: Cluster, partitions: int = 3, at: int = 0, **config: str) -> str:
    """Through Kafka's door of one node; usable at every node when it returns. `config` has `_` for `.`."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.nodes[at].kafka})
    chosen = {key.replace("_", "."): value for key, value in config.items()}
    for made in admin.create_topics([NewTopic(name, partitions, config=chosen)]).values():
        made.result(60)
    for number in cluster.running:
        wait_until(lambda number=number: knows(cluster, number, name), f"node {number} does not know {name}")  # type: ignore[misc]
    return name


def knows(cluster: Cluster, number: int, topic: str) -> bool:
    return httpx.get(f"{cluster.nodes[number].url}/topics/{topic}", timeout=10).status_code == 200


class Writer:
    """An idempotent producer with `acks=all`, in a thread of its own, that remembers what was acknowledged."""

    def __init__(
        self, cluster: Reachable, topic: str, pause_s: float = 0.002, client: Mapping[str, Any] | None = None
    ) -> None:
        """`client` are settings beside the usual ones."""
        self._producer = Producer(
            {
                **(client or {}),
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 120_000,
                "socket.timeout.ms": 5_000,  # a node that stands still is left
                "topic.metadata.refresh.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._topic = topic
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self.longest_s = 0.0  # between two acknowledgements
        self._told_at = time.monotonic()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert self._producer.flush(120) == 0, "messages that were neither acknowledged nor failed"

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = str(number).encode()
            try:
                self._producer.produce(self._topic, value, key=str(number % 7).encode(), on_delivery=self._told)
                self._producer.poll(0)
            except KafkaException as error:  # a producer whose epoch or sequence was broken cannot go on
                self.failed.append(str(error))
                return
            number += 1
            self._stopping.wait(self._pause_s)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        self.longest_s = max(self.longest_s, time.monotonic() - self._told_at)
        self._told_at = time.monotonic()
        if error is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.failed.append(str(error))

    def wait_more(self, count: int = 50) -> None:
        """So many more are acknowledged."""
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal, lambda: f"{len(self.acknowledged)} of {goal}; {self.failed}")


def read_all(cluster: Cluster, topic: str, at: int | None = None) -> list[tuple[bytes, bytes]]:
    """(key, value) of every message, from the beginning to where each partition ends now."""
    return read_from(cluster.bootstrap if at is None else cluster.nodes[at].kafka, topic, {})


def read_from(servers: str, topic: str, client: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    settings: dict[str, Any] = {
        **client,
        "bootstrap.servers": servers,
        "group.id": uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, 60).topics[topic].partitions
        # Not as a member: one that has to join again would begin anew, and everything would seem to be there twice.
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[tuple[bytes, bytes]] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(120)
            assert message is not None, f"nothing came; {len(found)} read"
            if (error := message.error()) is None:
                found.append((message.key() or b"", message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(str(error))
        return found
    finally:
        consumer.close()


def check_kept(written: Writer, read: list[tuple[bytes, bytes]]) -> None:
    """Everything acknowledged is there, nothing twice, in order within each key."""
    values = [value for _, value in read]
    lost = set(written.acknowledged) - set(values)
    assert not lost, f"acknowledged and lost: {sorted(lost, key=int)[:10]}; failed: {written.failed[:3]}"
    doubled = [value for value, count in Counter(values).items() if count > 1]
    assert not doubled, f"doubled: {doubled[:10]}; failed: {written.failed[:3]}"
    for key in {key for key, _ in read}:
        numbers = [int(value) for one, value in read if one == key]
        assert numbers == sorted(numbers), f"out of order in key {key!r}"
