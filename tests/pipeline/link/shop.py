"""Topics, transactions and messages for tests, made over REST and with a stock producer."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.node_process import NodeProcess
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.link.reading import read_arrow

WAIT_S = 30.0


def new_topic(node: NodeProcess, partitions: int = 1, **config: str) -> str:
    name = f"t-{uuid.uuid4()}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    body = {"name": name, "num_partitions": partitions, "config": settings}
    httpx.post(f"{node.url}/topics", json=body).raise_for_status()
    return name


def publish(node: NodeProcess, topic: str, values: Sequence[str], partition: int = 0, **more: Any) -> None:
    messages = [{"value": value, "partition": partition, **more} for value in values]
    for at in range(0, len(messages), 5_000):
        body = {"messages": messages[at : at + 5_000]}
        httpx.post(f"{node.url}/topics/{topic}/messages", json=body, timeout=WAIT_S).raise_for_status()


class Txn:
    """A transactional producer, over REST."""

    def __init__(self, node: NodeProcess, transactional_id: str | None = None) -> None:
        self._node = node
        self.id = transactional_id or f"x-{uuid.uuid4()}"
        self._told = self._post("/producers/init", transactional_id=self.id)

    @property
    def producer_id(self) -> int:
        return int(self._told["producer_id"])

    @property
    def epoch(self) -> int:
        return int(self._told["epoch"])

    def begin(self) -> None:
        self._post("/transactions/begin", **self._who)

    def publish(self, topic: str, *values: str, partition: int = 0) -> None:
        messages = [{"value": value, "partition": partition} for value in values]
        self._post("/transactions/publish", **self._who, topic=topic, messages=messages)

    def end(self, how: str) -> None:
        self._told |= self._post(f"/transactions/{how}", **self._who)

    @property
    def _who(self) -> dict[str, int]:
        return {"producer_id": self.producer_id, "epoch": self.epoch}

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = httpx.post(f"{self._node.url}{path}", json=body, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def stock_producer(node: NodeProcess, **more: Any) -> Producer:
    return Producer({"bootstrap.servers": node.kafka, "linger.ms": 5, **more})


def stock_read(node: NodeProcess, place: Place, isolation: str = "read_committed") -> list[Any]:
    """Everything that a stock consumer sees, up to the end as of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.kafka,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(place.topic, place.partition, 0)])
        found: list[Any] = []
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error():
                return found  # the end
            found.append(message)
    finally:
        consumer.close()


def values_of(node: NodeProcess, *ranges: OffsetRange, **more: Any) -> list[bytes | None]:
    pieces = read_arrow(node.kafka, ranges, ["value"], **more)
    return [value for piece in pieces for value in piece.column("value").to_pylist()]


def fixed_ports() -> tuple[list[str], Callable[[], None]]:
    """Flags for a node that comes back at the same place, and what to call before it is started."""
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    rest, kafka = (one.getsockname()[1] for one in held)

    def release() -> None:
        for one in held:
            one.close()

    return ["--rest", f"127.0.0.1:{rest}", "--kafka", f"127.0.0.1:{kafka}"], release


def whole(node: NodeProcess, topic: str, partition: int = 0, isolation: str = "read_committed") -> OffsetRange:
    place = Place(topic, partition)
    return OffsetRange(topic, partition, 0, cluster(node.kafka).latest([place], isolation)[place])
