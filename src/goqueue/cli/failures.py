"""How a command ends when something goes wrong: a line or two on stderr, and an exit code that scripts can trust."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from goqueue.client import GoQueueClientError

# What the broker says in REST's words, in those of this program.
_HINTS: Final = {
    "unknown-topic": "`goqueue topic list` shows what there is; `goqueue topic create NAME` makes one.",
    "topic-exists": "`goqueue topic alter NAME` changes it.",
    "unknown-delayed": "`goqueue delayed list TOPIC` shows what waits.",
    "unknown-trace": "`goqueue trace list` shows the last ones.",
    "unknown-dead-letter": "`goqueue dlq list TOPIC` shows what there is.",
    "unknown-group": "`goqueue group list` shows what there is.",
    "group-not-empty": "Stop its members first; `goqueue group describe NAME` shows them.",
}


class Failed(click.ClickException):
    """Ends the program with `error: ...`: refused or damaged."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


class Misused(Failed):
    """What was asked cannot be asked."""

    exit_code = 2


class NoAnswer(Failed):
    """The broker cannot be reached, or went away."""

    exit_code = 3


def end_of(why: Exception) -> click.ClickException | click.exceptions.Exit:
    """How the program ends for an exception that nobody handled."""
    from goqueue.base.errors import GoQueueError
    from goqueue.client import GoQueueClientError

    if isinstance(why, BrokenPipeError):
        return _reader_left()
    if isinstance(why, GoQueueClientError):
        return _of_client(why)
    if isinstance(why, GoQueueError):
        return Failed(f"{why.message} ({why.code})")
    if isinstance(why, OSError):
        return Failed(f"{why.filename or 'the system'}: {why.strerror or why}")
    return Failed(f"{type(why).__name__}: {why}\nThis is a mistake in goqueue; --debug before the command shows where.")


def _of_client(why: GoQueueClientError) -> Failed:
    from goqueue.client import ConnectionFailed

    if isinstance(why, ConnectionFailed):
        return NoAnswer(f"{why}\nName another broker with --server URL or GOQUEUE_SERVER.")
    if why.status is None and why.code.startswith("invalid-"):
        return Misused(str(why))
    hint = _HINTS.get(why.code)
    return Failed(f"{why}\n{hint}" if hint else str(why))


def _reader_left() -> click.exceptions.Exit:
    """Whoever read our output has enough, like `head`. What is still buffered must not be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return click.exceptions.Exit(0)
