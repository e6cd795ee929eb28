"""FIFO queues: order within a message group, one group in flight at a time, each deduplication id once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, handles, unique


def send(sqs: Any, queue: str, body: str, group: str = "g", once: str | None = None) -> dict[str, Any]:
    sent: dict[str, Any] = sqs.send_message(
        QueueUrl=queue, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=once or unique("d")
    )
    return sent


def test_messages_of_a_group_come_in_order(sqs: Any, fifo: str) -> None:
    sent = [send(sqs, fifo, str(number)) for number in range(30)]
    got = drain(sqs, fifo, 30, AttributeNames=["All"])
    assert [int(one["Body"]) for one in got] == list(range(30))
    numbers = [one["Attributes"]["SequenceNumber"] for one in got]
    assert numbers == sorted(numbers) == [one["SequenceNumber"] for one in sent]
    assert len(set(numbers)) == 30
    assert all(len(number) == 20 and number.isdecimal() for number in numbers)


def test_a_batch_keeps_its_order(sqs: Any, fifo: str) -> None:
    entries = [
        {"Id": str(at), "MessageBody": str(at), "MessageGroupId": "g", "MessageDeduplicationId": unique("d")}
        for at in range(10)
    ]
    sent = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)["Successful"]
    numbers = [one["SequenceNumber"] for one in sent]
    assert numbers == sorted(numbers)
    answer = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10, WaitTimeSeconds=5)
    assert bodies(answer) == [str(at) for at in range(10)]


def test_a_group_in_flight_is_closed_to_others(sqs: Any, fifo: str) -> None:
    for number in range(4):
        send(sqs, fifo, f"a{number}", "a")
    send(sqs, fifo, "b0", "b")
    first: dict[str, str] = {}
    while len(first) < 2:  # one of each group, whichever comes first
        answer = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=1, WaitTimeSeconds=5)
        first[bodies(answer)[0]] = handles(answer)[0]
    assert set(first) == {"a0", "b0"}
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["a0"])
    answer = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=2, WaitTimeSeconds=5)
    assert bodies(answer) == ["a1", "a2"]
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)


def test_a_message_that_comes_back_comes_before_the_next_of_its_group(sqs: Any, fifo: str) -> None:
    for number in range(3):
        send(sqs, fifo, str(number))
    (handle,) = handles(sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5))
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=handle, VisibilityTimeout=0)
    assert [one["Body"] for one in drain(sqs, fifo, 3)] == ["0", "1", "2"]


def test_an_id_is_taken_once(sqs: Any, fifo: str) -> None:
    first = send(sqs, fifo, "first", once="same")
    again = send(sqs, fifo, "second", "other", once="same")
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert again["MD5OfMessageBody"] == hashlib.md5(b"second").hexdigest()
    assert [one["Body"] for one in drain(sqs, fifo, 1)] == ["first"]
    send(sqs, fifo, "third", once="same")  # also after it was deleted
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=1)


def test_a_batch_with_the_same_id_twice_brings_one_message(sqs: Any, fifo: str) -> None:
    entries = [
        {"Id": str(at), "MessageBody": str(at), "MessageGroupId": "g", "MessageDeduplicationId": "twice"}
        for at in range(2)
    ]
    one, two = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)["Successful"]
    assert one["MessageId"] == two["MessageId"]
    assert [one["Body"] for one in drain(sqs, fifo, 1)] == ["0"]
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo)


def test_an_id_may_count_within_its_group(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(FifoQueue="true", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    for group in ("a", "b", "a"):
        send(sqs, queue, group, group, once="same")
    assert sorted(one["Body"] for one in drain(sqs, queue, 2)) == ["a", "b"]


def test_the_body_can_be_the_id(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(FifoQueue="true", ContentBasedDeduplication="true")
    for body in ("one", "one", "two"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g")
    got = drain(sqs, queue, 2, AttributeNames=["MessageDeduplicationId", "MessageGroupId"])
    assert [one["Body"] for one in got] == ["one", "two"]
    assert got[0]["Attributes"] == {
        "MessageDeduplicationId": hashlib.sha256(b"one").hexdigest(),
        "MessageGroupId": "g",
    }


def test_sends_of_one_id_at_the_same_time_bring_one_message(sqs: Any, fifo: str, sqs_node: NodeProcess) -> None:
    ids: list[str] = []

    def race() -> None:
        with client(sqs_node.sqs) as own:
            ids.append(send(own, fifo, "b", once="race")["MessageId"])

    racers = [threading.Thread(target=race) for _ in range(8)]
    for one in racers:
        one.start()
    for one in racers:
        one.join(30)
    assert len(ids) == 8
    assert len(set(ids)) == 1
    drain(sqs, fifo, 1)
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo)


def test_a_receive_asked_again_brings_the_same(sqs: Any, fifo: str) -> None:
    for number in range(2):
        send(sqs, fifo, str(number), str(number))
    first = sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5, ReceiveRequestAttemptId="once")
    again = sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5, ReceiveRequestAttemptId="once")
    assert first["Messages"] == again["Messages"]
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=handles(first)[0])
    other = sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5, ReceiveRequestAttemptId="once")
    assert bodies(other) != bodies(first)


def test_an_expired_handle_is_refused(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "b")
    (handle,) = handles(sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5, VisibilityTimeout=1))
    (other,) = handles(sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5))
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*The receipt handle has expired"):
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=handle)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=other)


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ({"MessageDeduplicationId": "d"}, "MissingParameter", "must contain the parameter MessageGroupId"),
        ({"MessageGroupId": "g"}, "InvalidParameterValue", "ContentBasedDeduplication enabled or"),
        ({"MessageGroupId": "g g", "MessageDeduplicationId": "d"}, "InvalidParameterValue", "1 to 128 in length"),
        ({"MessageGroupId": "g", "MessageDeduplicationId": "d" * 129}, "InvalidParameterValue", "1 to 128 in length"),
        (
            {"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 2},
            "InvalidParameterValue",
            "not valid for this queue type",
        ),
    ],
)
def test_what_a_fifo_queue_refuses(sqs: Any, fifo: str, asked: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(ClientError, match=told) as refused:
        sqs.send_message(QueueUrl=fifo, MessageBody="b", **asked)
    assert refused.value.response["Error"]["Code"] == code


def test_what_only_a_fifo_queue_takes(sqs: Any, queue: str) -> None:
    with pytest.raises(ClientError, match="not valid for this queue type"):
        sqs.send_message(QueueUrl=queue, MessageBody="b", MessageDeduplicationId="d")
    with pytest.raises(ClientError, match="not valid for this queue type"):
        sqs.receive_message(QueueUrl=queue, ReceiveRequestAttemptId="a")


def test_ids_survive_kill_9(node: NodeProcess) -> None:
    attributes = {"FifoQueue": "true"}
    with client(node.sqs) as sqs:
        plain = sqs.create_queue(QueueName="plain.fifo", Attributes=attributes)["QueueUrl"]
        slow = sqs.create_queue(QueueName="slow.fifo", Attributes={**attributes, "DelaySeconds": "4"})["QueueUrl"]
        first = {queue: send(sqs, queue, "first", once="same") for queue in (plain, slow)}
        deleted = send(sqs, plain, "deleted", "other", once="gone")
        (got,) = [one for one in drain(sqs, plain, 2) if one["Body"] == "deleted"]
        assert got["MessageId"] == deleted["MessageId"]
    node.kill()
    node.start()
    with client(node.sqs) as sqs:
        for queue, before in first.items():
            again = send(sqs, f"{node.sqs}/000000000000/{queue.rpartition('/')[2]}", "again", once="same")
            assert again["MessageId"] == before["MessageId"]
            assert again["SequenceNumber"] == before["SequenceNumber"]
        assert send(sqs, "plain.fifo", "again", "other", once="gone")["MessageId"] == deleted["MessageId"]
        later = send(sqs, "plain.fifo", "later")
        assert later["SequenceNumber"] > first[plain]["SequenceNumber"]
        assert [one["Body"] for one in drain(sqs, "plain.fifo", 1)] == ["later"]
        assert [one["Body"] for one in drain(sqs, "slow.fifo", 1)] == ["first"]
        assert "Messages" not in sqs.receive_message(QueueUrl="slow.fifo", WaitTimeSeconds=1)


def test_more_ids_than_the_node_remembers_are_throttled(tmp_path: Path) -> None:
    settings = {"GOQUEUE_SQS_DEDUPLICATION_IDS_MAX": "3"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, client(node.sqs) as sqs:
        sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})
        for number in range(3):
            send(sqs, "q.fifo", str(number), once=str(number))
        with pytest.raises(sqs.exceptions.RequestThrottled, match="deduplication_ids_max"):
            send(sqs, "q.fifo", "one more")
        assert [one["Body"] for one in drain(sqs, "q.fifo", 3)] == ["0", "1", "2"]
