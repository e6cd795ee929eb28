"""Share consumers as a load: `python -m bench.share_load client|wire ADDRESS GROUP TOPIC COUNT`, how many messages were
taken and from when to when, as JSON.

`client` is the stock C client, `wire` a socket that asks for batches and acknowledges them whole, and costs next to
nothing itself.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import sys
import time
import uuid
from typing import Any

import confluent_kafka

from goqueue.wire.frames import decode_response_frame, encode_request_frame
from goqueue.wire.messages import share_fetch as fetching
from goqueue.wire.messages import share_group_heartbeat as beats
from tests.wire.client import APIS  # the broker has no client's side of these

RECORDS = 5_000
_WARM = 4  # a quarter is not measured


def has_client() -> bool:
    return hasattr(confluent_kafka, "ShareConsumer")


def client(address: str, group: str, topic: str, count: int) -> dict[str, float]:
    """Every message is acknowledged by itself, and sent with the next poll."""
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": RECORDS,
            "log_level": 3,
        }
    )
    consumer.subscribe([topic])
    got, since, began = 0, 0, 0.0
    while got < count:
        messages = consumer.poll(5)
        for message in messages:
            if message.error() is not None:
                raise SystemExit(f"cannot consume: {message.error()}")
            consumer.acknowledge(message)
        got += len(messages)
        if not since and got >= count // _WARM:
            since, began = got, time.time()
    consumer.commit_sync(30)
    found = {"count": got - since, "began": began, "ended": time.time()}
    consumer.close()
    return found


class Wire:
    """One member, spoken by hand."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._group, self._member_id = group, uuid.uuid4().hex
        asked = beats.ShareGroupHeartbeatRequest(group, self._member_id, 0, None, [topic])
        (assigned,) = self._ask(beats.API.key, 1, asked).assignment.topic_partitions
        self._topic_id, self._numbers_assigned = bytes(assigned.topic_id), assigned.partitions
        self._epoch = 0

    def _ask(self, key: int, version: int, request: object) -> Any:
        api, number = APIS[key], next(self._numbers)
        self._socket.sendall(b"".join(encode_request_frame(api, version, number, b"wire", request)))
        (size,) = struct.unpack(">i", self._file.read(4))
        return decode_response_frame(api, version, number, memoryview(self._file.read(size)))

    def fetch(self, answers: dict[int, list[tuple[int, int]]]) -> dict[int, list[tuple[int, int]]]:
        """Accepts these ranges and acquires others, by partition."""
        numbers = self._numbers_assigned if self._epoch == 0 else list(answers)
        parts = [
            fetching.FetchPartition(
                number, 0, [fetching.AcknowledgementBatch(*one, [1]) for one in answers.get(number, ())]
            )
            for number in numbers
        ]
        topics = [fetching.FetchTopic(self._topic_id, parts)] if parts else []
        told = self._ask(
            fetching.API.key,
            1,
            fetching.ShareFetchRequest(
                self._group,
                self._member_id,
                self._epoch,
                1_000,
                1,
                max_records=RECORDS,
                batch_size=RECORDS,
                topics=topics,
            ),
        )
        if told.error_code:
            raise SystemExit(f"refused: {told.error_code}")
        self._epoch += 1
        found = [part for topic in told.responses for part in topic.partitions if part.acquired_records]
        return {
            part.partition_index: [(one.first_offset, one.last_offset) for one in part.acquired_records]
            for part in found
        }


def wire(address: str, group: str, topic: str, count: int) -> dict[str, float]:
    member = Wire(address, group, topic)
    got, answers = 0, member.fetch({})
    began = time.time()
    while got < count:
        got += sum(last - first + 1 for ranges in answers.values() for first, last in ranges)
        answers = member.fetch(answers)
    return {"count": got, "began": began, "ended": time.time()}


def main(arguments: list[str]) -> None:
    kind, address, group, topic, count = arguments
    found = (client if kind == "client" else wire)(address, group, topic, int(count))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
