"""`goqueue group`: list, describe, reset-offsets, delete."""

from __future__ import annotations

import re

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.live_names import GROUP, TOPIC
from goqueue.cli.options import CommandGroup, output_option, server_option, view_options
from goqueue.cli.show import counted, print_facts, print_table, remark, render, show_rows
from goqueue.client import Group, GroupMember, OffsetMove, TopicParts


@click.group(cls=CommandGroup)
def group() -> None:
    """List, describe, move and delete consumer groups."""


@group.command("list")
@view_options
def list_(server: str, output: str) -> None:
    """List groups."""
    with connect(server) as client:
        found = client.groups()
    show_rows(
        output,
        found,
        ("GROUP", "KIND", "STATE", "MEMBERS"),
        [(one.group, one.kind, one.state, one.members) for one in found],
    )


@group.command()
@click.argument("name", metavar="GROUP", type=GROUP)
@view_options
def describe(name: str, server: str, output: str) -> None:
    """Show a group's members and how far it is behind."""
    with connect(server) as client:
        found = client.group(name)
    render(output, found, lambda: _describe(found), [found.group])


@group.command("reset-offsets")
@click.argument("name", metavar="GROUP", type=GROUP)
@click.option("--topic", required=True, type=TOPIC, metavar="TOPIC", help="Which topic to move in.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition; default all.")
@click.option("--to", required=True, metavar="PLACE", help="earliest, latest, offset:N, or a time.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@server_option
@output_option
def reset_offsets(
    name: str, topic: str, partition: int | None, to: str, dry_run: bool, server: str, output: str
) -> None:
    """Move a group that nobody is in: where it goes on reading."""
    place, offset = _place(to)
    with connect(server) as client:
        moves = client.reset_offsets(name, topic, to=place, offset=offset, partition=partition, dry_run=dry_run)
    show_rows(output, moves, ("TOPIC", "PARTITION", "FROM", "TO"), [_move(one) for one in moves])
    remark("Nothing was changed; leave --dry-run out to do it." if dry_run else f"Moved group {name!r}.")


@group.command()
@click.argument("name", metavar="GROUP", type=GROUP)
@yes_option
@server_option
def delete(name: str, yes: bool, server: str) -> None:
    """Delete a group that nobody is in, and its offsets."""
    with connect(server) as client:
        if not yes:
            places = counted(sum(one.committed is not None for one in client.group(name).lag), "committed offset")
            confirm(f"Delete group {name!r} and its {places} for ever?")
        client.delete_group(name)
    remark(f"Deleted group {name!r}.")


def _place(text: str) -> tuple[str | None, int | None]:
    """A place or time, or an offset."""
    kind, colon, number = text.partition(":")
    if kind != "offset":
        return text, None
    if not colon or not re.fullmatch(r"\d{1,18}", number):
        raise click.BadParameter(f"{text!r} is not an offset; write offset:17.", param_hint="--to")
    return None, int(number)


def _move(move: OffsetMove) -> tuple[object, ...]:
    return move.topic, move.partition, "-" if move.before is None else move.before, move.after


def _describe(found: Group) -> None:
    behind = sum(one.lag for one in found.lag)
    facts = [
        ("group", found.group),
        ("kind", found.kind),
        ("state", found.state),
        ("generation", f"{found.generation:,}"),
        ("protocol", found.protocol or "-"),
        ("lag", f"{behind:,}"),
    ]
    print_facts(facts)
    click.echo()
    columns = ("MEMBER", "CLIENT", "HOST", "DOOR", "READS")
    print_table(columns, [(one.member_id, one.client_id, one.host, one.door, _reads(one)) for one in found.members])
    click.echo()
    rows = [
        (one.topic, one.partition, "-" if one.committed is None else one.committed, one.end_offset, one.lag)
        for one in found.lag
    ]
    print_table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"), rows)


def _reads(member: GroupMember) -> str:
    shown = [_parts(one) for one in member.assignment] + [f"{_parts(one)} (giving back)" for one in member.revoking]
    return " ".join(shown) or "-"


def _parts(parts: TopicParts) -> str:
    return f"{parts.topic}:{','.join(map(str, parts.partitions))}"
