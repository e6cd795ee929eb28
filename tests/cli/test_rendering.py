"""One answer in every form: tables, JSON, YAML, names; once or again and again; and questions before destruction."""

from __future__ import annotations

import json
import signal
import uuid

import pytest

from goqueue.cli.yaml_text import to_yaml
from goqueue.client import Client
from tests.cli.running import goqueue, process


@pytest.fixture
def topic(server_url: str) -> str:
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
    return name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({}, "{}"),
        ([], "[]"),
        (None, "null"),
        ({"a": 1, "b": [1.5, "x"], "c": {}}, "a: 1\nb:\n  - 1.5\n  - x\nc: {}"),
        ([{"a": [{"b": None}]}], "- a:\n    - b: null"),
        ([[1, 2], []], "- - 1\n  - 2\n- []"),
        (["yes", "No", "null", "~", "1", "1e3", "2026-01-01", ""], "\n".join(
            ['- "yes"', '- "No"', '- "null"', '- "~"', '- "1"', '- "1e3"', '- "2026-01-01"', '- ""'])),
        ({"a: b": "c # d", "two words": "- x"}, '"a: b": "c # d"\n"two words": "- x"'),
        (["héllo wörld", "line\nline", "\x00\x85"], '- "héllo wörld"\n- "line\\nline"\n- "\\u0000\\u0085"'),
        ({7: "orders-v1.2/x"}, '"7": orders-v1.2/x'),
    ],
)  # fmt: skip
def test_yaml_quotes_what_could_be_something_else(value: object, shown: str) -> None:
    assert to_yaml(value) == shown


def test_every_form_of_a_list_and_of_one_thing(server_url: str, topic: str) -> None:
    as_json = json.loads(goqueue("topic", "list", "-o", "json", server=server_url).stdout)
    assert topic in [one["name"] for one in as_json]
    assert topic in goqueue("topic", "list", "-o", "name", server=server_url).stdout.splitlines()
    assert f"- name: {topic}" in goqueue("-o", "yaml", "topic", "list", server=server_url).stdout.splitlines()
    assert goqueue("topic", "describe", topic, "-o", "name", server=server_url).stdout == f"{topic}\n"
    assert f"name: {topic}\n" in goqueue("topic", "describe", topic, "-o", "yaml", server=server_url).stdout
    wrong = goqueue("topic", "list", "-o", "xml", server=server_url)
    assert wrong.exit_code == 2 and "'table', 'json', 'yaml', 'name'" in wrong.stderr


def test_watching_shows_it_again_until_ctrl_c(server_url: str, topic: str) -> None:
    with process("topic", "list", "-o", "name", "--watch", "--interval", "0.1", server=server_url) as watching:
        assert watching.stdout is not None
        seen = 0
        while seen < 3:
            seen += watching.stdout.readline() == f"{topic}\n".encode()
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, errors) == (0, b"")


def test_watching_outlives_a_broker_that_does_not_answer() -> None:
    with process("topic", "list", "-w", "--interval", "0.1", server="http://127.0.0.1:1") as watching:
        assert watching.stderr is not None
        seen = 0
        while seen < 2:
            seen += watching.stderr.readline().startswith(b"error: Cannot reach")
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
    assert watching.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "delete", "TOPIC"],
        ["delayed", "cancel", "TOPIC", "0", "0"],
        ["key", "revoke", "some"],
        ["user", "delete", "somebody"],
        ["tenant", "delete", "some"],
        ["txn", "abort", "some"],
        ["cluster", "remove", "7"],
    ],
)
def test_nothing_is_destroyed_where_nobody_can_be_asked(server_url: str, topic: str, arguments: list[str]) -> None:
    typed = [topic if one == "TOPIC" else one for one in arguments]
    done = goqueue(*typed, server=server_url, stdin="y\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Nobody is here to answer; add --yes to do it.\n")
    with Client(server_url) as client:
        assert client.topic(topic).name == topic


def test_a_person_is_asked(server_url: str, topic: str) -> None:
    kept = goqueue("topic", "delete", topic, server=server_url, answers="n\n")
    assert kept.exit_code == 1 and "Delete topic" in kept.stderr
    assert goqueue("topic", "delete", topic, server=server_url, answers="y\n").exit_code == 0
