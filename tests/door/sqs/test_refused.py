"""What AWS refuses is refused, by the same name, in both protocols."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.door.sqs.clients import handles

LONG = "AWS.SimpleQueueService."


def code_of(call: Any, **asked: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as refused:
        call(**asked)
    answer = refused.value.response
    assert answer["Error"]["Type"] == "Sender"
    assert answer["Error"]["Message"]
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "bad \x00 character"}, "InvalidMessageContents"),
        ({"MessageBody": "bad \ufffe character"}, "InvalidMessageContents"),
        ({"MessageBody": "x" * 1_048_577}, "InvalidParameterValue"),
        ({"MessageBody": "b", "DelaySeconds": 901}, "InvalidParameterValue"),
        ({"MessageBody": "b", "DelaySeconds": -1}, "InvalidParameterValue"),
        ({"MessageBody": "b", "MessageGroupId": "a b"}, "InvalidParameterValue"),
        (
            {"MessageBody": "b", "MessageSystemAttributes": {"Other": {"DataType": "String", "StringValue": "x"}}},
            "InvalidParameterValue",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_messages_that_cannot_be_sent(sqs: Any, queue: str, asked: dict[str, Any], code: str) -> None:
    assert code_of(sqs.send_message, QueueUrl=queue, **asked) == (code, 400)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("AWS.x", "String", "v"),
        ("amazon.x", "String", "v"),
        (".x", "String", "v"),
        ("x.", "String", "v"),
        ("x..y", "String", "v"),
        ("x y", "String", "v"),
        ("x" * 257, "String", "v"),
        ("goqueue-sqs", "String", "v"),
        ("x", "Text", "v"),
        ("x", "StringList", "v"),
        ("x", "String" + ".y" * 200, "v"),
        ("x", "", "v"),
        ("x", "String", ""),
        ("x", "String", "\x00"),
        ("x", "Number", "five"),
    ],
)
def test_attributes_that_cannot_be_sent(sqs: Any, queue: str, name: str, kind: str, value: str) -> None:
    attributes = {name: {"DataType": kind, "StringValue": value}}
    assert code_of(sqs.send_message, QueueUrl=queue, MessageBody="b", MessageAttributes=attributes) == (
        "InvalidParameterValue",
        400,
    )


def test_ten_attributes_and_no_more(sqs: Any, queue: str) -> None:
    many = {f"a{number}": {"DataType": "String", "StringValue": "v"} for number in range(11)}
    assert code_of(sqs.send_message, QueueUrl=queue, MessageBody="b", MessageAttributes=many) == (
        "InvalidParameterValue",
        400,
    )
    del many["a0"]
    sqs.send_message(QueueUrl=queue, MessageBody="b", MessageAttributes=many)


def test_attributes_count_towards_the_size(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumMessageSize": "1024"})
    attributes = {"name": {"DataType": "String", "StringValue": "v" * 100}}
    fits = 1024 - 100 - len("name") - len("String")
    sqs.send_message(QueueUrl=queue, MessageBody="b" * fits, MessageAttributes=attributes)
    with pytest.raises(ClientError, match="Message must be shorter than 1024 bytes"):
        sqs.send_message(QueueUrl=queue, MessageBody="b" * (fits + 1), MessageAttributes=attributes)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"MaxNumberOfMessages": 0}, "Must be between 1 and 10, if provided."),
        ({"MaxNumberOfMessages": 11}, "Must be between 1 and 10, if provided."),
        ({"WaitTimeSeconds": -1}, "Must be >= 0 and <= 20, if provided."),
        ({"WaitTimeSeconds": 21}, "Must be >= 0 and <= 20, if provided."),
        ({"VisibilityTimeout": 43_201}, "Must be between 0 and 43200, if provided."),
    ],
)
def test_receives_that_cannot_be(sqs: Any, queue: str, asked: dict[str, int], told: str) -> None:
    with pytest.raises(ClientError, match=told) as refused:
        sqs.receive_message(QueueUrl=queue, **asked)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_handles_that_are_none(sqs: Any, queue: str, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="b", MessageGroupId="g", MessageDeduplicationId="d")
    (other,) = handles(sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=5))
    name = queue.rpartition("/")[2]
    for handle in ("nonsense", "", other, f"{name}:0:0", f"{name}:x:0:1:y"):
        assert code_of(sqs.delete_message, QueueUrl=queue, ReceiptHandle=handle) == (
            "ReceiptHandleIsInvalid",
            400,
        )
        change = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": 1}
        assert code_of(sqs.change_message_visibility, **change) == ("ReceiptHandleIsInvalid", 400)


def test_the_visibility_of_a_message_that_nobody_holds(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (handle,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5))
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    change = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": 1}
    assert code_of(sqs.change_message_visibility, **change) == ("InvalidParameterValue", 400)
    beyond = {**change, "VisibilityTimeout": 43_201}
    assert code_of(sqs.change_message_visibility, **beyond) == ("InvalidParameterValue", 400)


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([str(number) for number in range(11)], "TooManyEntriesInBatchRequest"),
        (["a", "a"], "BatchEntryIdsNotDistinct"),
        (["a b"], "InvalidBatchEntryId"),
        (["x" * 81], "InvalidBatchEntryId"),
        ([""], "InvalidBatchEntryId"),
    ],
)
def test_batches_that_cannot_be(sqs: Any, queue: str, ids: list[str], code: str) -> None:
    sends = [{"Id": one, "MessageBody": "b"} for one in ids]
    deletes = [{"Id": one, "ReceiptHandle": "h"} for one in ids]
    changes = [{**one, "VisibilityTimeout": 1} for one in deletes]
    for call, entries in (
        (sqs.send_message_batch, sends),
        (sqs.delete_message_batch, deletes),
        (sqs.change_message_visibility_batch, changes),
    ):
        assert code_of(call, QueueUrl=queue, Entries=entries) == (LONG + code, 400)


def test_a_batch_has_a_size_too(sqs: Any, queue: str) -> None:
    entries = [{"Id": str(at), "MessageBody": "x" * 524_289} for at in range(2)]
    assert code_of(sqs.send_message_batch, QueueUrl=queue, Entries=entries) == (f"{LONG}BatchRequestTooLong", 400)
    entries = [{"Id": str(at), "MessageBody": "x" * 524_288} for at in range(2)]
    assert len(sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == 2


def test_a_batch_to_a_fifo_queue_needs_its_ids(sqs: Any, fifo: str) -> None:
    for given in ({"MessageGroupId": "g"}, {"MessageDeduplicationId": "d"}):
        assert code_of(sqs.send_message_batch, QueueUrl=fifo, Entries=[{"Id": "1", "MessageBody": "b", **given}]) == (
            "InvalidParameterValue",
            400,
        )


def test_json_clients_get_the_types_they_know(json_sqs: Any, sqs_node: Any) -> None:
    with pytest.raises(json_sqs.exceptions.QueueDoesNotExist):
        json_sqs.get_queue_url(QueueName="none")
    with pytest.raises(json_sqs.exceptions.EmptyBatchRequest):
        url = json_sqs.create_queue(QueueName="typed")["QueueUrl"]
        json_sqs.send_message_batch(QueueUrl=url, Entries=[])
    with pytest.raises(json_sqs.exceptions.QueueNameExists):
        json_sqs.create_queue(QueueName="typed", Attributes={"DelaySeconds": "1"})
    with pytest.raises(json_sqs.exceptions.ReceiptHandleIsInvalid):
        json_sqs.delete_message(QueueUrl=url, ReceiptHandle="x")
    json_sqs.purge_queue(QueueUrl=url)
    with pytest.raises(json_sqs.exceptions.PurgeQueueInProgress):
        json_sqs.purge_queue(QueueUrl=url)
