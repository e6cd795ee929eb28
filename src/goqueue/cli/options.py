"""Options that many commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from goqueue.base.errors import InvalidField
from goqueue.base.settings import parse_size
from goqueue.base.times import parse_duration_ms
from goqueue.cli.connecting import name_context, target_of
from goqueue.cli.live_names import CONTEXT
from goqueue.cli.show import OUTPUTS
from goqueue.cli.watching import watch_option

F = TypeVar("F", bound=Callable[..., Any])


def _inherit(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """What stands behind the command wins over what stands before it."""
    if value is not None:
        return value
    found = ctx.find_root().params[param.name or ""]
    assert isinstance(found, str)
    return found


def _named(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        name_context(ctx, value)


def _server(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return target_of(ctx, value).server


class CommandGroup(click.Group):
    """A group whose help shows the first sentence of each command whole, over as many lines as it takes."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(self, ctx, name)) for name in self.list_commands(ctx)])


def _summary(group: click.Group, ctx: click.Context, name: str) -> str:
    command = group.get_command(ctx, name)
    paragraph = " ".join((command.help if command and command.help else "").split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]


def server_option(command: F) -> F:
    context = click.option(
        "--context",
        metavar="NAME",
        type=CONTEXT,
        is_eager=True,
        expose_value=False,
        callback=_named,
        help="The context to use instead of the current one.",
    )
    server = click.option(
        "--server", metavar="URL", callback=_server, help="The broker's URL; default from the context."
    )
    return context(server(command))


def output_option(command: F) -> F:
    return _output("-o", "--output")(command)


def long_output_option(command: F) -> F:
    """For commands whose `-o` is something else."""
    return _output("--output")(command)


def _output(*flags: str) -> Callable[[F], F]:
    return click.option(*flags, type=click.Choice(OUTPUTS), callback=_inherit, help="How to show the answer.")


def view_options(command: F) -> F:
    """For what is looked at: where to ask, how to show it, and again and again."""
    return server_option(output_option(watch_option(command)))


def of_cluster(command: F) -> F:
    """Which cluster is meant, and how the answer is shown."""
    local = click.option(
        "--data", type=click.Path(path_type=Path), metavar="DIR", help="Ask a node of `goqueue cluster up` here."
    )
    return server_option(output_option(local(command)))


def view_of_cluster(command: F) -> F:
    """The same for what is looked at."""
    return of_cluster(watch_option(command))


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


def header_pair(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[str, str] | None:
    """A callback for one `name=value`."""
    return None if given is None else pairs("header")(ctx, param, (given,))[0]


def topic_settings(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """A callback for topic settings: times of `.ms` like 7d and sizes of `.bytes` like 64MiB become numbers."""
    try:
        return [(name, _number(name, value)) for name, value in pairs("setting")(ctx, param, given)]
    except (InvalidField, ValueError) as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _number(name: str, value: str) -> str:
    if re.fullmatch(r"-?\d+", value.strip()):
        return value.strip()
    if name.endswith(".ms"):
        return str(parse_duration_ms(value, name))
    if name.endswith(".bytes"):
        try:
            return str(parse_size(value))
        except ValueError as error:
            raise ValueError(f"{name}: {value!r} {error}.") from None
    return value
