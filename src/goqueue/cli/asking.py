"""Questions before something is destroyed. Where nobody can answer, only `--yes` does it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from goqueue.cli.failures import Misused

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where nobody can answer.")(command)


def is_interactive() -> bool:
    return sys.stdin.isatty()


def confirm(question: str) -> None:
    """Ends the command unless a person at a terminal says yes."""
    if not is_interactive():
        raise Misused(f"{question} Nobody is here to answer; add --yes to do it.")
    click.confirm(question, abort=True, err=True)
