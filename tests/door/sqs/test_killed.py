"""`kill -9` in the middle: what was acknowledged is there, what was deleted stays deleted."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, handles

HELD_S = (
    5  # a handle that ran out deletes nothing, though the answer is the same: longer than a busy machine stands still
)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_sends_and_deletes_survive(node: NodeProcess, fifo: bool) -> None:
    name = "q.fifo" if fifo else "q"
    kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
    sent: list[str] = []
    deleted: list[str] = []
    deleting: set[str] = set()  # what the node was asked to delete: it may have done so and died before its answer
    tried: set[str] = set()
    gone = threading.Event()

    def produce() -> None:
        with client(node.sqs) as sqs:
            for number in range(100_000):
                body = str(number)
                tried.add(body)
                more = {"MessageGroupId": str(number % 7)} if fifo else {}
                try:
                    sqs.send_message(QueueUrl=name, MessageBody=body, **more)
                except (BotoCoreError, ClientError):
                    return
                sent.append(body)

    def consume() -> None:
        with client(node.sqs) as sqs:
            while not gone.is_set():
                try:
                    answer = sqs.receive_message(QueueUrl=name, MaxNumberOfMessages=10, WaitTimeSeconds=1)
                    for body, handle in zip(bodies(answer), handles(answer), strict=True):
                        deleting.add(body)
                        sqs.delete_message(QueueUrl=name, ReceiptHandle=handle)
                        deleted.append(body)
                except (BotoCoreError, ClientError):
                    return

    with client(node.sqs) as sqs:
        sqs.create_queue(QueueName=name, Attributes={**kind, "VisibilityTimeout": str(HELD_S)})
    threads = [threading.Thread(target=produce), threading.Thread(target=consume)]
    for one in threads:
        one.start()
    threads[0].join(3)
    node.kill()
    gone.set()
    for one in threads:
        one.join(30)
    node.start()
    assert len(sent) > 50
    with client(node.sqs) as sqs:
        left = _rest(sqs, name)
    assert len(deleting - set(deleted)) <= 1
    assert set(sent) <= {*deleting, *left}, "an acknowledged message is lost"
    assert not set(deleted) & set(left), "a deleted message came back"
    assert {*deleting, *left} <= tried
    if fifo:
        assert len(left) == len(set(left))
        for group in range(7):
            numbers = [int(body) for body in left if int(body) % 7 == group]
            assert numbers == sorted(numbers)


def _rest(sqs: Any, name: str) -> list[str]:
    left: list[str] = []
    while answer := sqs.receive_message(QueueUrl=name, MaxNumberOfMessages=10, WaitTimeSeconds=HELD_S + 2).get(
        "Messages"
    ):
        for one in answer:
            left.append(one["Body"])
            sqs.delete_message(QueueUrl=name, ReceiptHandle=one["ReceiptHandle"])
    return left


def test_leases_survive(node: NodeProcess) -> None:
    with client(node.sqs) as sqs:
        sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "600"})
        for number in range(3):
            sqs.send_message(QueueUrl="q", MessageBody=str(number))
        held = sqs.receive_message(QueueUrl="q", MaxNumberOfMessages=1, WaitTimeSeconds=5)
    node.kill()
    node.start()
    with client(node.sqs) as sqs:
        assert bodies(held)[0] not in {one["Body"] for one in drain(sqs, "q", 2)}
        sqs.delete_message(QueueUrl="q", ReceiptHandle=handles(held)[0])
        shown = sqs.get_queue_attributes(QueueUrl="q", AttributeNames=["All"])["Attributes"]
        assert (shown["ApproximateNumberOfMessages"], shown["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")
