"""`goqueue context`: add, use, list, show, remove."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import target_of
from goqueue.cli.contexts import (
    Context,
    Contexts,
    changing_contexts,
    check_context_name,
    contexts_file,
    read_contexts,
    write_contexts,
)
from goqueue.cli.failures import Failed, Misused
from goqueue.cli.live_names import CONTEXT
from goqueue.cli.options import CommandGroup, output_option
from goqueue.cli.show import remark, show_facts, show_rows

_KEY_BYTES_MAX = 4096


@click.group("context", cls=CommandGroup)
def context_group() -> None:
    """Name brokers, and choose which one commands talk to."""


@context_group.command()
@click.argument("name")
@click.option("--server", required=True, metavar="URL", help="Its address, like https://broker.example.com:8080.")
@click.option(
    "--key-file",
    metavar="FILE",
    help="The API key, or user:password, is the file's first line; `-` reads it from standard input.",
)
@click.option(
    "--ca-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Who signs its certificate."
)
@click.option("--use", "and_use", is_flag=True, help="Make it the current one.")
@click.option("--replace", is_flag=True, help="Put it in the place of one with this name.")
def add(name: str, server: str, key_file: str | None, ca_file: Path | None, and_use: bool, replace: bool) -> None:
    """Add a context. The key is kept in a file that only you can read."""
    from goqueue.client.transport import check_url

    check_context_name(name)
    authority = "" if ca_file is None else str(ca_file.resolve())
    made = Context(check_url(server), _key(key_file), authority)
    with changing_contexts() as known:
        if name in known.contexts and not replace:
            raise Failed(f"There is a context {name!r} already; --replace puts this one in its place.")
        current = name if and_use else known.current
        write_contexts(Contexts(current, known.contexts | {name: made}))
    used = "It is the current one." if current == name else f"`goqueue context use {name}` makes it the current one."
    remark(f"Added context {name!r}. {used}")


@context_group.command()
@click.argument("name", type=CONTEXT, required=False)
@click.option("--none", "nothing", is_flag=True, help="Use no context.")
def use(name: str | None, nothing: bool) -> None:
    """Make a context the current one: commands talk to its broker."""
    if (name is None) != nothing:
        raise click.UsageError("Give the NAME of a context, or --none.")
    with changing_contexts() as known:
        if name is not None:
            known.get(name)
        write_contexts(Contexts(name, known.contexts))
    remark("No context is used." if name is None else f"Commands talk to {known.get(name).server} now.")


@context_group.command("list")
@output_option
def list_(output: str) -> None:
    """List contexts; a star marks the one that is used."""
    known = read_contexts()
    used = os.environ.get("GOQUEUE_CONTEXT") or known.current
    rows = [
        ("*" if name == used else "", name, one.server, "yes" if one.key else "-", one.ca_file or "-")
        for name, one in sorted(known.contexts.items())
    ]
    data = [{"name": name, "current": name == used, **_public(one)} for name, one in sorted(known.contexts.items())]
    show_rows(output, data, ("USED", "NAME", "SERVER", "KEY", "CA"), rows, sorted(known.contexts))


@context_group.command()
@click.argument("name", type=CONTEXT, required=False)
@click.option("--reveal", is_flag=True, help="Show the key, too.")
@output_option
@click.pass_context
def show(ctx: click.Context, name: str | None, reveal: bool, output: str) -> None:
    """Show a context, or the broker that commands talk to and who says so."""
    known = read_contexts()
    if name is None:
        _show_used(ctx, known, output)
        return
    found = known.get(name)
    shown = {"name": name, **_public(found), **({"key": found.key} if reveal and found.key else {})}
    show_facts(output, shown, shown.items(), name)


@context_group.command()
@click.argument("name", type=CONTEXT)
@yes_option
def remove(name: str, yes: bool) -> None:
    """Remove a context, and its key."""
    read_contexts().get(name)
    if not yes:
        confirm(f"Remove context {name!r} and its key?")
    with changing_contexts() as known:
        known.get(name)
        left = {other: one for other, one in known.contexts.items() if other != name}
        write_contexts(Contexts(None if known.current == name else known.current, left))
    remark(f"Removed context {name!r}.")


def _show_used(ctx: click.Context, known: Contexts, output: str) -> None:
    target = target_of(ctx, None)
    root = ctx.find_root().params
    by_context = root.get("context") or (None if root.get("server") else known.current)
    shown = {
        "context": by_context or "-",
        "server": target.server,
        "key": "yes" if target.key or os.environ.get("GOQUEUE_KEY") or os.environ.get("GOQUEUE_KEY_FILE") else "no",
        "ca_file": target.ca_file or os.environ.get("GOQUEUE_CA_FILE") or "-",
        "file": str(contexts_file()),
    }
    show_facts(output, shown, shown.items(), by_context or target.server)


def _public(one: Context) -> dict[str, object]:
    told: dict[str, object] = msgspec.structs.asdict(one)
    return told | {"key": "set" if one.key else ""}


def _key(file: str | None) -> str:
    """Never from the command line, which every process of the machine can read."""
    if file is None:
        return ""
    if file == "-":
        text = sys.stdin.readline(_KEY_BYTES_MAX + 1)
    else:
        with Path(file).open(encoding="utf-8") as opened:
            text = opened.readline(_KEY_BYTES_MAX + 1)
    key = text.strip()
    if not key or len(key) > _KEY_BYTES_MAX or not key.isprintable():
        raise Misused(f"The first line of {file} is no key.")
    return key
