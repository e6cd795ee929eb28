"""The stock C client as a load: `python -m bench.kafka_load produce|consume|latency ...`, one figure as JSON on stdout.

It runs in a process of its own, so that its CPU time can be told from the node's.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.report import percentile

_SILENT_S_MAX = 60.0


def produce(address: str, topic: str, size: int, seconds: float) -> dict[str, float]:
    """As many as go. Only what was acknowledged counts."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 5,
            "batch.num.messages": 10_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "acks": "all",
        }
    )
    value = b"x" * size
    chunk = [{"value": value} for _ in range(2_000)]
    _warm_up(producer, topic, value)
    began = time.perf_counter()
    sent = 0
    while time.perf_counter() - began < seconds:
        for message in chunk:
            message.pop("_error", None)
        sent += producer.produce_batch(topic, chunk)
        producer.poll(0)
        if len(producer) > 500_000:
            producer.poll(0.01)
    left = producer.flush(60)
    return {"rate": (sent - left) / (time.perf_counter() - began), "count": sent - left}


def _warm_up(producer: Producer, topic: str, value: bytes = b"first") -> None:
    failed: list[KafkaError] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    if producer.flush(30) or failed:
        raise SystemExit(f"cannot produce: {failed}")


def consume(address: str, topic: str, partitions: int, count: int) -> dict[str, float]:
    """From the start until `count` messages were handed to Python."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4_000_000,
            "fetch.max.bytes": 50_000_000,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got = len(consumer.consume(1, 30))
    began = time.perf_counter()
    came = began
    while got < count:
        if found := len(consumer.consume(10_000, 5)):
            got, came = got + found, time.perf_counter()
        elif time.perf_counter() - came > _SILENT_S_MAX:
            raise RuntimeError(f"{got} of {count} messages came, and then none for {_SILENT_S_MAX:.0f} s")
    spent = time.perf_counter() - began
    consumer.close()
    return {"rate": got / spent, "count": got}


def latency(address: str, topic: str, rate: int, seconds: float) -> dict[str, float]:
    """Acknowledged, from the moment each message was due."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all"})
    _warm_up(producer, topic)
    latencies: list[float] = []
    began = time.perf_counter()

    def done(due: float) -> None:
        latencies.append((time.perf_counter() - due) * 1000)

    for number in range(int(rate * seconds)):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            producer.poll(min(left, 0.0005))
        producer.produce(topic, b"x" * 100, on_delivery=lambda *_, due=due: done(due))
        producer.poll(0)
    producer.flush(30)
    latencies.sort()
    return {name: percentile(latencies, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}


def main(arguments: list[str]) -> None:
    kind, address, topic, first, second = arguments
    if kind == "produce":
        found = produce(address, topic, int(first), float(second))
    elif kind == "consume":
        found = consume(address, topic, int(first), int(second))
    else:
        found = latency(address, topic, int(first), float(second))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
