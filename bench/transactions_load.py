"""Stock clients with transactions: `python -m bench.transactions_load KIND ADDRESS TOPIC ...`, JSON on stdout.

The C client, or with `aio-` before the kind the one for asyncio. It runs in a process of its own, so that its CPU time
can be told from the node's.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import uvloop
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

BATCH = 1_000
_SHARED: dict[str, Any] = {
    "linger.ms": 5,
    "batch.num.messages": 10_000,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,
}
_WAIT_S = 60


def publish(kind: str, address: str, topic: str, size: int, seconds: float) -> dict[str, float]:
    """Batches of 1,000: in a transaction each, or idempotent and waited for, or idempotent and one behind the other."""
    more = {"transactional.id": f"bench-{topic}"} if kind == "transactional" else {"enable.idempotence": True}
    producer = Producer({"bootstrap.servers": address, **_SHARED, **more})
    if kind == "transactional":
        producer.init_transactions(_WAIT_S)
    batch = [{"value": b"x" * size} for _ in range(BATCH)]
    _publish_one(kind, producer, topic, batch)
    began = time.perf_counter()
    sent = 0
    while time.perf_counter() - began < seconds:
        sent += _publish_one(kind, producer, topic, batch)
    left = producer.flush(_WAIT_S)
    return {"rate": (sent - left) / (time.perf_counter() - began), "count": sent - left}


def _publish_one(kind: str, producer: Producer, topic: str, batch: list[dict[str, Any]]) -> int:
    if kind == "transactional":
        producer.begin_transaction()
    for message in batch:
        message.pop("_error", None)
    sent = producer.produce_batch(topic, batch)
    if kind == "transactional":
        producer.commit_transaction(_WAIT_S)
    elif kind == "waited":
        producer.flush(_WAIT_S)
    else:
        while len(producer) > 100 * BATCH:
            producer.poll(0.01)
        producer.poll(0)
    return sent


async def publish_async(kind: str, address: str, topic: str, size: int, seconds: float) -> dict[str, float]:
    """The same by asyncio: in a transaction each, or idempotent and waited for."""
    more = {"transactional_id": f"bench-{topic}"} if kind == "transactional" else {"enable_idempotence": True}
    producer = AIOKafkaProducer(bootstrap_servers=address, max_batch_size=1_000_000, **more)
    await producer.start()
    sent, value = 0, b"x" * size
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if kind == "transactional":
            await producer.begin_transaction()
        stored = [await producer.send(topic, value, partition=number % 3) for number in range(BATCH)]
        await producer.flush()
        if kind == "transactional":
            await producer.commit_transaction()
        sent += sum(one.done() and one.exception() is None for one in stored)
    spent = time.perf_counter() - began
    await producer.stop()
    return {"rate": sent / spent, "count": sent}


def fill(address: str, topic: str, size: int, committed: int, aborted: int) -> dict[str, float]:
    """Committed transactions of 1,000 messages, and as many aborted ones of one message before each as are wanted."""
    producer = Producer({"bootstrap.servers": address, **_SHARED, "transactional.id": f"fill-{topic}"})
    producer.init_transactions(_WAIT_S)
    batch = [{"value": b"x" * size} for _ in range(BATCH)]
    for _ in range(committed):
        for _ in range(aborted):
            producer.begin_transaction()
            producer.produce(topic, b"aborted")
            producer.flush(_WAIT_S)
            producer.abort_transaction(_WAIT_S)
        _publish_one("transactional", producer, topic, batch)
    return {"count": committed * BATCH}


def read(address: str, topic: str, count: int) -> dict[str, float]:
    """Committed messages of the only partition, from the start, until all were handed to Python."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4_000_000,
            "fetch.max.bytes": 50_000_000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = len(consumer.consume(1, 30))
    began = time.perf_counter()
    while got < count:
        found = consumer.consume(min(10_000, count - got), 10)
        if not found:
            raise SystemExit(f"{got} of {count} messages came")
        got += len(found)
    spent = time.perf_counter() - began
    if consumer.consume(1, 0.5):
        raise SystemExit(f"more than the {count} committed messages came")
    consumer.close()
    return {"rate": got / spent, "seconds": spent}


def main(arguments: list[str]) -> None:
    kind, address, topic, *numbers = arguments
    if kind == "fill":
        size, committed, aborted = map(int, numbers)
        found = fill(address, topic, size, committed, aborted)
    elif kind == "read":
        found = read(address, topic, int(numbers[0]))
    elif kind.startswith("aio-"):
        found = uvloop.run(publish_async(kind.removeprefix("aio-"), address, topic, int(numbers[0]), float(numbers[1])))
    else:
        found = publish(kind, address, topic, int(numbers[0]), float(numbers[1]))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
