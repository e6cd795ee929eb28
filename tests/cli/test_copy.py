"""`goqueue copy`: between topics, brokers, Kafka's door and files; whole, once, and going on after a break."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.cli import copy_broker
from goqueue.cli.copy_parts import CopyPlace, parse_note, parse_place
from goqueue.cli.failures import Misused
from goqueue.client import Client, GoQueueClientError, Message
from tests.cli.running import goqueue

COUNT = 2_504
KEPT = {"retention.ms": "-1"}  # some messages say that they are of 1970
Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, str]


@pytest.fixture(scope="module")
def source(server: NodeProcess) -> str:
    """Three partitions with binary values, tombstones, double headers, times and lanes."""
    name = f"from-{uuid.uuid4().hex[:8]}"
    with Client(server.url) as client:
        client.create_topic(name, partitions=3, config=KEPT)
        client.publish_many(name, [json.dumps({"n": number}) for number in range(COUNT - 3)])
        client.publish(name, b"\xff\x00", key=b"\xfe", timestamp=1_000, priority="critical")
        client.publish(name, None, key="gone", headers=[("a", "1"), ("a", b"\xff"), ("b", None)], timestamp=2_000)
        client.publish(name, "", key="", partition=2, timestamp=3_000)
    return name


def fresh(server: str, partitions: int = 2) -> str:
    name = f"to-{uuid.uuid4().hex[:8]}"
    with Client(server) as client:
        client.create_topic(name, partitions=partitions, config=KEPT)
    return name


def contents(server: str, topic: str) -> list[Content]:
    """All that a copy must keep, in an order of its own."""
    with Client(server) as client:
        found: list[Message] = []
        place = "earliest"
        while page := client.read(topic, from_=place, limit=10_000):
            found += page
            place = page.next or place
    return sorted(map(_content, found), key=repr)


def _content(one: Message) -> Content:
    return one.key, one.value, one.headers, one.timestamp, one.priority


def copied(*arguments: str, server: str) -> str:
    done = goqueue("copy", *arguments, server=server)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    return done.stderr.splitlines()[-1]


def test_topic_to_topic_and_through_files(server_url: str, source: str, tmp_path: Path) -> None:
    whole = contents(server_url, source)
    made = f"to-{uuid.uuid4().hex[:8]}"
    assert copied(source, made, "--create", server=server_url) == f"Copied {COUNT:,} messages."
    with Client(server_url) as client:
        assert client.topic(made).num_partitions == 3
    target = fresh(server_url)
    assert copied(source, target, server=server_url) == f"Copied {COUNT:,} messages."
    assert contents(server_url, target) == whole
    file = f"file:{tmp_path / 'all.jsonl'}"
    assert copied(source, file, server=server_url) == f"Copied {COUNT:,} messages."
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == COUNT
    back = fresh(server_url, partitions=3)
    assert copied(file, f"{server_url}/{back}", "--keep-partitions", server=server_url) == f"Copied {COUNT:,} messages."
    assert contents(server_url, back) == whole
    with Client(server_url) as client:
        assert [one.value for one in client.read(back, partition=2, limit=10_000)][-1] == b""


def test_from_and_to_kafka(server: NodeProcess, server_url: str, source: str) -> None:
    there, back = fresh(server_url), fresh(server_url)
    kafka = f"kafka://{server.kafka}"
    assert (
        copied(f"{kafka}/{source}", f"{kafka}/{there}", "--resume", there, server=server_url)
        == f"Copied {COUNT:,} messages."
    )
    assert contents(server_url, there) == contents(server_url, source)
    again = goqueue("copy", f"{kafka}/{source}", f"{kafka}/{there}", "--resume", there, server=server_url)
    assert again.stderr.splitlines() == [f"Going on behind {COUNT:,} messages, copied before.", "Copied 0 messages."]
    assert copied(f"{kafka}/{there}", back, "--limit", "7", server=server_url) == "Copied 7 messages."
    nobody = goqueue("copy", "kafka://127.0.0.1:1/x", back, server=server_url)
    assert nobody.exit_code == 3 and "Check the address" in nobody.stderr


def test_filters_choose_and_standard_output_is_lines(server_url: str, source: str) -> None:
    done = goqueue("copy", source, "-", "--where", "value.n >= 2499", server=server_url)
    assert done.exit_code == 0 and done.stderr == "Copied 2 messages.\n"
    assert sorted(json.loads(json.loads(line)["value"])["n"] for line in done.stdout.splitlines()) == [2_499, 2_500]
    target = fresh(server_url)
    lines = '{"value": "a", "key": "k"}\n\n{"value": "/w==", "encoding": "base64", "headers": {"h": "1"}}\n'
    assert goqueue("copy", "-", target, server=server_url, stdin=lines).stderr == "Copied 2 messages.\n"
    assert [one[:3] for one in contents(server_url, target)] == [(None, b"\xff", (("h", b"1"),)), (b"k", b"a", ())]


def test_a_broken_copy_goes_on_and_copies_nothing_twice(
    server_url: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks before a batch is kept, and after it was kept but before anybody knew."""
    target, write = fresh(server_url), copy_broker.BrokerSink.write
    calls = 0

    def breaks(self: copy_broker.BrokerSink, *given: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise GoQueueClientError("broken", "Broken before.")
        write(self, *given)  # type: ignore[arg-type]
        if calls == 4:
            raise GoQueueClientError("broken", "Broken behind.")

    monkeypatch.setattr(copy_broker, "_PAGE", 500)
    monkeypatch.setattr(copy_broker.BrokerSink, "write", breaks)
    ends = [goqueue("copy", source, target, "--resume", target, server=server_url).exit_code for _ in range(3)]
    assert ends == [1, 1, 0]
    assert contents(server_url, target) == contents(server_url, source)
    file = tmp_path / "some.jsonl"
    arguments = ["copy", source, f"file:{file}", "--resume", "x"]
    assert goqueue(*arguments, server=server_url).stderr == f"Copied {COUNT:,} messages.\n"
    with file.open("ab") as more:
        more.write(b'{"half a li')
    assert goqueue(*arguments, server=server_url).stderr.endswith("Copied 0 messages.\n")
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == COUNT, "what was torn is cut off"


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["a", "a"], "Source and target are the same", 2),
        (["a/b", "c"], "is no place. Write TOPIC, context://NAME/TOPIC", 2),
        (["no-such", "-"], "(unknown-topic)", 1),
        (["SOURCE", "no-such"], "(unknown-topic)", 1),
        (["SOURCE", "file:/nowhere/at/all"], "No such file or directory", 1),
        (["SOURCE", "-", "--resume", "x"], "leave --resume out", 2),
        (["SOURCE", "-", "--resume", "a b"], "is no name", 2),
        (["SOURCE", "file:x", "--resume", "x", "--limit", "5"], "give one of them", 2),
        (["SOURCE", "file:x", "--create"], "make this one first", 2),
        (["context://nobody/x", "-"], "There is no context 'nobody'", 2),
        (["file:/nowhere", "SOURCE"], "No such file or directory", 1),
        (["SOURCE", "-", "--where", "value."], "a name is missing", 2),
        (["SOURCE"], "Missing argument 'TARGET'", 2),
    ],
)
def test_mistakes(server_url: str, source: str, tmp_path: Path, arguments: list[str], told: str, code: int) -> None:
    typed = [source if one == "SOURCE" else one for one in arguments]
    done = goqueue("copy", *typed, server=server_url, env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert done.exit_code == code, done.output
    assert told in " ".join(done.stderr.split())


def test_a_line_that_is_no_message_is_told(server_url: str, tmp_path: Path) -> None:
    for line in ("nonsense", '{"key": "no value"}', '{"value": "?", "encoding": "base64"}', '{"value": 3}'):
        (tmp_path / "bad").write_text('{"value": "good"}\n' + line + "\n")
        done = goqueue("copy", f"file:{tmp_path / 'bad'}", fresh(server_url), server=server_url)
        assert done.exit_code == 1 and "bad, line 2: " in done.stderr and '{"key": "k", "value": "v"}' in done.stderr


def test_a_name_belongs_to_its_source(server_url: str, source: str) -> None:
    target = fresh(server_url)
    assert copied(source, target, "--resume", target, server=server_url)
    other = goqueue("copy", fresh(server_url), target, "--resume", target, server=server_url)
    assert other.exit_code == 2 and f"is of topic:/{source}, not of" in other.stderr


def test_places_and_notes() -> None:
    assert parse_place("orders") == CopyPlace("topic", "orders")
    assert parse_place("https://h:1/orders") == CopyPlace("url", "orders", "https://h:1")
    assert parse_place("kafka://a:1,b:2/orders") == CopyPlace("kafka", "orders", "a:1,b:2")
    assert parse_place("context://prod/orders") == CopyPlace("context", "orders", "prod")
    assert parse_place("file:a/b") == CopyPlace("file", "a/b") and parse_place("-") == CopyPlace("file", "-")
    for text in ("", "ftp://h/x", "http://h/a/b"):
        with pytest.raises(Misused):
            parse_place(text)
    assert parse_note("") is None and parse_note("{") is None and parse_note("{}") is None
