"""Standard queues: send, receive, delete, visibility, attributes of messages."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.sqs.clients import bodies, client, drain, handles, unique
from tests.waiting import stretched, wait_until


def text(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


def test_a_message_is_sent_received_and_deleted(sqs: Any, queue: str) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="two teapots")
    got = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    assert [one["MessageId"] for one in got] == [sent["MessageId"]]
    assert got[0]["Body"] == "two teapots"
    assert got[0]["MD5OfBody"] == sent["MD5OfMessageBody"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=got[0]["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=got[0]["ReceiptHandle"])  # again is no error
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)


def test_every_character_that_sqs_allows_comes_back(sqs: Any, queue: str) -> None:
    body = "tab\t line\n return\r <&>\"' é 漢 \U0001f600 \ud7ff\ue000\ufffd end  "
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == [body]


def test_attributes_come_back_with_their_types_and_the_digests_of_aws(sqs: Any, queue: str) -> None:
    attributes = {
        "City": text("Any City"),
        "Population": text("1250800", "Number"),
        "Ratio": text("-1.5e3", "Number.float"),
        "Photo": {"DataType": "Binary.png", "BinaryValue": b"\x00\xffpng"},
        "goqueue-priority": text("high"),
    }
    sent = sqs.send_message(QueueUrl=queue, MessageBody="b", MessageAttributes=attributes)
    (got,) = drain(sqs, queue, 1, MessageAttributeNames=["All"])
    assert got["MessageAttributes"] == attributes
    assert got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_a_receive_shows_the_attributes_asked_for(sqs: Any, new_queue: Callable[..., str]) -> None:
    """Digests as AWS itself gave them for this message."""
    queue = new_queue(VisibilityTimeout="0")
    attributes = {"Help.Me": text("Me"), "Hello": text("There"), "General": text("Kenobi")}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="msg", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == "4c360f3fdafd970e05fae2f149d997f5"
    expected = {
        ("All",): ({"Help.Me", "Hello", "General"}, "4c360f3fdafd970e05fae2f149d997f5"),
        (".*",): ({"Help.Me", "Hello", "General"}, "4c360f3fdafd970e05fae2f149d997f5"),
        ("Hello", "General"): ({"Hello", "General"}, "fca026605781cb4126a1e9044df24232"),
        ("Foo", "Hello"): ({"Hello"}, "a311262e065454b75da111d535b8dacd"),
        ("Hel.*",): ({"Hello", "Help.Me"}, "83fee93c1bcd8b9a5a923ffacdc636c7"),
        ("Foo",): (set(), None),
        (): (set(), None),
    }
    for names, (found, digest) in expected.items():
        answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, MessageAttributeNames=list(names))
        (message,) = answer["Messages"]
        assert set(message.get("MessageAttributes", {})) == found
        assert message.get("MD5OfMessageAttributes") == digest


def test_system_attributes(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(VisibilityTimeout="0")
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    before = time.time()
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody="b",
        MessageGroupId="tenant",
        MessageSystemAttributes={"AWSTraceHeader": text(trace)},
    )
    assert sent["MD5OfMessageSystemAttributes"]
    for count in (1, 2, 3):
        (got,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, AttributeNames=["All"])["Messages"]
        shown = got["Attributes"]
        assert shown["ApproximateReceiveCount"] == str(count)
        assert shown["SenderId"] == "test"
        assert shown["AWSTraceHeader"] == trace
        assert shown["MessageGroupId"] == "tenant"
        assert before - 1 <= int(shown["SentTimestamp"]) / 1000 <= time.time() + 1
        assert int(shown["ApproximateFirstReceiveTimestamp"]) >= int(shown["SentTimestamp"])
        assert set(shown) == {
            "ApproximateReceiveCount",
            "ApproximateFirstReceiveTimestamp",
            "SenderId",
            "SentTimestamp",
            "AWSTraceHeader",
            "MessageGroupId",
        }
    (got,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, AttributeNames=["SenderId"])["Messages"]
    assert got["Attributes"] == {"SenderId": "test"}
    assert "Attributes" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"][0]


def test_a_received_message_is_hidden_until_its_time_is_over(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (first,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, VisibilityTimeout=4))
    began = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    (second,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20))
    assert 2 < time.monotonic() - began < stretched(6)
    assert first != second


def test_visibility_can_be_extended_and_given_up(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (handle,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, VisibilityTimeout=1))
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=30)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    assert bodies(sqs.receive_message(QueueUrl=queue)) == ["b"]


def test_batches_answer_for_every_entry(sqs: Any, queue: str) -> None:
    entries = [{"Id": f"e{number}", "MessageBody": f"m{number}"} for number in range(9)]
    bad = {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901}
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=[*entries, bad])
    assert [one["Id"] for one in sent["Successful"]] == [one["Id"] for one in entries]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in sent["Failed"]] == [
        ("bad", "InvalidParameterValue", True)
    ]
    got: dict[str, str] = {}
    while len(got) < 9:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        got |= {message["Body"]: message["ReceiptHandle"] for message in answer["Messages"]}
    assert set(got) == {entry["MessageBody"] for entry in entries}
    held = list(got.values())
    changes = [{"Id": str(at), "ReceiptHandle": one, "VisibilityTimeout": at % 2} for at, one in enumerate(held)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=queue, Entries=[*changes, {"Id": "x", "ReceiptHandle": "none", "VisibilityTimeout": 5}]
    )
    assert len(changed["Successful"]) == 9
    assert [(one["Id"], one["Code"]) for one in changed["Failed"]] == [("x", "ReceiptHandleIsInvalid")]
    drain(sqs, queue, 9)


def test_a_batch_of_deletes(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    (handle,) = handles(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5))
    done = sqs.delete_message_batch(
        QueueUrl=queue, Entries=[{"Id": "1", "ReceiptHandle": handle}, {"Id": "2", "ReceiptHandle": "none"}]
    )
    assert [one["Id"] for one in done["Successful"]] == ["1"]
    assert [(one["Id"], one["Code"]) for one in done["Failed"]] == [("2", "ReceiptHandleIsInvalid")]


def test_a_long_poll_ends_with_the_first_message(sqs: Any, queue: str, sqs_node: NodeProcess) -> None:
    answers: list[dict[str, Any]] = []
    with client(sqs_node.sqs) as other:
        waiting = threading.Thread(
            target=lambda: answers.append(other.receive_message(QueueUrl=queue, WaitTimeSeconds=20))
        )
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        began = time.monotonic()
        sqs.send_message(QueueUrl=queue, MessageBody="wake up")
        waiting.join(60)
    assert bodies(answers[0]) == ["wake up"]
    assert time.monotonic() - began < 15  # of twenty


def test_a_poll_whose_client_is_gone_takes_nothing(sqs: Any, queue: str, sqs_node: NodeProcess) -> None:
    host, _, port = sqs_node.sqs.removeprefix("http://").rpartition(":")
    body = f"Action=ReceiveMessage&WaitTimeSeconds=20&QueueUrl={queue}".encode()
    for _ in range(5):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            line.settimeout(0.2)
            with pytest.raises(TimeoutError):
                line.recv(1)
    wait_until(lambda: httpx.get(f"{sqs_node.url}/metrics").text.find("goqueue_broker_long_polls 0.0") > 0)
    sqs.send_message(QueueUrl=queue, MessageBody="for the living")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == ["for the living"]


def test_a_stopping_node_ends_the_polls(node: NodeProcess) -> None:
    answers: list[dict[str, Any]] = []
    with client(node.sqs) as sqs:
        sqs.create_queue(QueueName="q")
        waiting = threading.Thread(target=lambda: answers.append(sqs.receive_message(QueueUrl="q", WaitTimeSeconds=20)))
        waiting.start()
        wait_until(lambda: "goqueue_broker_long_polls 1.0" in httpx.get(f"{node.url}/metrics").text)
        began = time.monotonic()
        assert node.stop() == 0
        waiting.join(60)
    assert time.monotonic() - began < 15  # of twenty
    assert "Messages" not in answers[0]


def test_a_queue_says_how_long_its_receives_wait(sqs: Any, new_queue: Callable[..., str]) -> None:
    queue = new_queue(ReceiveMessageWaitTimeSeconds="4")
    began = time.monotonic()
    sqs.receive_message(QueueUrl=queue)
    assert time.monotonic() - began >= 3.9
    began = time.monotonic()
    sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=0)
    assert time.monotonic() - began < 3.5


def test_a_thousand_messages_among_four_consumers_come_once_each(json_sqs: Any, sqs_node: NodeProcess) -> None:
    queue = json_sqs.create_queue(QueueName=unique())["QueueUrl"]
    for at in range(0, 1000, 10):
        entries = [{"Id": str(number), "MessageBody": str(number)} for number in range(at, at + 10)]
        assert not json_sqs.send_message_batch(QueueUrl=queue, Entries=entries).get("Failed")
    got: list[str] = []

    def consume() -> None:
        with client(sqs_node.sqs) as own:
            while True:
                answer = own.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
                if "Messages" not in answer:
                    return
                got.extend(bodies(answer))
                entries = [{"Id": str(at), "ReceiptHandle": one} for at, one in enumerate(handles(answer))]
                assert len(own.delete_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == len(entries)

    consumers = [threading.Thread(target=consume) for _ in range(4)]
    for one in consumers:
        one.start()
    for one in consumers:
        one.join(60)
    assert sorted(map(int, got)) == list(range(1000))


@pytest.mark.parametrize("size", [1, 65_536, 1_048_576])
def test_messages_up_to_the_limit(sqs: Any, queue: str, size: int) -> None:
    body = "x" * size
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)) == [body]
