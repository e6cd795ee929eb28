"""Queues themselves: create, find, list, attributes, tags, permissions, purge, delete."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, handles, unique


def attributes(sqs: Any, queue: str, *names: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=list(names) or ["All"])[
        "Attributes"
    ]
    return found


def refusal(call: Callable[[], object]) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as refused:
        call()
    answer = refused.value.response
    return answer["Error"]["Code"], answer["Error"]["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_a_queue_has_the_defaults_of_aws(sqs: Any, queue: str) -> None:
    shown = attributes(sqs, queue)
    name = queue.rpartition("/")[2]
    now = time.time()
    assert abs(int(shown.pop("CreatedTimestamp")) - now) < 5
    assert abs(int(shown.pop("LastModifiedTimestamp")) - now) < 5
    assert shown == {
        "QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{name}",
        "VisibilityTimeout": "30",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "false",
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
    }
    assert attributes(sqs, queue, "QueueArn", "DelaySeconds") == {"QueueArn": shown["QueueArn"], "DelaySeconds": "0"}
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue)


def test_a_fifo_queue_shows_that_it_is_one(sqs: Any, fifo: str) -> None:
    shown = attributes(sqs, fifo)
    expected = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }
    assert {name: shown[name] for name in expected} == expected
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"ContentBasedDeduplication": "true", "FifoQueue": "true"})
    assert attributes(sqs, fifo)["ContentBasedDeduplication"] == "true"


def test_attributes_can_be_set_and_survive_kill_9(node: NodeProcess) -> None:
    wanted = {
        "VisibilityTimeout": "69",
        "MaximumMessageSize": "2048",
        "MessageRetentionPeriod": "604800",
        "DelaySeconds": "42",
        "ReceiveMessageWaitTimeSeconds": "10",
        "KmsMasterKeyId": "alias/mine",
        "KmsDataKeyReusePeriodSeconds": "600",
        "Policy": '{"Version":"2012-10-17","Statement":[]}',
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
    }
    with client(node.sqs) as sqs:
        queue = sqs.create_queue(QueueName="q", tags={"team": "a", "old": "x"})["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=wanted)
        sqs.tag_queue(QueueUrl=queue, Tags={"cost": "low", "team": "b"})
        sqs.untag_queue(QueueUrl=queue, TagKeys=["old", "none"])
    node.kill()
    node.start()
    with client(node.sqs) as sqs:
        shown = attributes(sqs, "q")
        assert {name: shown[name] for name in wanted} == wanted
        assert sqs.list_queue_tags(QueueUrl="q")["Tags"] == {"cost": "low", "team": "b"}
        cleared = {"Policy": "", "KmsMasterKeyId": "", "RedriveAllowPolicy": ""}
        sqs.set_queue_attributes(QueueUrl="q", Attributes=cleared)
        assert not set(cleared) & set(attributes(sqs, "q"))


def test_a_queue_can_be_created_again_if_it_is_the_same(sqs: Any) -> None:
    name = unique()
    url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})["QueueUrl"]
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    assert sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})["QueueUrl"] == url
    code, told, _ = refusal(lambda: sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "6"}))
    assert (code, told) == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute DelaySeconds",
    )


def test_the_url_is_the_one_that_the_client_used(sqs: Any, sqs_node: NodeProcess) -> None:
    name = unique()
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == f"{sqs_node.sqs}/000000000000/{name}"
    by_name = sqs_node.sqs.replace("127.0.0.1", "localhost")
    with client(by_name) as other:
        assert other.get_queue_url(QueueName=name)["QueueUrl"] == f"{by_name}/000000000000/{name}"


def test_queues_are_listed_by_prefix_and_page(sqs: Any) -> None:
    stem = unique("list")
    names = [f"{stem}-{number}" for number in range(5)]
    for name in names:
        sqs.create_queue(QueueName=name)
    assert [url.rpartition("/")[2] for url in sqs.list_queues(QueueNamePrefix=stem)["QueueUrls"]] == names
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=stem, PaginationConfig={"PageSize": 2})
    assert [[url.rpartition("/")[2] for url in page["QueueUrls"]] for page in pages] == [
        names[:2],
        names[2:4],
        names[4:],
    ]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{stem}-none")
    assert refusal(lambda: sqs.list_queues(MaxResults=1001))[0] == "InvalidParameterValue"
    assert refusal(lambda: sqs.list_queues(MaxResults=1, NextToken="é"))[0] == "InvalidParameterValue"


def test_a_deleted_queue_is_gone_and_its_name_is_free(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    sqs.delete_queue(QueueUrl=queue)
    for call in (
        lambda: sqs.send_message(QueueUrl=queue, MessageBody="b"),
        lambda: sqs.receive_message(QueueUrl=queue),
        lambda: sqs.delete_queue(QueueUrl=queue),
        lambda: sqs.get_queue_url(QueueName=queue.rpartition("/")[2]),
        lambda: sqs.get_queue_attributes(QueueUrl=queue),
        lambda: sqs.purge_queue(QueueUrl=queue),
    ):
        code, _, status = refusal(call)
        assert (code, status) == ("AWS.SimpleQueueService.NonExistentQueue", 400)
    sqs.create_queue(QueueName=queue.rpartition("/")[2])
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == ["new"]


def test_counts_follow_the_messages(sqs: Any, queue: str) -> None:
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]

    def counts() -> list[str]:
        shown = attributes(sqs, queue, *names)
        return [shown[name] for name in names]

    for _ in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody="b")
    sqs.send_message(QueueUrl=queue, MessageBody="b", DelaySeconds=900)
    assert counts() == ["3", "0", "1"]
    (handle,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5))
    assert counts() == ["2", "1", "1"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    assert counts() == ["2", "0", "1"]
    sqs.purge_queue(QueueUrl=queue)
    assert counts() == ["0", "0", "0"]


def test_one_purge_a_minute(sqs: Any, queue: str) -> None:
    sqs.purge_queue(QueueUrl=queue)
    code, told, status = refusal(lambda: sqs.purge_queue(QueueUrl=queue))
    assert (code, status) == ("AWS.SimpleQueueService.PurgeQueueInProgress", 403)
    assert told == f"Only one PurgeQueue operation on {queue.rpartition('/')[2]} is allowed every 60 seconds."


def test_a_purge_takes_what_is_in_flight(sqs: Any, queue: str) -> None:
    for _ in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody="old")
    (handle,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, VisibilityTimeout=1))
    sqs.purge_queue(QueueUrl=queue)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)


def test_permissions_are_kept_as_a_policy(sqs: Any, queue: str) -> None:
    name = queue.rpartition("/")[2]
    sqs.add_permission(QueueUrl=queue, Label="share", AWSAccountIds=["111122223333"], Actions=["ReceiveMessage"])
    assert json.loads(attributes(sqs, queue, "Policy")["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"arn:aws:sqs:us-east-1:000000000000:{name}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "share",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
                "Action": "SQS:ReceiveMessage",
                "Resource": f"arn:aws:sqs:us-east-1:000000000000:{name}",
            }
        ],
    }
    again = {"QueueUrl": queue, "Label": "share", "AWSAccountIds": ["1"], "Actions": ["SendMessage"]}
    code, told, _ = refusal(lambda: sqs.add_permission(**again))
    assert (code, told) == (
        "InvalidParameterValue",
        "Value share for parameter Label is invalid. Reason: Already exists.",
    )
    many = ["SendMessage"] * 8
    assert refusal(lambda: sqs.add_permission(**{**again, "Label": "many", "Actions": many}))[0] == "OverLimit"
    sqs.remove_permission(QueueUrl=queue, Label="share")
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
    code, told, _ = refusal(lambda: sqs.remove_permission(QueueUrl=queue, Label="share"))
    assert told == "Value share for parameter Label is invalid. Reason: can't find label."


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("", {}),
        ("with.dot", {}),
        ("with space", {}),
        ("x" * 81, {}),
        ("plain.fifo", {}),
        ("no-suffix", {"FifoQueue": "true"}),
        ("x" * 76 + ".fifo", {"FifoQueue": "true"}),
    ],
)
def test_names_that_no_queue_has(sqs: Any, name: str, given: dict[str, str]) -> None:
    assert refusal(lambda: sqs.create_queue(QueueName=name, Attributes=given))[0] == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ({"Nonsense": "1"}, "InvalidAttributeName", "Unknown Attribute Nonsense."),
        ({"QueueArn": "x"}, "InvalidAttributeName", "Unknown Attribute QueueArn."),
        ({"FifoQueue": "false"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName", "Unknown Attribute ContentBasedDeduplication."),
        (
            {"DeduplicationScope": "queue"},
            "InvalidAttributeName",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue", "Invalid value for the parameter VisibilityTimeout."),
        ({"VisibilityTimeout": "-1"}, "InvalidAttributeValue", "Invalid value for the parameter VisibilityTimeout."),
        ({"VisibilityTimeout": "x"}, "InvalidAttributeValue", "Invalid value for the parameter VisibilityTimeout."),
        ({"DelaySeconds": "901"}, "InvalidAttributeValue", "Invalid value for the parameter DelaySeconds."),
        (
            {"MaximumMessageSize": "1023"},
            "InvalidAttributeValue",
            "Invalid value for the parameter MaximumMessageSize.",
        ),
        ({"MaximumMessageSize": "1048577"}, "InvalidAttributeValue", "Invalid value for"),
        ({"MessageRetentionPeriod": "59"}, "InvalidAttributeValue", "Invalid value for"),
        ({"MessageRetentionPeriod": "1209601"}, "InvalidAttributeValue", "Invalid value for"),
        ({"ReceiveMessageWaitTimeSeconds": "21"}, "InvalidAttributeValue", "Invalid value for"),
        ({"KmsDataKeyReusePeriodSeconds": "59"}, "InvalidAttributeValue", "Invalid value for"),
        ({"SqsManagedSseEnabled": "maybe"}, "InvalidAttributeValue", "Invalid value for"),
        ({"Policy": "{"}, "InvalidAttributeValue", "Invalid value for the parameter Policy."),
        ({"RedriveAllowPolicy": '{"redrivePermission":"some"}'}, "InvalidAttributeValue", "redrivePermission is"),
        ({"RedriveAllowPolicy": '{"redrivePermission":"byQueue"}'}, "InvalidAttributeValue", "sourceQueueArns goes"),
        ({"RedrivePolicy": "nope"}, "InvalidParameterValue", "Redrive policy is not a valid JSON map."),
        ({"RedrivePolicy": "{}"}, "InvalidParameterValue", "mandatory attribute: deadLetterTargetArn"),
        (
            {"RedrivePolicy": '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:none","maxReceiveCount":3}'},
            "InvalidParameterValue",
            "Dead letter target does not exist.",
        ),
    ],
)
def test_attributes_that_no_queue_takes(sqs: Any, queue: str, given: dict[str, str], code: str, told: str) -> None:
    for call in (
        lambda: sqs.create_queue(QueueName=unique(), Attributes=given),
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes=given),
    ):
        got, message, status = refusal(call)
        assert (got, status) == (code, 400)
        assert told in message


def test_a_fifo_queue_stays_one(sqs: Any, fifo: str) -> None:
    code, told, _ = refusal(lambda: sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoQueue": "false"}))
    assert (code, told) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )


def test_unknown_names_of_attributes(sqs: Any, queue: str) -> None:
    assert refusal(lambda: attributes(sqs, queue, "Foo"))[0] == "InvalidAttributeName"
    assert refusal(lambda: sqs.receive_message(QueueUrl=queue, AttributeNames=["Foo"]))[0] == "InvalidAttributeName"


def test_tags_have_limits(sqs: Any, queue: str) -> None:
    assert refusal(lambda: sqs.tag_queue(QueueUrl=queue, Tags={"k": "v" * 257}))[0] == "InvalidParameterValue"
    many = {f"k{number}": "v" for number in range(51)}
    assert refusal(lambda: sqs.tag_queue(QueueUrl=queue, Tags=many))[0] == "InvalidParameterValue"
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)
