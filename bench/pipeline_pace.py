"""Publishes at a rate: `python -m bench.pipeline_pace ADDRESS TOPIC RATE SECONDS`. A value says when it was due."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

STEP_S = 0.01
SIZE = 200


def main(address: str, topic: str, rate: int, seconds: int) -> None:
    """Keeps to its own clock: a message that is sent late is as old as if it had been sent in time."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    began = time.time()
    for step in range(int(seconds / STEP_S)):
        due = began + step * STEP_S
        time.sleep(max(0.0, due - time.time()))
        value = b"%020d" % int(due * 1e9) + bytes(SIZE - 20)
        producer.produce_batch(topic, [{"value": value}] * int(rate * STEP_S))
        producer.poll(0)
    if left := producer.flush(120):
        raise SystemExit(f"{left} messages were not stored")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
