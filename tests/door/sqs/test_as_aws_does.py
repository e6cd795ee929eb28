"""Where AWS itself was observed to answer in a way that its documentation leaves open, or that is easy to get wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, handles, unique
from tests.door.sqs.test_dead_letters import arn, pair
from tests.door.sqs.test_fifo import send
from tests.door.sqs.test_move_tasks import bury, finished
from tests.waiting import wait_until

XRAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def counts(sqs: Any, queue: str) -> tuple[int, int]:
    """Those that can be seen, and those that cannot."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return int(shown[names[0]]), int(shown[names[1]])


def receive(sqs: Any, queue: str, limit: int = 10, wait_s: int = 5, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=limit, WaitTimeSeconds=wait_s, **asked
    )
    return found


# --- FIFO --------------------------------------------------------------------------------------------------


def test_a_receive_brings_one_group_after_the_other(sqs: Any, fifo: str) -> None:
    for body in ("a0", "b0", "a1", "c0", "b1", "a2"):
        send(sqs, fifo, body, body[0])
    assert bodies(receive(sqs, fifo, 2)) == ["a0", "a1"]
    assert bodies(receive(sqs, fifo)) == ["b0", "b1", "c0"]
    assert bodies(receive(sqs, fifo, wait_s=0)) == []


def test_a_message_made_visible_again_comes_although_later_ones_of_its_group_are_in_flight(sqs: Any, fifo: str) -> None:
    for body in ("a0", "a1", "a2"):
        send(sqs, fifo, body)
    first, second = handles(receive(sqs, fifo, 2))
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=first, VisibilityTimeout=0)
    again = receive(sqs, fifo)
    assert bodies(again) == ["a0"]
    for handle in (*handles(again), second):
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=handle)
    assert bodies(receive(sqs, fifo)) == ["a2"]


@pytest.mark.parametrize(("kept", "seen"), [(0, []), (1, ["a0"]), (2, ["a0", "a1"])])
def test_what_comes_after_a_message_that_is_kept_longer_stays_invisible(
    sqs: Any, fifo: str, kept: int, seen: list[str]
) -> None:
    for body in ("a0", "a1", "a2"):
        send(sqs, fifo, body)
    got = handles(receive(sqs, fifo, VisibilityTimeout=1))
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=got[kept], VisibilityTimeout=60)
    wait_until(lambda: counts(sqs, fifo) == (2, 1))
    assert bodies(receive(sqs, fifo, wait_s=0)) == seen


def test_a_purge_forgets_deduplication_ids(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "before", once="same")
    sqs.purge_queue(QueueUrl=fifo)
    send(sqs, fifo, "after", once="same")
    send(sqs, fifo, "again", once="same")
    assert [one["Body"] for one in drain(sqs, fifo, 1)] == ["after"]
    assert counts(sqs, fifo) == (0, 0)


def test_a_purge_forgets_deduplication_ids_over_kill_9(node: NodeProcess) -> None:
    with client(node.sqs) as sqs:
        queue = sqs.create_queue(QueueName="p.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        send(sqs, queue, "before", once="one")
        send(sqs, queue, "other", once="two")
        sqs.purge_queue(QueueUrl=queue)
        send(sqs, queue, "after", once="one")
    node.kill()
    node.start()
    with client(node.sqs) as sqs:
        queue = f"{node.sqs}/000000000000/p.fifo"
        send(sqs, queue, "repeated", once="one")
        send(sqs, queue, "new", once="two")
        assert [one["Body"] for one in drain(sqs, queue, 2)] == ["after", "new"]


def test_high_throughput_needs_ids_within_groups(sqs: Any, fifo: str) -> None:
    fast = {"FifoThroughputLimit": "perMessageGroupId"}
    with pytest.raises(ClientError, match="only when the value for DeduplicationScope is messageGroup"):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes=fast)
    with pytest.raises(ClientError, match="only when the value for DeduplicationScope is messageGroup"):
        sqs.create_queue(QueueName=unique(suffix=".fifo"), Attributes={"FifoQueue": "true", **fast})
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={**fast, "DeduplicationScope": "messageGroup"})
    with pytest.raises(ClientError, match="only when the value for DeduplicationScope is messageGroup"):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"DeduplicationScope": "queue"})


def test_an_attempt_that_hides_nothing_is_taken_anew(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "b")
    asked: dict[str, Any] = {"ReceiveRequestAttemptId": "once", "AttributeNames": ["ApproximateReceiveCount"]}
    for count in ("1", "2"):
        (got,) = receive(sqs, fifo, VisibilityTimeout=0, **asked)["Messages"]
        assert got["Attributes"]["ApproximateReceiveCount"] == count


# --- counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("received", [0, 2])
def test_counts_are_right_after_a_purge(sqs: Any, queue: str, received: int) -> None:
    for body in "abc":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    for _ in range(received):
        receive(sqs, queue, 1)
    sqs.send_message(QueueUrl=queue, MessageBody="d")
    sqs.purge_queue(QueueUrl=queue)
    assert counts(sqs, queue) == (0, 0)
    sqs.send_message(QueueUrl=queue, MessageBody="e")
    assert counts(sqs, queue) == (1, 0)


@pytest.mark.parametrize("received", [False, True])
def test_counts_are_right_after_a_move_task(sqs: Any, received: bool) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, "one", "two", "three")
    if received:
        receive(sqs, dead, 1, VisibilityTimeout=0)
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"VisibilityTimeout": "30"})
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    assert finished(sqs, arn(sqs, dead))["ApproximateNumberOfMessagesMoved"] == 3
    assert counts(sqs, dead) == (0, 0)
    assert counts(sqs, source) == (3, 0)
    sqs.send_message(QueueUrl=dead, MessageBody="four")
    assert counts(sqs, dead) == (1, 0)


# --- move tasks --------------------------------------------------------------------------------------------


def test_a_move_task_whose_destination_is_deleted_fails(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    bury(sqs, source, dead, *map(str, range(5)))
    to = sqs.create_queue(QueueName=unique("to"))["QueueUrl"]
    sqs.start_message_move_task(SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, to), MaxNumberOfMessagesPerSecond=1)
    sqs.delete_queue(QueueUrl=to)
    task = finished(sqs, arn(sqs, dead))
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    assert counts(sqs, dead)[0] == 5 - task["ApproximateNumberOfMessagesMoved"] > 0


def test_a_move_task_back_to_a_queue_that_is_deleted_fails(sqs: Any) -> None:
    source, dead = pair(sqs, 1)
    other = sqs.create_queue(QueueName=unique("other"))["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 5})
    sqs.set_queue_attributes(QueueUrl=other, Attributes={"RedrivePolicy": policy})
    bury(sqs, source, dead, "lost")
    sqs.delete_queue(QueueUrl=source)
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    task = finished(sqs, arn(sqs, dead))
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")


def test_a_move_task_of_messages_that_died_nowhere_fails(sqs: Any) -> None:
    _, dead = pair(sqs, 1)
    sqs.send_message(QueueUrl=dead, MessageBody="sent by hand")
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    task = finished(sqs, arn(sqs, dead))
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")


# --- old handles -------------------------------------------------------------------------------------------


def test_an_old_handle_deletes_a_message_that_nobody_has(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (old,) = handles(receive(sqs, queue, VisibilityTimeout=0))
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=old)
    assert counts(sqs, queue) == (0, 0)
    assert bodies(receive(sqs, queue, wait_s=0)) == []


def test_an_old_handle_deletes_a_message_that_another_has(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (old,) = handles(receive(sqs, queue, VisibilityTimeout=0))
    (new,) = handles(receive(sqs, queue))
    answer = sqs.delete_message_batch(QueueUrl=queue, Entries=[{"Id": "1", "ReceiptHandle": old}])
    assert answer["Successful"] == [{"Id": "1"}]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=new)
    assert counts(sqs, queue) == (0, 0)


def test_an_old_handle_of_a_queue_of_that_name_deletes_nothing(sqs: Any) -> None:
    name = unique("again")
    old = []
    for body in ("first", "second"):
        queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody=body)
        old += handles(receive(sqs, queue, VisibilityTimeout=0))
        if body == "first":
            sqs.delete_queue(QueueUrl=queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=old[0])
    assert bodies(receive(sqs, queue)) == ["second"]


def test_an_old_handle_changes_when_a_message_that_another_has_is_seen(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (old,) = handles(receive(sqs, queue, VisibilityTimeout=0))
    receive(sqs, queue, VisibilityTimeout=600)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=old, VisibilityTimeout=0)
    assert bodies(receive(sqs, queue)) == ["b"]


def test_an_old_handle_does_not_hide_a_message_that_nobody_has(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (old,) = handles(receive(sqs, queue, VisibilityTimeout=0))
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=old, VisibilityTimeout=600)
    assert bodies(receive(sqs, queue)) == ["b"]


# --- attributes and traces ---------------------------------------------------------------------------------


@contextmanager
def header(sqs: Any, name: str, value: str) -> Iterator[None]:
    def add(request: Any, **_: Any) -> None:
        request.headers[name] = value

    sqs.meta.events.register("before-send.sqs.SendMessage", add)
    try:
        yield
    finally:
        sqs.meta.events.unregister("before-send.sqs.SendMessage", add)


def test_the_trace_header_of_a_request_is_the_messages(sqs: Any, queue: str) -> None:
    with header(sqs, "X-Amzn-Trace-Id", XRAY):
        sent = sqs.send_message(QueueUrl=queue, MessageBody="b")
        assert "MD5OfMessageSystemAttributes" not in sent, "nobody sent any"
        own = {"AWSTraceHeader": {"DataType": "String", "StringValue": XRAY.replace("Sampled=1", "Sampled=0")}}
        sqs.send_message(QueueUrl=queue, MessageBody="own", MessageSystemAttributes=own)
    with header(sqs, "X-Amzn-Trace-Id", "x" * 1_025):
        sqs.send_message(QueueUrl=queue, MessageBody="odd")
    got = {one["Body"]: one.get("Attributes", {}) for one in drain(sqs, queue, 3, AttributeNames=["AWSTraceHeader"])}
    assert got["b"] == {"AWSTraceHeader": XRAY}
    assert got["own"] == {"AWSTraceHeader": own["AWSTraceHeader"]["StringValue"]}
    assert got["odd"] == {}


@pytest.mark.parametrize("given", [{}, {"a": "1"}, {"traceparent": "not one", "a": "1"}, {"tracestate": "k=v"}])
def test_tracing_leaves_a_senders_attributes_alone(
    sqs: Any, sqs_node: NodeProcess, queue: str, given: dict[str, str]
) -> None:
    name = queue.rpartition("/")[2]
    httpx.patch(f"{sqs_node.url}/topics/{name}", json={"config": {"trace": "on"}}).raise_for_status()
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in given.items()}
    with header(sqs, "X-Amzn-Trace-Id", XRAY):
        sent = sqs.send_message(QueueUrl=queue, MessageBody="b", MessageAttributes=attributes)
    (got,) = receive(sqs, queue, MessageAttributeNames=["All"])["Messages"]
    assert got.get("MessageAttributes", {}) == attributes
    assert got.get("MD5OfMessageAttributes") == sent.get("MD5OfMessageAttributes")
    traces = httpx.get(f"{sqs_node.url}/traces/search", params={"topic": name}).json()["traces"]
    assert traces, "the message is traced all the same"


def test_names_of_attributes_may_have_letters_of_any_script(sqs: Any, queue: str) -> None:
    attributes = {"attr.1øßä": {"DataType": "String", "StringValue": "v"}}
    sqs.send_message(QueueUrl=queue, MessageBody="b", MessageAttributes=attributes)
    (got,) = receive(sqs, queue, MessageAttributeNames=["All"])["Messages"]
    assert got["MessageAttributes"] == attributes
    for odd in ("a b", "a!", "a§", "a?"):
        with pytest.raises(ClientError, match="InvalidParameterValue"):
            sqs.send_message(QueueUrl=queue, MessageBody="b", MessageAttributes={odd: attributes["attr.1øßä"]})


# --- answers -----------------------------------------------------------------------------------------------


def test_a_batch_answers_without_empty_lists(sqs: Any, json_sqs: Any, queue: str, sqs_node: NodeProcess) -> None:
    entries = [{"Id": "1", "MessageBody": "b"}]
    assert "Failed" not in sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    told = httpx.post(
        sqs_node.sqs,
        headers={"X-Amz-Target": "AmazonSQS.SendMessageBatch"},
        json={"QueueUrl": queue, "Entries": entries},
    ).json()
    assert list(told) == ["Successful"]
    failing = [{"Id": "1", "ReceiptHandle": "none"}]
    answer = sqs.delete_message_batch(QueueUrl=queue, Entries=failing)
    assert [one["Code"] for one in answer["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert not answer.get("Successful")


def test_a_message_that_is_too_large_says_so_in_words_of_its_request(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(MaximumMessageSize="1024")
    with pytest.raises(ClientError, match=r"parameters are invalid\. Reason: Message must be shorter than 1024"):
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 1_025)
    entries = [{"Id": "1", "MessageBody": "x" * 1_025}, {"Id": "2", "MessageBody": "b"}]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert answer["Failed"][0]["Message"].startswith("One or more parameters cannot be validated.")
    assert answer["Successful"][0]["MD5OfMessageBody"] == hashlib.md5(b"b").hexdigest()


def test_one_kind_of_encryption_at_a_time(sqs: Any, queue: str) -> None:
    both = {"KmsMasterKeyId": "key", "SqsManagedSseEnabled": "true"}
    with pytest.raises(ClientError, match="one type of server-side encryption"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=both)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsDataKeyReusePeriodSeconds": "600"})
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert "KmsDataKeyReusePeriodSeconds" not in shown
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsMasterKeyId": "key"})
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert shown["KmsDataKeyReusePeriodSeconds"] == "600"
