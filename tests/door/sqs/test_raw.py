"""The door at the level of HTTP: bad requests get an answer in AWS's form, never a crash."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.sqs.clients import client, unique

SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
OPERATIONS = [
    "AddPermission",
    "CancelMessageMoveTask",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "ListQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "RemovePermission",
    "SendMessage",
    "SendMessageBatch",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
]


def ask_json(url: str, operation: str, body: bytes | str) -> httpx.Response:
    headers = {"X-Amz-Target": f"AmazonSQS.{operation}", "Content-Type": "application/x-amz-json-1.0"}
    return httpx.post(url, content=body, headers=headers)


def json_error(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"
    assert answer.headers["x-amzn-requestid"]
    told = answer.json()
    assert told["message"]
    return answer.status_code, told["__type"], answer.headers["x-amzn-query-error"]


def xml_error(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"].startswith("text/xml")
    root = ElementTree.fromstring(answer.content)
    assert root.tag == f"{SPACE}ErrorResponse"
    assert root.findtext(f"{SPACE}Error/{SPACE}Message")
    assert root.findtext(f"{SPACE}RequestId") == answer.headers["x-amzn-requestid"]
    return answer.status_code, root.findtext(f"{SPACE}Error/{SPACE}Code") or ""


def test_every_operation_of_botocore_is_there(sqs_node: NodeProcess) -> None:
    with client(sqs_node.sqs) as sqs:
        assert sorted(sqs.meta.service_model.operation_names) == OPERATIONS
    for operation in OPERATIONS:
        _, kind, _ = json_error(ask_json(sqs_node.sqs, operation, b"[]"))
        assert kind == "com.amazon.coral.service#SerializationException", operation


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"5", b'"x"', b'{"QueueUrl": 5}', b'{"QueueUrl": "\\ud800"}'])
def test_json_that_is_none(sqs_node: NodeProcess, body: bytes) -> None:
    assert json_error(ask_json(sqs_node.sqs, "SendMessage", body)) == (
        400,
        "com.amazon.coral.service#SerializationException",
        "MalformedInput;Sender",
    )


def test_deep_json(sqs_node: NodeProcess) -> None:
    status, _, _ = json_error(ask_json(sqs_node.sqs, "SendMessage", b'{"MessageAttributes":' + b"[" * 100_000))
    assert status == 400


def test_missing_parameters(sqs_node: NodeProcess) -> None:
    for body in (b"", b"{}"):
        status, kind, code = json_error(ask_json(sqs_node.sqs, "SendMessage", body))
        assert (status, code) == (400, "MissingParameter;Sender")
        assert kind == "com.amazon.coral.service#MissingRequiredParameterException"
    assert xml_error(httpx.post(sqs_node.sqs, data={"Action": "SendMessage"})) == (400, "MissingParameter")


def test_unknown_operations(sqs_node: NodeProcess) -> None:
    _, kind, code = json_error(ask_json(sqs_node.sqs, "Nonsense", b"{}"))
    assert (kind, code) == ("com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender")
    answer = httpx.post(sqs_node.sqs, content=b"{}", headers={"X-Amz-Target": "DynamoDB_20120810.GetItem"})
    assert json_error(answer)[2] == "InvalidAction;Sender"
    for call in (
        httpx.get(sqs_node.sqs),
        httpx.get(f"{sqs_node.sqs}/favicon.ico"),
        httpx.post(sqs_node.sqs),
        httpx.post(sqs_node.sqs, data={"Action": "Nonsense"}),
        httpx.put(sqs_node.sqs, content=b"x"),
    ):
        assert xml_error(call) == (400, "InvalidAction")


@pytest.mark.parametrize(
    "form",
    [
        b"Action=SendMessage&Action.1=x",
        b"Action=SendMessage&A.1.2.3.4.5.6.7.8.9=x",
        b"Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry.1=x",
        b"Action=ReceiveMessage&QueueUrl=q&MaxNumberOfMessages=many",
        b"Action=SendMessage&QueueUrl=q&MessageBody=b&MessageAttribute.1.Name=x&MessageAttribute.1.Value.BinaryValue=!",
        b"Action=ListQueues&x=%ff",
        b"\xff\xfe",
        b"Action=ListQueues&" + b"&".join(b"a%d=1" % number for number in range(6000)),
    ],
)
def test_forms_that_are_none(sqs_node: NodeProcess, form: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, code = xml_error(httpx.post(sqs_node.sqs, content=form, headers=headers))
    assert (status, code) in {(400, "MalformedInput"), (400, "InvalidAction")}


def test_a_map_without_its_parts(sqs_node: NodeProcess) -> None:
    form = {"Action": "CreateQueue", "QueueName": "x", "Attribute.1.Name": "DelaySeconds"}
    assert xml_error(httpx.post(sqs_node.sqs, data=form)) == (400, "MissingParameter")


def test_a_form_may_name_the_queue_by_its_path_and_leave_out_numbers(sqs_node: NodeProcess) -> None:
    name = unique("form")
    made = httpx.get(sqs_node.sqs, params={"Action": "CreateQueue", "QueueName": name, "Version": "2012-11-05"})
    url = ElementTree.fromstring(made.content).findtext(f".//{SPACE}QueueUrl") or ""
    assert url == f"{sqs_node.sqs}/000000000000/{name}"
    form = {"Action": "SetQueueAttributes", "Attribute.Name": "VisibilityTimeout", "Attribute.Value": "7"}
    assert httpx.post(url, data=form).status_code == 200
    shown = httpx.post(url, data={"Action": "GetQueueAttributes", "AttributeName": "VisibilityTimeout"})
    root = ElementTree.fromstring(shown.content)
    assert [element.text for element in root.iter(f"{SPACE}Value")] == ["7"]


def test_a_body_beyond_the_limit(sqs_node: NodeProcess) -> None:
    status, _, code = json_error(ask_json(sqs_node.sqs, "SendMessage", b" " * (8 * 1024 * 1024 + 1)))
    assert (status, code) == (413, "RequestEntityTooLarge;Sender")


def test_pages_of_other_sites_are_refused(sqs_node: NodeProcess) -> None:
    form = {"Action": "ListQueues"}
    for headers in ({"Origin": "http://elsewhere"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert xml_error(httpx.post(sqs_node.sqs, data=form, headers=headers)) == (403, "AccessDenied")
        assert xml_error(httpx.get(sqs_node.sqs, params=form, headers=headers)) == (403, "AccessDenied")
    for headers in ({"Origin": sqs_node.sqs}, {"Sec-Fetch-Site": "none"}):
        assert httpx.post(sqs_node.sqs, data=form, headers=headers).status_code == 200


def test_a_host_that_is_none_is_not_echoed(sqs_node: NodeProcess) -> None:
    name = unique("host")
    for host in ("a b", "<x>", "x/y"):
        answer = httpx.post(sqs_node.sqs, data={"Action": "CreateQueue", "QueueName": name}, headers={"Host": host})
        assert answer.status_code == 400 or f"<QueueUrl>{sqs_node.sqs}/" in answer.text


def test_junk_never_breaks_the_door(sqs_node: NodeProcess) -> None:
    """Requests made of parts of real ones, some of the parts wrong."""
    chance = random.Random(9324)
    name = unique("junk")
    httpx.post(sqs_node.sqs, data={"Action": "CreateQueue", "QueueName": name})
    values: list[Any] = [
        None, "", "x", name, f"{sqs_node.sqs}/000000000000/{name}", "é\x00", -1, 0, 11, 2**70, 1.5, True, [], ["All"],
        {}, {"a": "b"}, {"a": {"DataType": "Number", "StringValue": "1"}}, [{"Id": "a", "MessageBody": "b"}],
        "a" * 5000, [{"Id": "a", "ReceiptHandle": f"{name}:0:0:1:x", "VisibilityTimeout": 1}], f"{name}:99:0:1:x",
        "arn:aws:sqs:x:0:y",
    ]  # fmt: skip
    fields = [
        "QueueUrl", "QueueName", "MessageBody", "Entries", "Attributes", "AttributeNames", "MessageAttributes", "Tags",
        "TagKeys", "ReceiptHandle", "VisibilityTimeout", "MaxNumberOfMessages", "Label", "AWSAccountIds", "Actions",
        "SourceArn", "TaskHandle", "DelaySeconds", "MaxResults", "NextToken", "MessageGroupId", "tags",
        "DestinationArn",
    ]  # fmt: skip
    with httpx.Client() as http:
        for _ in range(1500):
            operation = chance.choice(OPERATIONS)
            asked = {field: chance.choice(values) for field in chance.sample(fields, chance.randrange(1, 12))}
            if chance.random() < 0.7:
                asked["QueueUrl"] = name
            if operation == "DeleteQueue":
                continue
            if chance.random() < 0.5:
                headers = {"X-Amz-Target": f"AmazonSQS.{operation}"}
                answer = http.post(sqs_node.sqs, content=json.dumps(asked), headers=headers)
            else:
                flat = {key: value for key, value in asked.items() if isinstance(value, str | int)}
                answer = http.post(sqs_node.sqs, data={"Action": operation, **flat})
            assert answer.status_code < 500, (operation, asked, answer.text)
            if answer.status_code != 200:
                assert "Internal" not in answer.text
        for _ in range(300):
            junk = chance.randbytes(chance.randrange(0, 200))
            target = chance.choice([None, "AmazonSQS.SendMessage", "AmazonSQS.", "x"])
            answer = http.post(sqs_node.sqs, content=junk, headers={"X-Amz-Target": target} if target else {})
            assert 400 <= answer.status_code < 500
    assert "request failed" not in sqs_node.stderr


def test_requests_are_counted(sqs_node: NodeProcess) -> None:
    ask_json(sqs_node.sqs, "GetQueueUrl", b'{"QueueName": "none"}')
    text = httpx.get(f"{sqs_node.url}/metrics").text
    assert 'goqueue_sqs_requests_total{error="QueueDoesNotExist",operation="GetQueueUrl"}' in text


def test_a_signed_request_is_a_programs_whatever_it_calls_itself(sqs_node: NodeProcess) -> None:
    """As kombu does it."""
    asked = {"Action": "ListQueues"}
    headers = {"User-Agent": "Mozilla/5.0 (compatible; pycurl)"}
    assert httpx.get(sqs_node.sqs, params=asked, headers=headers).status_code == 403
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/sqs/aws4_request, Signature=0"
    assert httpx.get(sqs_node.sqs, params=asked, headers=headers).status_code == 200
    assert httpx.get(sqs_node.sqs, params=asked, headers=headers | {"Sec-Fetch-Site": "cross-site"}).status_code == 403
