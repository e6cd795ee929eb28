"""`goqueue dlq` against a real node."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.running import goqueue
from tests.door.test_rest_dead_letters import Queue


@pytest.fixture
def queue(server_url: str) -> Queue:
    """A topic with three dead letters."""
    queue = Queue(server_url)
    binary = {"value": "/w==", "encoding": "base64", "headers": {"color": "red"}}
    queue.publish({"key": "k0", "value": "zero", "headers": {"color": "blue"}}, {"value": None, "key": "k1"}, binary)
    queue.reject("cannot read it")
    queue.letters(3)
    return queue


def test_dead_letters_are_listed(server_url: str, queue: Queue) -> None:
    done = goqueue("dlq", "list", queue.topic, server=server_url)
    assert done.exit_code == 0
    heads = ["PARTITION", "OFFSET", "DIED", "AT", "REASON", "GROUP", "ATTEMPTS", "KEY", "VALUE"]
    assert done.stdout.splitlines()[0].split() == heads
    assert re.search(rf"^ +0 +0 +20\S+Z +REJECTED +g-{queue.topic} +1 +k0 +zero$", done.stdout, re.MULTILINE)
    assert re.search(r" k1 +null$", done.stdout, re.MULTILINE) and "base64:/w==" in done.stdout
    first = goqueue("dlq", "list", queue.topic, "--limit", "2", server=server_url)
    assert "--cursor 0:2" in first.stderr
    rest = goqueue("dlq", "list", queue.topic, "--cursor", "0:2", "--output", "json", server=server_url)
    assert [one["offset"] for one in json.loads(rest.stdout)["messages"]] == [2]
    for option in (
        ["--header", "color=red"],
        ["--reason", "REJECTED", "--from", "2026-01-01T00:00:00Z", "--limit", "1"],
    ):
        found = goqueue("dlq", "list", queue.topic, *option, "--output", "json", server=server_url)
        assert len(json.loads(found.stdout)["messages"]) == 1


def test_one_is_shown_and_deleted(server_url: str, queue: Queue) -> None:
    shown = goqueue("dlq", "show", queue.topic, "0", "2", server=server_url)
    assert re.search(r"^error +cannot read it$", shown.stdout, re.MULTILINE)
    assert re.search(rf"^died in +{queue.topic}:0:2$", shown.stdout, re.MULTILINE)
    assert re.search(r"^headers +color=red$", shown.stdout, re.MULTILINE)
    assert re.search(r"^value +base64:/w==$", shown.stdout, re.MULTILINE)
    asked = goqueue("dlq", "delete", queue.topic, "0", "0", server=server_url, answers="n\n")
    assert asked.exit_code == 1 and "'zero' (REJECTED)" in asked.stderr
    assert goqueue("dlq", "delete", queue.topic, "0", "2", "--yes", server=server_url).exit_code == 0
    gone = goqueue("dlq", "show", queue.topic, "0", "2", server=server_url)
    assert gone.exit_code == 1 and "(unknown-dead-letter)" in gone.stderr


def test_a_redrive_is_tried_dry_and_waited_for(server_url: str, queue: Queue) -> None:
    dry = goqueue("dlq", "redrive", queue.topic, "--dry-run", server=server_url)
    assert re.search(r"^would move +REJECTED +3$", dry.stdout, re.MULTILINE) and "3 messages would be" in dry.stderr
    some = goqueue("dlq", "redrive", queue.topic, "--header", "color=red", "--wait", server=server_url)
    assert some.exit_code == 0
    assert re.search(r"^state +completed$", some.stdout, re.MULTILINE)
    assert re.search(r"^moved +1 of 3$", some.stdout, re.MULTILINE)
    options = ["--rate", "1000", "--reason", "REJECTED", "--wait", "--output", "json"]
    rest = goqueue("dlq", "redrive", queue.topic, *options, server=server_url)
    assert json.loads(rest.stdout)["moved"] == 2
    assert goqueue("dlq", "list", queue.topic, server=server_url).stdout.count("\n") == 1
    refused = goqueue("dlq", "redrive", queue.topic, "--to", "nowhere", server=server_url)
    assert refused.exit_code == 1 and "(unknown-topic)" in refused.stderr
