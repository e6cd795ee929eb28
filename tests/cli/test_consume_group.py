"""`goqueue consume --group` against a real node."""

from __future__ import annotations

import json
import signal
import uuid

import pytest

from goqueue.client import Client
from tests.cli.running import goqueue, process
from tests.client.brokers import dead_letters


@pytest.fixture
def jobs(server_url: str) -> str:
    """A topic with three jobs; its group has the same name."""
    name = f"jobs-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.publish_many(name, ["a", "b", "c"])
    return name


def taken(server_url: str, jobs: str, *flags: str) -> list[str]:
    done = goqueue("consume", jobs, "--group", jobs, *flags, server=server_url)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_what_is_acked_is_gone_and_the_rest_comes_again(server_url: str, jobs: str) -> None:
    assert taken(server_url, jobs) == ["a", "b", "c"], "nothing is acked"
    assert taken(server_url, jobs, "--ack", "--count", "2") == ["a", "b"]
    assert taken(server_url, jobs, "-n", "1", "--visibility-timeout", "5m") == ["c"]
    again = json.loads(taken(server_url, jobs, "--ack", "--output", "json")[0])
    assert (again["value"], again["attempt"], again["failures"]) == ("c", 3, 0)
    assert again["receipt"].startswith(f"{jobs}:0:2:3:")
    assert taken(server_url, jobs) == []
    assert goqueue("consume", jobs, server=server_url).stdout.splitlines() == ["a", "b", "c"], "the log keeps all"
    with Client(server_url) as client:
        assert client.group(jobs).members == []


def test_what_failed_comes_again_in_the_next_run(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        client.alter_topic(jobs, {"queue.retry.ms": 1})
    assert taken(server_url, jobs, "--nack", "--mode", "partition") == ["a", "b", "c"]
    failures = [json.loads(line)["failures"] for line in taken(server_url, jobs, "--ack", "--output", "json")]
    assert failures == [1, 1, 1]


def test_what_is_rejected_is_in_the_dead_letters(server_url: str, jobs: str) -> None:
    assert taken(server_url, jobs, "--reject", "-n", "1", "--output", "full")[0].endswith("\ta")
    with Client(server_url) as client:
        assert [one.text for one in dead_letters(client, jobs)] == ["a"]


def test_a_new_group_may_begin_at_the_end(server_url: str, jobs: str) -> None:
    assert taken(server_url, jobs, "--from", "latest") == []
    with Client(server_url) as client:
        client.publish(jobs, "d")
    assert taken(server_url, jobs, "--ack") == ["d"]


def test_ctrl_c_leaves_the_group(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        with process("consume", jobs, "--group", jobs, "--ack", "--follow", server=server_url) as consuming:
            assert consuming.stdout is not None
            assert [consuming.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]
            client.publish(jobs, "live")
            assert consuming.stdout.readline() == b"live\n"
            assert [one.client_id for one in client.group(jobs).members] == ["goqueue-cli"]
            consuming.send_signal(signal.SIGINT)
            out, err = consuming.communicate(timeout=30)
        assert (consuming.returncode, out, err) == (0, b"", b"")
        assert client.group(jobs).members == []


def test_a_reader_that_leaves_gets_the_rest_again(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        client.publish_many(jobs, ["x" * 10_000] * 500)
        with process("consume", jobs, "--group", jobs, "--ack", server=server_url) as consuming:
            assert consuming.stdout is not None
            assert consuming.stdout.readline() == b"a\n"
            consuming.stdout.close()
            assert consuming.wait(30) == 0
            assert consuming.stderr is not None
            assert consuming.stderr.read() == b""
        assert client.group(jobs).members == []
        assert taken(server_url, jobs, "--ack")[-1] == "x" * 10_000


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--ack"], "--ack goes with --group"),
        (["--visibility-timeout", "5s"], "--visibility-timeout goes with --group"),
        (["--mode", "shared"], "--mode goes with --group"),
        (["--group", "g", "--ack", "--nack"], "Choose one of --ack and --nack"),
        (["--group", "g", "--partition", "0"], "leave --partition and --offset out"),
        (["--group", "g", "--from", "0:7"], "earliest or latest"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(flags: list[str], told: str) -> None:
    done = goqueue("consume", "t", *flags)
    assert done.exit_code == 2
    assert told in done.stderr


def test_exit_codes_are_those_of_the_other_commands(server_url: str, jobs: str) -> None:
    assert goqueue("consume", jobs, "--group", "g").exit_code == 3
    assert goqueue("consume", jobs, "--group", "a/b", server=server_url).exit_code == 2
    unknown = goqueue("consume", "no-such", "--group", "g", server=server_url)
    assert unknown.exit_code == 1 and "(unknown-topic)" in unknown.stderr
    span = goqueue("consume", jobs, "--group", jobs, "--visibility-timeout", "soon", server=server_url)
    assert span.exit_code == 1 and "(invalid-field)" in span.stderr


def test_help_says_that_nothing_is_acked_by_itself() -> None:
    told = " ".join(goqueue("consume", "--help").stdout.split())
    assert "nothing is answered: the messages come again" in told
