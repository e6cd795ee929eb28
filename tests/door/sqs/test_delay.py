"""Delays, of a message and of a queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain
from tests.waiting import stretched


def delayed(sqs: Any, queue: str) -> str:
    names = ["ApproximateNumberOfMessagesDelayed"]
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return str(shown["ApproximateNumberOfMessagesDelayed"])


def test_a_message_comes_when_its_delay_is_over(sqs: Any, queue: str) -> None:
    began = time.monotonic()
    sqs.send_message(QueueUrl=queue, MessageBody="late", DelaySeconds=5)
    sqs.send_message(QueueUrl=queue, MessageBody="now", DelaySeconds=0)
    assert delayed(sqs, queue) == "1"
    assert bodies(sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)) == ["now"]
    (got,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, AttributeNames=["SentTimestamp"])["Messages"]
    assert got["Body"] == "late"
    assert 4.8 < time.monotonic() - began < stretched(8)
    assert time.time() - int(got["Attributes"]["SentTimestamp"]) / 1000 > 4.8  # when it was sent, not when it came
    assert delayed(sqs, queue) == "0"


def test_a_queue_delays_what_does_not_say_otherwise(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(DelaySeconds="5")
    began = time.monotonic()
    sqs.send_message(QueueUrl=queue, MessageBody="late")
    sqs.send_message(QueueUrl=queue, MessageBody="now", DelaySeconds=0)
    assert bodies(sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)) == ["now"]
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)) == ["late"]
    assert 4.8 < time.monotonic() - began < stretched(8)


def test_a_fifo_queue_delays_all_and_keeps_their_order(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(FifoQueue="true", ContentBasedDeduplication="true", DelaySeconds="1")
    for number in range(10):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number), MessageGroupId="g")
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    assert [int(one["Body"]) for one in drain(sqs, queue, 10)] == list(range(10))


def test_delays_survive_kill_9(node: NodeProcess) -> None:
    with client(node.sqs) as sqs:
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="late", DelaySeconds=6)
        began = time.monotonic()
    node.kill()
    node.start()
    with client(node.sqs) as sqs:
        waiting = delayed(sqs, "q")
        assert waiting == "1" or time.monotonic() - began > 5  # a slow machine may have taken all that time
        assert [one["Body"] for one in drain(sqs, "q", 1)] == ["late"]
        assert time.monotonic() - began > 5


def test_a_purge_takes_what_waits_too(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="late", DelaySeconds=1)
    sqs.send_message(QueueUrl=queue, MessageBody="now")
    sqs.purge_queue(QueueUrl=queue)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == ["new"]
