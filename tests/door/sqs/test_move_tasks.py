"""Move tasks: dead letters back to their queues, or to another one, at a rate, until they are cancelled."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.door.sqs.clients import bodies, drain, handles, unique
from tests.door.sqs.test_dead_letters import arn, fail, pair
from tests.waiting import wait_until


def finished(sqs: Any, source: str) -> dict[str, Any]:
    """The last task, when it is over."""

    def over() -> dict[str, Any] | None:
        (task,) = sqs.list_message_move_tasks(SourceArn=source)["Results"]
        return None if task["Status"] in ("RUNNING", "CANCELLING") else dict(task)

    return wait_until(over) or {}


def bury(sqs: Any, source: str, dead: str, *texts: str) -> None:
    """Sends, and receives until everything is dead."""
    for text in texts:
        sqs.send_message(QueueUrl=source, MessageBody=text)
    fail(sqs, source, len(texts))
    names = ["ApproximateNumberOfMessages"]

    def are_dead() -> bool:
        shown = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=names)["Attributes"]
        return int(shown["ApproximateNumberOfMessages"]) >= len(texts)

    wait_until(are_dead)


def refusal(call: Any, **asked: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as refused:
        call(**asked)
    answer = refused.value.response
    return answer["Error"]["Code"], answer["Error"]["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_dead_letters_go_back_to_where_they_died(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, "one", "two")
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"VisibilityTimeout": "30"})
    began = time.time()
    assert sqs.start_message_move_task(SourceArn=arn(sqs, dead))["TaskHandle"]
    task = finished(sqs, arn(sqs, dead))
    assert abs(task.pop("StartedTimestamp") / 1000 - began) < 10
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": arn(sqs, dead),
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    got = drain(sqs, source, 2, AttributeNames=["All"])
    assert sorted(one["Body"] for one in got) == ["one", "two"]
    assert "Messages" not in sqs.receive_message(QueueUrl=dead)


def test_dead_letters_go_to_another_queue(sqs: Any, queue: str) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, "one")
    sqs.send_message(QueueUrl=dead, MessageBody="sent there")
    sqs.start_message_move_task(SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, queue))
    task = finished(sqs, arn(sqs, dead))
    assert (task["Status"], task["DestinationArn"]) == ("COMPLETED", arn(sqs, queue))
    assert task["ApproximateNumberOfMessagesMoved"] == 2
    assert sorted(one["Body"] for one in drain(sqs, queue, 2)) == ["one", "sent there"]
    assert "Messages" not in sqs.receive_message(QueueUrl=source)


def test_what_was_deleted_is_not_moved(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, "gone", "stays")
    answer = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, WaitTimeSeconds=5, VisibilityTimeout=30)
    for body, handle in zip(bodies(answer), handles(answer), strict=True):
        if body == "gone":
            sqs.delete_message(QueueUrl=dead, ReceiptHandle=handle)
        else:
            sqs.change_message_visibility(QueueUrl=dead, ReceiptHandle=handle, VisibilityTimeout=0)
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"VisibilityTimeout": "30"})
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    assert finished(sqs, arn(sqs, dead))["ApproximateNumberOfMessagesMoved"] == 1
    assert [one["Body"] for one in drain(sqs, source, 1)] == ["stays"]
    assert "Messages" not in sqs.receive_message(QueueUrl=source)


def test_a_slow_task_can_be_cancelled(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, *map(str, range(10)))
    handle = sqs.start_message_move_task(SourceArn=arn(sqs, dead), MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    (running,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
    assert (running["Status"], running["TaskHandle"]) == ("RUNNING", handle)
    assert running["MaxNumberOfMessagesPerSecond"] == 1
    code, told, _ = refusal(sqs.start_message_move_task, SourceArn=arn(sqs, dead))
    assert (code, told) == (
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    )
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    assert moved < 10
    task = finished(sqs, arn(sqs, dead))
    assert task["Status"] == "CANCELLED"
    assert "TaskHandle" not in task
    assert refusal(sqs.cancel_message_move_task, TaskHandle=handle)[0] == "InvalidParameterValue"


def test_what_cannot_be_moved(sqs: Any, queue: str, fifo: str) -> None:
    _, dead = pair(sqs)
    unknown = "arn:aws:sqs:us-east-1:000000000000:none"
    for asked, expected in (
        ({"SourceArn": arn(sqs, queue)}, ("InvalidParameterValue", "Source queue must be configured as a Dead", 400)),
        ({"SourceArn": unknown}, ("ResourceNotFoundException", "for the SourceArn parameter doesn't exist", 404)),
        ({"SourceArn": "nonsense"}, ("InvalidParameterValue", "You must use this format", 400)),
        (
            {"SourceArn": arn(sqs, dead), "DestinationArn": unknown},
            ("ResourceNotFoundException", "for the DestinationArn parameter doesn't exist", 404),
        ),
        ({"SourceArn": arn(sqs, dead), "DestinationArn": arn(sqs, fifo)}, ("InvalidParameterValue", "both", 400)),
        (
            {"SourceArn": arn(sqs, dead), "MaxNumberOfMessagesPerSecond": 501},
            ("InvalidParameterValue", "Must be between 1 and 500", 400),
        ),
    ):
        code, told, status = refusal(sqs.start_message_move_task, **asked)
        assert (code, status) == (expected[0], expected[2])
        assert expected[1] in told
    assert "Results" not in sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))


def test_handles_of_tasks_that_are_none(sqs: Any) -> None:
    _, dead = pair(sqs)
    for text, code in (
        ("nonsense", "InvalidParameterValue"),
        (json.dumps({"taskId": "x", "sourceArn": f"{arn(sqs, dead)}-{unique()}"}), "ResourceNotFoundException"),
        (json.dumps({"taskId": "x", "sourceArn": arn(sqs, dead)}), "ResourceNotFoundException"),
    ):
        handle = base64.b64encode(text.encode()).decode()
        assert refusal(sqs.cancel_message_move_task, TaskHandle=handle)[0] == code
    assert refusal(sqs.cancel_message_move_task, TaskHandle="!")[0] == "InvalidParameterValue"
