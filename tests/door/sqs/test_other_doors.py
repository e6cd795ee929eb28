"""Queues are topics: what comes through one door is seen through the others."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, handles, unique
from tests.kafka_messages import headers_of
from tests.waiting import wait_until


def flushed(producer: Producer) -> None:
    assert producer.flush(20) == 0


def test_a_topic_of_kafka_is_a_queue(sqs: Any, sqs_node: NodeProcess) -> None:
    topic = unique("kafka")
    producer = Producer({"bootstrap.servers": sqs_node.kafka})
    headers: list[tuple[str, str | bytes | None]] = [
        ("text", b"plain"),
        ("bytes", b"\xff\x00"),
        ("twice", b"1"),
        ("twice", b"2"),
        ("none", None),
    ]
    producer.produce(topic, b"hello", key=b"user-1", headers=headers)
    flushed(producer)
    url = sqs.get_queue_url(QueueName=topic)["QueueUrl"]
    answer = sqs.receive_message(
        QueueUrl=url, WaitTimeSeconds=10, VisibilityTimeout=0, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    (got,) = answer["Messages"]
    assert got["Body"] == "hello"
    assert got["MessageAttributes"] == {
        "text": {"DataType": "String", "StringValue": "plain"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\xff\x00"},
        "twice": {"DataType": "String", "StringValue": "2"},
    }
    assert got["Attributes"]["MessageGroupId"] == "user-1"
    assert got["Attributes"]["SenderId"] == "anonymous"
    (again,) = drain(sqs, url, 1)
    assert again["MessageId"] == got["MessageId"]


def test_a_body_that_sqs_cannot_carry_comes_as_base64(sqs: Any, sqs_node: NodeProcess) -> None:
    topic = unique("kafka")
    values = [b"\xff\xfe binary", b"control \x01 character", b""]
    producer = Producer({"bootstrap.servers": sqs_node.kafka})
    for value in values:
        producer.produce(topic, value)
    producer.produce(topic, None)
    flushed(producer)
    got = drain(sqs, topic, 4, MessageAttributeNames=["All"])
    encoded = {"goqueue-encoding": {"DataType": "String", "StringValue": "base64"}}
    shown = sorted((one["Body"], one.get("MessageAttributes", {}) == encoded) for one in got)
    assert shown == sorted([("", False), ("", False), *((base64.b64encode(one).decode(), True) for one in values[:2])])
    assert all(one["MD5OfBody"] == hashlib.md5(one["Body"].encode()).hexdigest() for one in got)


def test_kafka_reads_what_sqs_sent(sqs: Any, sqs_node: NodeProcess) -> None:
    name = unique()
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    attributes = {
        "text": {"DataType": "String", "StringValue": "plain"},
        "count": {"DataType": "Number", "StringValue": "5"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\xff\x00"},
    }
    sqs.send_message(QueueUrl=queue, MessageBody="hello", MessageGroupId="user-1", MessageAttributes=attributes)
    consumer = Consumer({"bootstrap.servers": sqs_node.kafka, "group.id": unique("g"), "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        assert (message.value(), message.key()) == (b"hello", b"user-1")
        headers = dict(headers_of(message))
        assert (headers["text"], headers["count"], headers["bytes"]) == (b"plain", b"5", b"\xff\x00")
    finally:
        consumer.close()
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == ["hello"]  # another group, another place


def test_rest_and_sqs_share_a_queue(sqs: Any, sqs_node: NodeProcess) -> None:
    name = unique("rest")
    httpx.post(f"{sqs_node.url}/topics", json={"name": name, "config": {"queue.lease.ms": 0}}).raise_for_status()
    message = {"key": "k", "value": "from rest", "headers": {"source": "shop"}, "priority": "high"}
    httpx.post(f"{sqs_node.url}/topics/{name}/messages", json={"messages": [message]}).raise_for_status()
    (got,) = sqs.receive_message(QueueUrl=name, WaitTimeSeconds=5, MessageAttributeNames=["All"])["Messages"]
    assert got["Body"] == "from rest"
    assert got["MessageAttributes"] == {"source": {"DataType": "String", "StringValue": "shop"}}
    sqs.set_queue_attributes(QueueUrl=name, Attributes={"VisibilityTimeout": "77"})
    config = httpx.get(f"{sqs_node.url}/topics/{name}").json()["config"]
    assert config["queue.lease.ms"] == "77000"
    sqs.send_message(QueueUrl=name, MessageBody="from sqs")
    read = httpx.get(f"{sqs_node.url}/topics/{name}/messages").json()["messages"]
    assert sorted(one["value"] for one in read) == ["from rest", "from sqs"]


def test_a_topic_for_small_messages_says_so(sqs: Any, sqs_node: NodeProcess) -> None:
    name = unique("small")
    made = {"name": name, "config": {"max.message.bytes": 4096}}
    httpx.post(f"{sqs_node.url}/topics", json=made).raise_for_status()
    shown = sqs.get_queue_attributes(QueueUrl=name, AttributeNames=["MaximumMessageSize"])["Attributes"]
    assert shown == {"MaximumMessageSize": "4096"}
    sqs.send_message(QueueUrl=name, MessageBody="x" * 3000)
    for size in (4096, 5000):
        with pytest.raises(Exception, match="InvalidParameterValue"):
            sqs.send_message(QueueUrl=name, MessageBody="x" * size)


def test_priorities_order_a_queue(json_sqs: Any) -> None:
    queue = json_sqs.create_queue(QueueName=unique())["QueueUrl"]
    for priority in ("background", "low", "critical"):
        attributes = {"goqueue-priority": {"DataType": "String", "StringValue": priority}}
        json_sqs.send_message(QueueUrl=queue, MessageBody=priority, MessageAttributes=attributes)
    assert drain(json_sqs, queue, 3)[0]["Body"] == "critical"


@pytest.mark.parametrize("name", ["with.dot", "x" * 100])
def test_topics_with_other_names_are_not_listed_but_there(sqs: Any, sqs_node: NodeProcess, name: str) -> None:
    httpx.post(f"{sqs_node.url}/topics", json={"name": name})
    urls = sqs.list_queues().get("QueueUrls", [])
    assert not any(url.endswith(f"/{name}") for url in urls)
    sqs.send_message(QueueUrl=f"{sqs_node.sqs}/000000000000/{name}", MessageBody="b")
    (handle,) = handles(sqs.receive_message(QueueUrl=name, WaitTimeSeconds=5))
    sqs.delete_message(QueueUrl=name, ReceiptHandle=handle)


def test_the_brokers_own_books_are_no_queues(sqs: Any) -> None:
    urls = sqs.list_queues().get("QueueUrls", [])
    assert not any("/__" in url for url in urls)
    for call in (sqs.receive_message, sqs.delete_queue, sqs.purge_queue):
        with pytest.raises(Exception, match="NonExistentQueue"):
            call(QueueUrl="__consumer_offsets")


def test_groups_have_their_own_place(tmp_path: Any) -> None:
    with NodeProcess(tmp_path / "data", settings={"GOQUEUE_SQS_GROUP": "workers"}) as node, client(node.sqs) as sqs:
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="b")
        drain(sqs, queue, 1)
        wait_until(lambda: "workers" in [one["group"] for one in httpx.get(f"{node.url}/groups").json()["groups"]])


def test_the_door_can_stay_shut(tmp_path: Any) -> None:
    with NodeProcess(tmp_path / "data", "--sqs", "off") as node:
        assert node.sqs == ""
        assert "SQS        off" in node.block
