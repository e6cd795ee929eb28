"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _inherit(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """What stands behind the command wins over what stands before it."""
    if value is not None:
        return value
    found = ctx.find_root().params[param.name or ""]
    assert isinstance(found, str)
    return found


def server_option(command: F) -> F:
    return click.option(
        "--server", metavar="URL", callback=_inherit, help="The broker's URL; default from GOQUEUE_SERVER."
    )(command)


def output_option(command: F) -> F:
    return click.option(
        "--output", type=click.Choice(["table", "json"]), callback=_inherit, help="How to show the answer."
    )(command)


def pairs(what: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], list[tuple[str, str]]]:
    """A callback for a repeatable option of the form `name=value`."""

    def split(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for text in given:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise click.BadParameter(f"{text!r} is not a {what}; write name=value.", ctx, param)
            found.append((name, value))
        return found

    return split
