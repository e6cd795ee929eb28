"""`goqueue copy` out of a queue of RabbitMQ: whole, and acknowledged there only once it is safe here."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from bench.node_process import NodeProcess
from bench.peers import rabbitmq
from bench.peers.server import PeerMissing
from goqueue.cli import copy_broker, copy_fifo, copy_rabbitmq
from goqueue.cli.copy_parts import CopyPlace, parse_place
from goqueue.cli.copy_rabbitmq import header_value, priority_name
from goqueue.cli.failures import Failed, Misused
from goqueue.cli.rabbitmq_config import rabbit_login
from goqueue.client import Client, GoQueueClientError, Message
from tests.cli.running import goqueue


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Its port."""
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(rabbitmq.server(tmp_path_factory.mktemp("rabbit")))
        except PeerMissing:
            pytest.skip("a copy out of RabbitMQ needs one; `tools/need.sh rabbitmq-server` installs it")
        yield running.port


class Old:
    """A queue there, and somebody who publishes to it."""

    def __init__(self, port: int, kind: str = "quorum") -> None:
        self.name = f"old-{uuid.uuid4().hex[:8]}"
        self.place = f"amqp://127.0.0.1:{port}/{self.name}"
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.queue_declare(self.name, durable=True, arguments={"x-queue-type": kind})

    def publish(self, body: bytes, **properties: Any) -> None:
        told = pika.BasicProperties(delivery_mode=2, **properties)
        self._channel.basic_publish("", self.name, body, told)

    def left(self) -> int:
        found: int = self._channel.queue_declare(self.name, passive=True).method.message_count
        return found

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def old(rabbit: int) -> Iterator[Old]:
    queue = Old(rabbit)
    yield queue
    queue.close()


def fresh(server: str) -> str:
    name = f"new-{uuid.uuid4().hex[:8]}"
    with Client(server) as client:
        client.create_topic(name, partitions=2, config={"retention.ms": "-1"})
    return name


def contents(server: str, topic: str) -> list[Message]:
    with Client(server) as client:
        found: list[Message] = []
        place = "earliest"
        while page := client.read(topic, from_=place, limit=10_000):
            found += page
            place = page.next or place
    return found


@pytest.mark.slow
def test_a_message_keeps_what_it_has(old: Old, server_url: str) -> None:
    old.publish(b"plain")
    old.publish(
        b"\xff\x00",
        content_type="application/octet-stream",
        message_id="m-1",
        correlation_id="c-1",
        priority=9,
        timestamp=1_700_000_000,
        headers={"tenant": "a", "count": 3, "flag": True, "nothing": None, "x-death": [{"queue": "q", "count": 2}]},
    )
    target = fresh(server_url)
    done = goqueue("copy", old.place, target, server=server_url)
    assert (done.exit_code, done.stderr) == (0, "Copied 2 messages.\n")
    assert old.left() == 0
    plain, full = sorted(contents(server_url, target), key=lambda one: one.value == b"\xff\x00")
    assert (plain.value, plain.priority, plain.key) == (b"plain", "normal", None)
    assert plain.headers == (("routing-key", old.name.encode()),)
    assert (full.value, full.priority, full.timestamp) == (b"\xff\x00", "critical", 1_700_000_000_000)
    assert dict(full.headers) == {
        "content-type": b"application/octet-stream",
        "message-id": b"m-1",
        "correlation-id": b"c-1",
        "priority": b"9",
        "routing-key": old.name.encode(),
        "tenant": b"a",
        "count": b"3",
        "flag": b"true",
        "nothing": None,
        "x-death": b'[{"queue":"q","count":2}]',
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_copy_that_breaks_loses_nothing(
    kind: str, rabbit: int, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a batch is kept its messages go back to RabbitMQ; behind that they come twice."""
    old, target, write = Old(rabbit, kind), fresh(server_url), copy_broker.BrokerSink.write
    calls = 0

    def breaks(self: copy_broker.BrokerSink, *given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise GoQueueClientError("broken", "Broken before.")
        write(self, *given)
        if calls == 4:
            raise GoQueueClientError("broken", "Broken behind.")

    monkeypatch.setattr(copy_rabbitmq, "_PAGE", 10)
    monkeypatch.setattr(copy_broker.BrokerSink, "write", breaks)
    for number in range(45):
        old.publish(b"%d" % number)
    done = [goqueue("copy", old.place, target, server=server_url) for _ in range(3)]
    assert [one.exit_code for one in done] == [1, 1, 0], [one.stderr for one in done]
    assert old.left() == 0
    old.close()
    found = [int(one.value or b"") for one in contents(server_url, target)]
    assert set(found) == set(range(45))
    assert len(found) == 55, "one batch was kept and not yet acknowledged"


@pytest.mark.slow
def test_a_limit_leaves_the_rest_where_it_is(old: Old, server_url: str) -> None:
    for number in range(7):
        old.publish(b"%d" % number)
    target = fresh(server_url)
    assert goqueue("copy", old.place, target, "--limit", "3", server=server_url).stderr == "Copied 3 messages.\n"
    assert old.left() == 4
    assert goqueue("copy", old.place, target, server=server_url).stderr == "Copied 4 messages.\n"
    assert goqueue("copy", old.place, target, server=server_url).stderr == "Copied 0 messages.\n"
    assert sorted(one.value or b"" for one in contents(server_url, target)) == [b"%d" % number for number in range(7)]


@pytest.mark.slow
def test_into_a_fifo_queue_nothing_comes_twice(
    old: Old, server: NodeProcess, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    keys = {"region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "any"}
    sqs = boto3.client("sqs", endpoint_url=server.sqs, **keys)
    name = f"new-{uuid.uuid4().hex[:8]}.fifo"
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
    write, calls = copy_fifo.FifoSink.write, 0

    def breaks(self: copy_fifo.FifoSink, *given: Any) -> None:
        nonlocal calls
        calls += 1
        write(self, *given)
        if calls == 1:
            raise GoQueueClientError("broken", "Broken behind.")

    monkeypatch.setattr(copy_fifo.FifoSink, "write", breaks)
    for number in range(25):
        old.publish(b"%d" % number, message_id=f"m-{number}", content_type="text/plain", headers={"n": number})
    ends = [goqueue("copy", old.place, name, server=server_url).exit_code for _ in range(2)]
    assert ends == [1, 0] and old.left() == 0
    assert [one.value for one in contents(server_url, name)] == [b"%d" % number for number in range(25)]
    asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    first = sqs.receive_message(QueueUrl=url, **asked)["Messages"][0]
    assert first["Attributes"]["MessageDeduplicationId"] == "m-0"
    assert first["Attributes"]["MessageGroupId"] == old.name
    assert {name: one["StringValue"] for name, one in first["MessageAttributes"].items()} == {
        "content-type": "text/plain",
        "n": "0",
    }
    sqs.close()


@pytest.mark.slow
def test_a_login_is_in_a_file(rabbit: int, old: Old, server_url: str, tmp_path: Path) -> None:
    target, login = fresh(server_url), tmp_path / "login"
    login.write_text("username=guest\npassword=wrong\n")
    refused = goqueue("copy", old.place, target, "--source-config", str(login), server=server_url)
    assert refused.exit_code == 1 and "refuses the login" in refused.stderr
    login.write_text("# RabbitMQ\nusername=guest\npassword=guest\nvirtual.host=/\n")
    done = goqueue("copy", old.place, target, "--source-config", str(login), server=server_url)
    assert (done.exit_code, done.stderr) == (0, "Copied 0 messages.\n")
    nothing = goqueue("copy", f"amqp://127.0.0.1:{rabbit}/no-such", target, server=server_url)
    assert nothing.exit_code == 1 and "no queue 'no-such'" in nothing.stderr


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["amqp://127.0.0.1:1/q", "TARGET"], "Check the address, and whether it wants TLS", 3),
        (["amqp://127.0.0.1:1/q", "-"], "goes to a topic of GoQueue", 2),
        (["TARGET", "amqp://127.0.0.1:1/q"], "not to it", 2),
        (["amqp://127.0.0.1:1/q", "TARGET", "--resume", "x"], "emptied as a whole", 2),
        (["amqp://127.0.0.1:1/q", "TARGET", "--key", "x"], "emptied as a whole", 2),
        (["amqp://guest:guest@localhost/q", "TARGET"], "do not belong on a command line", 2),
        (["amqp://localhost:x/q", "TARGET"], "has no port between", 2),
    ],
)
def test_mistakes(server_url: str, arguments: list[str], told: str, code: int) -> None:
    target = fresh(server_url)
    typed = [target if one == "TARGET" else one for one in arguments]
    done = goqueue("copy", *typed, server=server_url)
    assert done.exit_code == code, done.output
    assert told in " ".join(done.stderr.split())


def test_no_priority_comes_before_one_above_it() -> None:
    assert [priority_name(number) for number in (None, 0, 1, 4, 5, 10, 255)] == [
        *("normal", "normal", "high", "high", "critical", "critical", "critical"),
    ]


def test_values_of_headers_are_text() -> None:
    assert header_value("ä") == "ä".encode() and header_value(b"\xff") == b"\xff" and header_value(None) is None
    assert (header_value(False), header_value(-3), header_value(1.5)) == (b"false", b"-3", b"1.5")
    assert header_value(Decimal("1.50")) == b"1.50"
    assert header_value(datetime(2026, 1, 31, 12, 0)) == b"2026-01-31T12:00:00Z"
    table = {"a": [1, b"x", {"b": datetime(2026, 1, 31), "c": Decimal("2.5")}]}
    assert header_value(table) == b'{"a":[1,"x",{"b":"2026-01-31T00:00:00Z","c":"2.5"}]}'


def test_what_sqs_cannot_carry_is_told() -> None:
    def message(value: bytes, *headers: tuple[str, bytes]) -> Message:
        return Message("q", 0, 0, -1, None, value, headers)

    with pytest.raises(Failed, match="no text"):
        copy_fifo.entry_of(message(b"\xff"))
    with pytest.raises(Failed, match="at most 10"):
        copy_fifo.entry_of(message(b"a", *((f"h{number}", b"x") for number in range(11))))
    entry = copy_fifo.entry_of(message(b"a", ("routing-key", "ä".encode()), ("message-id", b"x" * 200)))
    assert len(entry["MessageGroupId"]) == len(entry["MessageDeduplicationId"]) == 64
    first, second = (copy_fifo.entry_of(message(b"a"))["MessageDeduplicationId"] for _ in range(2))
    assert first != second, "without an id two equal messages are two"


def test_places_and_logins(tmp_path: Path) -> None:
    assert parse_place("amqp://h:5/a%2Fb") == CopyPlace("amqp", "a/b", "amqp://h:5")
    assert rabbit_login("amqp://h", None)[:5] == ("h", 5672, "guest", "guest", "/")
    assert rabbit_login("amqp://[::1]:7", None)[:2] == ("::1", 7)
    secured = rabbit_login("amqps://h", None)
    assert secured.port == 5671 and secured.tls is not None
    for text in ("user=x", "username", "ssl.ca.location=/nowhere"):
        (tmp_path / "login").write_text(text)
        with pytest.raises(Misused):
            rabbit_login("amqp://h", str(tmp_path / "login"))
    (tmp_path / "login").write_text("ssl.ca.location=/nowhere")
    with pytest.raises(Misused, match="/nowhere"):
        rabbit_login("amqps://h", str(tmp_path / "login"))
