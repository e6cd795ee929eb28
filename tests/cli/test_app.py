"""The program as a whole: help, wrong usage, exit codes, errors without tracebacks."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from goqueue import __version__
from goqueue.base.settings import CLIENT_VARIABLES
from goqueue.base.startup_errors import DataDirInUse
from goqueue.cli import COMMANDS, app
from goqueue.cli.connecting import DEFAULT_SERVER
from goqueue.cli.failures import end_of
from goqueue.client import Client, GoQueueClientError
from goqueue.client.transport import DEFAULT_URL
from tests.cli.running import goqueue


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_of_a_command_what_the_command_tells_of_itself(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.get_short_help_str(limit=100) == COMMANDS[name].summary
    assert goqueue(name, "--help").exit_code == 0


def test_help_lists_every_command_and_loads_none() -> None:
    program = (
        "import sys\nfrom goqueue.cli import app\napp(['--help'], standalone_mode=False)\n"
        "loaded = {'httpx', 'rich', 'msgspec', 'goqueue.node', 'goqueue.client'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_the_default_server_is_the_clients() -> None:
    assert DEFAULT_SERVER == DEFAULT_URL
    assert "GOQUEUE_SERVER" in CLIENT_VARIABLES


def test_version_needs_no_broker() -> None:
    assert goqueue("version").stdout.startswith(f"goqueue {__version__} ")
    assert goqueue("--version").stdout == f"goqueue {__version__}\n"
    assert f'"version": "{__version__}"' in goqueue("version", "--output", "json").stdout
    assert goqueue("--output", "json", "version").stdout == goqueue("version", "--output", "json").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topic", "nonsense"],
        ["topic", "create"],
        ["topic", "create", "orders", "--partitions", "0"],
        ["topic", "create", "orders", "--config", "retention.ms"],
        ["topic", "create", "orders", "--config", "=5"],
        ["topic", "alter", "orders"],
        ["topic", "alter", "orders", "--config", "a=1", "--reset", "a"],
        ["topic", "describe", ".."],
        ["topic", "list", "--output", "xml"],
        ["topic", "list", "--server", "nowhere"],
        ["produce"],
        ["produce", "orders", "v", "--tombstone"],
        ["produce", "orders", "--tombstone"],
        ["produce", "orders", "v", "--file", __file__],
        ["produce", "orders", "--file", "does-not-exist"],
        ["produce", "orders", "v", "--header", "name"],
        ["produce", "orders", "v", "--priority", "5"],
        ["produce", "orders", "v", "--priority", "urgent"],
        ["produce", "orders", "v", "--partition", "-1"],
        ["produce", "orders", "v", "--acks", "some"],
        ["produce", "orders", "v", "--key-separator", ":"],
        ["produce", "orders", "-", "--key", "k", "--key-separator", ":"],
        ["produce", "..", "v"],
        ["consume"],
        ["consume", "orders", "--offset", "5"],
        ["consume", "orders", "--partition", "1", "--offset", "5", "--from", "earliest"],
        ["consume", "orders", "-n", "0"],
        ["consume", "orders", "--output", "xml"],
        ["log", "dump"],
        ["log", "dump", "does-not-exist"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    done = goqueue(*arguments, stdin="")
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "rror: " in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["topic", "create", "orders"],
        ["topic", "delete", "orders", "--yes"],
        ["produce", "orders", "v"],
        ["produce", "orders", "-"],
        ["consume", "orders"],
        ["consume", "orders", "--follow"],
        ["version", "--broker"],
    ],
)
def test_no_broker_is_exit_code_3_and_says_what_to_do(arguments: list[str]) -> None:
    done = goqueue(*arguments, stdin="line\n")
    assert done.exit_code == 3
    assert done.stderr.startswith("error: Cannot reach http://127.0.0.1:1 ")
    assert "goqueue serve" in done.stderr
    assert "--server" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_the_server_behind_the_command_wins_over_the_one_before_it() -> None:
    done = goqueue("--server", "http://127.0.0.1:2", "topic", "list", "--server", "http://127.0.0.1:3")
    assert "http://127.0.0.1:3 " in done.stderr
    assert "http://127.0.0.1:2 " in goqueue("--server", "http://127.0.0.1:2", "topic", "list").stderr


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command, info_name="goqueue")
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def test_no_help_is_cut_off() -> None:
    for path in commands(app):
        done = CliRunner().invoke(app, [*path, "--help"], prog_name="goqueue", terminal_width=80)
        _, _, text = done.stdout.partition("\n\n")
        assert done.exit_code == 0 and text, path
        assert "..." not in text, (path, text)
        assert max(map(len, text.splitlines())) <= 80, path


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("retention.ms=7d", {"retention.ms": "604800000"}),
        ("retention.ms=1500", {"retention.ms": "1500"}),
        ("retention.ms=-1", {"retention.ms": "-1"}),
        ("queue.lease.ms=PT1.5S", {"queue.lease.ms": "1500"}),
        ("segment.bytes=64MiB", {"segment.bytes": "67108864"}),
        ("retention.bytes=-1", {"retention.bytes": "-1"}),
        ("cleanup.policy=compact", {"cleanup.policy": "compact"}),
    ],
)
def test_settings_take_spans_and_sizes(given: str, sent: dict[str, str], server_url: str) -> None:
    name = f"topic-{uuid.uuid4()}"
    assert goqueue("topic", "create", name, "--config", given, server=server_url).exit_code == 0
    assert goqueue("topic", "alter", name, "--config", given, server=server_url).exit_code == 0
    with Client(server_url) as client:
        assert client.topic(name).overrides == sent


@pytest.mark.parametrize(
    ("given", "told"),
    [("retention.ms=soon", "write it like 1500ms, 10s"), ("segment.bytes=64MB", "write it like 65536, 64KiB")],
)
def test_a_setting_that_is_no_span_or_size_says_how_to_write_one(given: str, told: str) -> None:
    done = goqueue("topic", "alter", "orders", "--config", given)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


def test_advice_is_in_the_words_of_the_command_line(server_url: str) -> None:
    missing = goqueue("topic", "describe", "nowhere", server=server_url)
    assert "`goqueue topic create NAME` makes one" in missing.stderr
    name = f"topic-{uuid.uuid4()}"
    goqueue("topic", "create", name, server=server_url)
    ends = [
        missing,
        goqueue("topic", "create", name, server=server_url),
        goqueue("delayed", "show", name, "0", "7", server=server_url),
        goqueue("dlq", "show", name, "0", "7", server=server_url),
        goqueue("trace", "show", "0" * 32, server=server_url),
        goqueue("group", "describe", "nobody", server=server_url),
    ]
    for end in ends:
        assert end.exit_code == 1
        assert not re.search(r"\b(GET|POST|PATCH|PUT|DELETE) /", end.stderr)
        assert "`goqueue " in end.stderr, end.stderr


def test_headers_have_one_form() -> None:
    for command in (["produce", "orders", "v"], ["dlq", "list", "orders"], ["dlq", "redrive", "orders"]):
        done = goqueue(*command, "--header", "color:red")
        assert done.exit_code == 2
        assert "write name=value" in done.stderr


def test_typing_needs_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.produce._is_typed", lambda: True)
    done = goqueue("produce", "orders")
    assert done.exit_code == 2
    assert "- to type lines" in done.stderr


@pytest.mark.parametrize(
    ("why", "told", "code"),
    [
        (GoQueueClientError("unknown-topic", "No topic.", None, 404), "No topic. (unknown-topic)", 1),
        (DataDirInUse("In use."), "In use. (data-dir-in-use)", 1),
        (FileNotFoundError(2, "No such file", "x.txt"), "x.txt: No such file", 1),
        (KeyError("k"), "KeyError: 'k'", 1),
    ],
)
def test_every_failure_has_a_line_and_a_code(why: Exception, told: str, code: int) -> None:
    end = end_of(why)
    assert isinstance(end, click.ClickException)
    assert end.message.startswith(told)
    assert end.exit_code == code


def test_a_mistake_of_the_program_shows_its_traceback_only_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(path: Path) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr("goqueue.cli.log.segments_at", broken)
    done = goqueue("log", "dump", str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: RuntimeError: bug\n")
    assert isinstance(goqueue("--debug", "log", "dump", str(tmp_path)).exception, RuntimeError)
