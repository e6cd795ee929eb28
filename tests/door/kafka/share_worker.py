"""A share consumer of the stock C client that does as it is told, in a process of its own.

`python -m tests.door.kafka.share_worker ADDRESS GROUP TOPIC`. A value is acknowledged as its first word says: release,
reject, or hold, which is not answered when it comes for the first time. All others are accepted. Every record is
printed as "got partition offset count value", every finished commit as "done partition offset".
"""

from __future__ import annotations

import select
import sys
import threading
from typing import Any

from confluent_kafka import AcknowledgeType, ShareConsumer

KINDS = {"release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}


def committed(offsets: dict[Any, set[int]], error: Exception | None) -> None:
    word = "done" if error is None else "late"
    for at, some in offsets.items():
        for offset in sorted(some):
            print(word, at.partition, offset, flush=True)


def work(consumer: ShareConsumer) -> None:
    while not select.select([sys.stdin], [], [], 0)[0]:
        messages = consumer.poll(0.5)
        for message in messages:
            if message.error() is not None:
                continue
            count = message.delivery_count() or 0
            value = (message.value() or b"").decode()
            print("got", message.partition(), message.offset(), count, value, flush=True)
            word = value.split(" ")[0]
            if word == "hold" and count == 1:
                threading.Event().wait()
            consumer.acknowledge(message, KINDS.get(word, AcknowledgeType.ACCEPT))
        if len(messages):
            consumer.commit_sync(10)


def main(address: str, group: str, topic: str) -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 20,
            "log_level": 2,
        }
    )
    consumer.set_acknowledgement_commit_callback(committed)
    consumer.subscribe([topic])
    work(consumer)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
