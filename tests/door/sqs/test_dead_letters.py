"""Redrive: what is received too often goes to the dead-letter queue."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, unique


def arn(sqs: Any, queue: str) -> str:
    names = ["QueueArn"]
    return str(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]["QueueArn"])


def policy(target: str, receives: int | str) -> str:
    return json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": receives})


def pair(sqs: Any, receives: int = 2, fifo: bool = False, **more: str) -> tuple[str, str]:
    """(source, dead-letter queue)"""
    suffix, kind = (".fifo", {"FifoQueue": "true"}) if fifo else ("", {})
    dead = sqs.create_queue(QueueName=unique("dead", suffix), Attributes=kind)["QueueUrl"]
    attributes = {**kind, "VisibilityTimeout": "0", "RedrivePolicy": policy(arn(sqs, dead), receives), **more}
    source = sqs.create_queue(QueueName=unique("source", suffix), Attributes=attributes)["QueueUrl"]
    return source, dead


def fail(sqs: Any, queue: str, times: int) -> None:
    """Receives and lets go."""
    for _ in range(times):
        assert sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]


def test_a_message_received_too_often_is_moved_whole(sqs: Any) -> None:
    source, dead = pair(sqs, 2)
    attributes = {"MyAttribute": {"DataType": "String", "StringValue": "foobar"}}
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison", MessageAttributes=attributes)
    fail(sqs, source, 2)
    (got,) = drain(sqs, dead, 1, MessageAttributeNames=["All"], AttributeNames=["All"])
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], "poison")
    assert got["MessageAttributes"] == attributes
    assert got["MD5OfMessageAttributes"] == "adb59cd4678ea5a855436b949cd07ab6"  # what AWS gives for it
    assert got["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, source)
    assert got["Attributes"]["ApproximateReceiveCount"] == "3"
    assert "Messages" not in sqs.receive_message(QueueUrl=source)


def test_without_a_policy_a_message_comes_for_ever(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(VisibilityTimeout="0")
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    fail(sqs, queue, 20)


def test_the_policy_is_shown_and_can_be_taken_away(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    shown = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert json.loads(shown["RedrivePolicy"]) == {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 1}
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
    same = {"RedrivePolicy": policy(arn(sqs, dead), "1")}
    assert sqs.create_queue(QueueName=source.rpartition("/")[2], Attributes=same)["QueueUrl"] == source
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": ""})
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["RedrivePolicy"])
    assert not sqs.list_dead_letter_source_queues(QueueUrl=dead).get("queueUrls")
    sqs.send_message(QueueUrl=source, MessageBody="b")
    fail(sqs, source, 5)


def test_messages_of_a_fifo_queue_go_to_a_fifo_queue_in_order(sqs: Any) -> None:
    source, dead = pair(sqs, 1, fifo=True)
    for number in range(5):
        sqs.send_message(
            QueueUrl=source, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
        )
    while (answer := sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=1, WaitTimeSeconds=1)).get("Messages"):
        assert len(bodies(answer)) == 1
    got = drain(sqs, dead, 5, AttributeNames=["All"])
    assert [int(one["Body"]) for one in got] == list(range(5))
    assert {one["Attributes"]["MessageGroupId"] for one in got} == {"g"}
    assert [one["Attributes"]["MessageDeduplicationId"] for one in got] == [str(number) for number in range(5)]


def test_a_dead_letter_queue_may_choose_its_sources(sqs: Any, queue: str) -> None:
    dead = sqs.create_queue(
        QueueName=unique("dead"), Attributes={"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'}
    )
    wanted = {"RedrivePolicy": policy(arn(sqs, dead["QueueUrl"]), 3)}
    with pytest.raises(ClientError, match="does not allow"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=wanted)
    allowed = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn(sqs, queue)]})
    sqs.set_queue_attributes(QueueUrl=dead["QueueUrl"], Attributes={"RedriveAllowPolicy": allowed})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=wanted)


def test_kinds_must_agree_and_counts_have_limits(sqs: Any, queue: str, fifo: str) -> None:
    receives: int | str
    for source, target, receives, told in (
        (queue, fifo, 3, "same type of queue"),
        (fifo, queue, 3, "same type of queue"),
    ):
        with pytest.raises(ClientError, match=told):
            sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": policy(arn(sqs, target), receives)})
    dead = sqs.create_queue(QueueName=unique("dead"))["QueueUrl"]
    for receives in (0, 1001, "x", -1, True):
        with pytest.raises(ClientError, match="valid values are from 1 to 1000 both inclusive"):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy(arn(sqs, dead), receives)})


def test_a_queue_may_be_its_own_dead_letter_queue_and_keeps_its_messages(
    sqs: Any, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(VisibilityTimeout="0")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy(arn(sqs, queue), 1)})
    sqs.send_message(QueueUrl=queue, MessageBody="stays")
    for _ in range(3):
        assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == ["stays"]
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert arn(sqs, queue) in shown["RedrivePolicy"]


def test_large_messages_fit_a_queue_that_takes_small_ones(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"MaximumMessageSize": "1024"})
    body = "x" * 1_000_000
    sqs.send_message(QueueUrl=source, MessageBody=body)
    fail(sqs, source, 1)
    assert [one["Body"] for one in drain(sqs, dead, 1)] == [body]


def test_receives_are_counted_over_kill_9(node: NodeProcess) -> None:
    with client(node.sqs) as sqs:
        source, dead = pair(sqs, 3)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        fail(sqs, source, 2)
    node.kill()
    node.start()
    source, dead = (f"{node.sqs}/000000000000/{url.rpartition('/')[2]}" for url in (source, dead))
    with client(node.sqs) as sqs:
        fail(sqs, source, 1)
        (got,) = drain(sqs, dead, 1, AttributeNames=["ApproximateReceiveCount"])
        assert got["Attributes"]["ApproximateReceiveCount"] == "4"
        deadline = time.monotonic() + 5
        while sqs.receive_message(QueueUrl=source).get("Messages"):
            assert time.monotonic() < deadline
