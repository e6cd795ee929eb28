"""Contexts: which broker is meant, who says so, and who may see the key."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.running import goqueue

KEY = "gq_0123.secret"
Typed = Callable[..., Result]


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """A person with a home of their own, and no variables."""

    def run(*arguments: str, **options: object) -> Result:
        env = {"XDG_CONFIG_HOME": str(tmp_path), **dict(options.pop("env", {}))}  # type: ignore[call-overload]
        return goqueue(*arguments, server=None, env=env, **options)  # type: ignore[arg-type]

    return run


def test_a_contexts_life(typed: Typed, tmp_path: Path) -> None:
    added = typed("context", "add", "prod", "--server", "http://127.0.0.1:2/", "--key-file", "-", stdin=f"{KEY}\n")
    assert added.stderr == "Added context 'prod'. `goqueue context use prod` makes it the current one.\n"
    assert typed("context", "add", "dev", "--server", "http://127.0.0.1:3", "--use").exit_code == 0
    file = tmp_path / "goqueue" / "contexts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert typed("context", "list").stdout == (
        "USED  NAME  SERVER              KEY  CA\n"
        "*     dev   http://127.0.0.1:3  -    -\n"
        "      prod  http://127.0.0.1:2  yes  -\n"
    )  # fmt: skip
    assert typed("context", "list", "-o", "name").stdout == "dev\nprod\n"
    assert typed("context", "use", "prod").stderr == "Commands talk to http://127.0.0.1:2 now.\n"
    assert KEY not in typed("context", "show", "prod", "-o", "json").stdout
    assert KEY in typed("context", "show", "prod", "--reveal").stdout
    assert typed("context", "remove", "prod", "--yes").exit_code == 0
    assert json.loads(file.read_text())["current"] is None
    assert typed("context", "use", "--none").stderr == "No context is used.\n"


def test_who_says_which_broker_is_asked(typed: Typed) -> None:
    typed("context", "add", "two", "--server", "http://127.0.0.1:2", "--use")
    typed("context", "add", "three", "--server", "http://127.0.0.1:3")

    def asked(*arguments: str, **env: str) -> str:
        done = typed(*arguments, env=env)
        assert done.exit_code == 3
        return done.stderr.partition("Cannot reach http://127.0.0.1:")[2][0]

    assert asked("topic", "list") == "2", "the current context"
    assert asked("topic", "list", "--context", "three") == "3"
    assert asked("--context", "three", "topic", "list") == "3"
    assert asked("topic", "list", GOQUEUE_CONTEXT="three") == "3"
    assert asked("topic", "list", GOQUEUE_SERVER="http://127.0.0.1:4") == "4", "a variable wins over the file"
    assert asked("topic", "list", "--context", "three", GOQUEUE_SERVER="http://127.0.0.1:4") == "3", "a flag over that"
    assert asked("topic", "list", "--context", "three", "--server", "http://127.0.0.1:5") == "5"
    assert asked("--server", "http://127.0.0.1:5", "topic", "list") == "5"
    shown = typed("context", "show", "-o", "yaml").stdout
    assert shown.splitlines()[:2] == ["context: two", 'server: "http://127.0.0.1:2"']


def test_a_key_is_shown_to_its_own_broker_alone(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Client` is asked what it was given."""
    seen: list[tuple[str, str | None]] = []

    class Told(Exception):
        pass

    def client(url: str, timeout: float, *, key: str | None, ca_file: str | None) -> None:
        seen.append((url, key))
        raise Told

    monkeypatch.setattr("goqueue.client.Client", client)
    typed("context", "add", "two", "--server", "http://127.0.0.1:2", "--key-file", "-", "--use", stdin=f"{KEY}\n")
    typed("topic", "list")
    typed("topic", "list", "--server", "http://127.0.0.1:3")
    typed("topic", "list", env={"GOQUEUE_KEY": "another"})
    typed("topic", "list", "--context", "two", env={"GOQUEUE_KEY": "another"})
    assert seen == [
        ("http://127.0.0.1:2", KEY),
        ("http://127.0.0.1:3", None),
        ("http://127.0.0.1:2", None),
        ("http://127.0.0.1:2", KEY),
    ]


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["add", "a b", "--server", "http://x"], "is no name of a context", 2),
        (["add", "x", "--server", "nowhere"], "is not a server's address", 2),
        (["add", "x"], "Missing option '--server'", 2),
        (["add", "there", "--server", "http://x"], "--replace puts this one in its place", 1),
        (["add", "x", "--server", "http://x", "--ca-file", "missing"], "does not exist", 2),
        (["add", "x", "--server", "http://x", "--key-file", "/dev/null"], "is no key", 2),
        (["use", "nobody"], "There is no context 'nobody'; there are: there.", 2),
        (["use"], "Give the NAME of a context, or --none.", 2),
        (["show", "nobody"], "There is no context 'nobody'", 2),
        (["remove", "nobody", "--yes"], "There is no context 'nobody'", 2),
        (["remove", "there"], "Nobody is here to answer; add --yes to do it.", 2),
    ],
)
def test_mistakes_say_what_to_do(typed: Typed, arguments: list[str], told: str, code: int) -> None:
    typed("context", "add", "there", "--server", "http://127.0.0.1:2")
    done = typed("context", *arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert told in " ".join(done.stderr.split())


def test_a_damaged_file_is_named(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "goqueue").mkdir()
    (tmp_path / "goqueue" / "contexts.json").write_text("{")
    done = typed("topic", "list")
    assert done.exit_code == 1
    assert "contexts.json cannot be read" in done.stderr and "move it away" in done.stderr
