"""Fills a topic: `python -m bench.pipeline_fill ADDRESS TOPIC ROWS SIZE`. Values differ, keys repeat."""

from __future__ import annotations

import random
import sys

from confluent_kafka import Producer

CHUNK = 5_000
KEYS = 10_000


def main(address: str, topic: str, rows: int, size: int) -> None:
    chance = random.Random(7)
    noise = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_000_000)).encode()
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    for first in range(0, rows, CHUNK):
        producer.produce_batch(topic, [_message(noise, number, size) for number in range(first, first + CHUNK)])
        while len(producer) > 400_000:
            producer.poll(0.05)
        producer.poll(0)
    if left := producer.flush(120):
        raise SystemExit(f"{left} messages were not stored")


def _message(noise: bytes, number: int, size: int) -> dict[str, bytes]:
    at = number * 7_919 % (len(noise) - size)
    return {"key": b"key-%05d" % (number % KEYS), "value": b"%08d" % number + noise[at : at + size - 8]}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
