"""The commands against a real node."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest

from goqueue.client import Client
from tests.cli.running import goqueue, process


@pytest.fixture
def topic(server_url: str) -> str:
    """A topic of the test's own, with one partition."""
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
    return name


def values(server_url: str, topic: str, *flags: str) -> list[str]:
    done = goqueue("consume", topic, *flags, server=server_url)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_topics_life(server_url: str) -> None:
    name = f"topic-{uuid.uuid4()}"
    made = goqueue("topic", "create", name, "--partitions", "2", "--config", "retention.ms=60000", server=server_url)
    assert (made.exit_code, made.stdout) == (0, "")
    assert made.stderr == f"Created topic '{name}' with 2 partitions.\n"

    again = goqueue("topic", "create", name, server=server_url)
    assert again.exit_code == 1
    assert again.stderr.startswith("error: ")
    assert "(topic-exists)" in again.stderr

    listed = goqueue("topic", "list", server=server_url)
    assert name in [line.split()[0] for line in listed.stdout.splitlines()]
    assert name in [
        one["name"] for one in json.loads(goqueue("topic", "list", "--output", "json", server=server_url).stdout)
    ]

    changed = goqueue(
        "topic", "alter", name, "--reset", "retention.ms", "--config", "segment.bytes=1048576", "--partitions", "3",
        "--output", "json", server=server_url,
    )  # fmt: skip
    assert json.loads(changed.stdout)["overrides"] == {"segment.bytes": "1048576"}

    described = goqueue("topic", "describe", name, server=server_url)
    assert ["segment.bytes", "1048576", "topic"] in [line.split() for line in described.stdout.splitlines()]
    assert (
        len(json.loads(goqueue("topic", "describe", name, "--output", "json", server=server_url).stdout)["partitions"])
        == 3
    )

    kept = goqueue("topic", "delete", name, server=server_url, answers="n\n")
    assert kept.exit_code == 1
    gone = goqueue("topic", "delete", name, server=server_url, answers="y\n")
    assert gone.exit_code == 0
    unknown = goqueue("topic", "delete", name, "--yes", server=server_url)
    assert unknown.exit_code == 1
    assert "(unknown-topic)" in unknown.stderr


def test_one_message_with_everything(server_url: str, topic: str) -> None:
    done = goqueue(
        "produce", topic, "héllo", "--key", "k", "--header", "a=1", "--header", "a=2=3", "--priority", "critical",
        "--partition", "0", "--acks", "leader", "--output", "json", server=server_url,
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (0, '{"partition":0,"offset":0}\n')
    assert "partition 0, offset 0" in done.stderr
    message = json.loads(values(server_url, topic, "--output", "json")[0])
    assert (message["value"], message["key"], message["priority"]) == ("héllo", "k", "critical")
    assert message["headers"] == {"a": ["1", "2=3"]}
    columns = values(server_url, topic, "--output", "full")[0].split("\t")
    assert columns[:2] == ["0", "0"]
    assert columns[3:] == ["critical", "k", "a=1,a=2=3", "héllo"]


def test_a_tombstone(server_url: str, topic: str) -> None:
    assert goqueue("produce", topic, "--tombstone", "--key", "k", server=server_url).exit_code == 0
    assert json.loads(values(server_url, topic, "--output", "json")[0])["value"] is None


def test_lines_of_stdin_and_binary_ones_too(server_url: str, topic: str) -> None:
    done = goqueue("produce", topic, server=server_url, stdin=b"one\n\n\xff\xfe\nlast")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"Stored 4 messages in '{topic}'.\n"
    with Client(server_url) as client:
        assert [message.value for message in client.read(topic)] == [b"one", b"", b"\xff\xfe", b"last"]


def test_lines_of_a_file_in_order(server_url: str, topic: str, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(3_000)]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    done = goqueue("produce", topic, "--file", str(tmp_path / "lines"), server=server_url)
    assert done.stderr == f"Stored 3,000 messages in '{topic}'.\n"
    assert values(server_url, topic) == lines


def test_a_bar_for_who_watches_leaves_the_output_alone(
    server_url: str, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("goqueue.cli.progress.is_watched", lambda: True)
    (tmp_path / "lines").write_text("a\nb\n")
    for source, stdin in ((["--file", str(tmp_path / "lines")], None), (["-"], "c\n")):
        done = goqueue("produce", topic, *source, server=server_url, stdin=stdin)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "Stored " in done.stderr
    assert values(server_url, topic) == ["a", "b", "c"]


def test_keys_before_a_separator(server_url: str, topic: str) -> None:
    done = goqueue(
        "produce", topic, "-", "--key-separator", r"\t", server=server_url, stdin="k1\tv1\nplain\nk2\tv\t2\n"
    )
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        r"line 2: has no '\t' behind a key",
        f"error: Stored 2 of 3 messages in '{topic}'; 1 refused.",
    ]
    found = [json.loads(line) for line in values(server_url, topic, "--output", "json")]
    assert [(one["key"], one["value"]) for one in found] == [("k1", "v1"), ("k2", "v\t2")]


def test_refused_lines_are_told_and_counted(server_url: str, topic: str) -> None:
    done = goqueue("produce", topic, "-", "--partition", "7", server=server_url, stdin="x\n" * 30)
    assert done.exit_code == 1
    assert done.stderr.count("(unknown-partition)") == 10
    assert done.stderr.endswith(f"error: Stored 0 of 30 messages in '{topic}'; 30 refused.\n")


def test_an_unknown_topic_is_exit_code_1(server_url: str) -> None:
    for arguments in (["produce", "no-such", "v"], ["consume", "no-such"], ["topic", "describe", "no-such"]):
        done = goqueue(*arguments, server=server_url)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "(unknown-topic)\n`goqueue topic list` shows" in done.stderr


def test_where_consuming_begins_and_ends(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        for number in range(10):
            client.publish(topic, f"v{number}", timestamp=1_000_000 + number * 1000)
    everything = [f"v{number}" for number in range(10)]
    assert values(server_url, topic) == everything
    assert values(server_url, topic, "-n", "3") == everything[:3]
    assert values(server_url, topic, "--from", "latest") == []
    assert values(server_url, topic, "--from", "0:7") == everything[7:]
    assert values(server_url, topic, "--from", "1005000") == everything[5:]
    assert values(server_url, topic, "--from", "1970-01-01T00:16:45Z", "--partition", "0") == everything[5:]
    assert values(server_url, topic, "--partition", "0", "--offset", "8") == everything[8:]
    assert values(server_url, topic, "--partition", "0", "--from", "earliest", "-n", "1") == ["v0"]
    assert values(server_url, topic, "--partition", "0", "--from", "latest") == []
    assert values(server_url, topic, "--follow", "--from", "earliest", "-n", "10") == everything
    assert values(server_url, topic, "--follow", "--partition", "0", "--offset", "9", "-n", "1") == ["v9"]
    for arguments, code in ((["--offset", "99"], "offset-out-of-range"), (["--from", "earliest"], "unknown-partition")):
        partition = "0" if code == "offset-out-of-range" else "5"
        done = goqueue("consume", topic, "--partition", partition, *arguments, server=server_url)
        assert done.exit_code == 1
        assert f"({code})" in done.stderr


def test_more_than_a_page_from_many_partitions(server_url: str) -> None:
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=4)
        client.publish_many(name, [str(number) for number in range(2_500)])
        for partition in range(4):
            client.publish(name, f"p{partition}", partition=partition)
    found = values(server_url, name)
    assert len(found) == 2_504
    assert set(found) == {str(number) for number in range(2_500)} | {f"p{partition}" for partition in range(4)}
    assert values(server_url, name, "--partition", "2")[-1] == "p2"


def test_ctrl_c_ends_following_cleanly(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        client.publish(topic, "first")
        with process("consume", topic, "--follow", "--from", "earliest", server=server_url) as consuming:
            assert consuming.stdout is not None
            assert consuming.stdout.readline() == b"first\n"
            client.publish(topic, "live")
            assert consuming.stdout.readline() == b"live\n", "each message is shown as it comes"
            consuming.send_signal(signal.SIGINT)
            out, err = consuming.communicate(timeout=30)
    assert (consuming.returncode, out, err) == (0, b"", b"")


def test_a_reader_that_leaves_ends_it_cleanly(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        client.publish_many(topic, ["x" * 1000] * 2_000)
    with process("consume", topic, server=server_url) as consuming:
        assert consuming.stdout is not None
        assert consuming.stderr is not None
        assert consuming.stdout.readline() == b"x" * 1000 + b"\n"
        consuming.stdout.close()
        assert consuming.wait(30) == 0
        assert consuming.stderr.read() == b""


def test_the_brokers_version(server_url: str) -> None:
    done = goqueue("version", "--broker", "--output", "json", server=server_url)
    assert json.loads(done.stdout)["broker"]["url"] == server_url
