"""`goqueue dlq`: list, show, redrive, delete."""

from __future__ import annotations

import time
from typing import Final

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.live_names import GROUP, TOPIC
from goqueue.cli.options import CommandGroup, header_pair, output_option, pairs, server_option, view_options
from goqueue.cli.progress import progress_bar
from goqueue.cli.show import (
    bytes_text,
    counted,
    headers_text,
    print_facts,
    remark,
    render,
    show_facts,
    show_rows,
    time_text,
)
from goqueue.client import Client
from goqueue.client import dead_letters as calls
from goqueue.client.dead_letters import DeadLetter, DryRun, Redrive

_POLL_S: Final = 0.2


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show, redrive and delete dead letters."""


@dlq.command("list")
@click.argument("topic", type=TOPIC)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="CURSOR", help="Go on where a list ended.")
@click.option("--reason", metavar="REASON", help="Only those that died of this, like MAX_FAILURES.")
@click.option("--group", type=GROUP, metavar="GROUP", help="Only those that died in this group.")
@click.option("--from", "from_", metavar="TIME", help="Only those that died at this time or later.")
@click.option("--to", metavar="TIME", help="Only those that died before this time.")
@click.option("--header", callback=header_pair, metavar="NAME=VALUE", help="Only those with this header.")
@view_options
def list_(
    topic: str,
    limit: int,
    cursor: str | None,
    reason: str | None,
    group: str | None,
    from_: str | None,
    to: str | None,
    header: tuple[str, str] | None,
    server: str,
    output: str,
) -> None:
    """List the dead letters of TOPIC, the oldest first."""
    wanted = None if header is None else ":".join(header)
    chosen = {"cursor": cursor, "reason": reason, "group": group, "from": from_, "to": to, "header": wanted}
    query = {name: value for name, value in chosen.items() if value is not None}
    with connect(server) as client:
        page = client.perform(calls.dead_letters(topic, {"limit": str(limit), **query}))
    columns = ("PARTITION", "OFFSET", "DIED AT", "REASON", "GROUP", "ATTEMPTS", "KEY", "VALUE")
    names = [f"{one.partition}/{one.offset}" for one in page.messages]
    show_rows(output, page, columns, map(_row, page.messages), names)
    if page.next is not None:
        remark(f"There may be more: --cursor {page.next}")


@dlq.command()
@click.argument("topic", type=TOPIC)
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@view_options
def show(topic: str, partition: int, offset: int, server: str, output: str) -> None:
    """Show one dead letter of TOPIC, whole. PARTITION and OFFSET are its place in the dead letters."""
    with connect(server) as client:
        found = client.perform(calls.dead_letter(topic, partition, offset))
    show_facts(output, found, _facts(found), f"{partition}/{offset}")


@dlq.command()
@click.argument("topic", type=TOPIC)
@click.option("--reason", metavar="REASON", help="Only those that died of this, like MAX_FAILURES.")
@click.option("--group", type=GROUP, metavar="GROUP", help="Only those that died in this group.")
@click.option("--header", multiple=True, callback=pairs("header"), metavar="NAME=VALUE", help="Only those with this.")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="At most N messages a second.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N messages.")
@click.option("--to", metavar="TOPIC", help="Move them there; default where each died.")
@click.option("--dry-run", is_flag=True, help="Count what would be moved, and move nothing.")
@click.option("--wait", is_flag=True, help="Show the progress, and return when it is over.")
@server_option
@output_option
def redrive(
    topic: str,
    reason: str | None,
    group: str | None,
    header: list[tuple[str, str]],
    rate: int | None,
    limit: int | None,
    to: str | None,
    dry_run: bool,
    wait: bool,
    server: str,
    output: str,
) -> None:
    """Move the dead letters of TOPIC back to where they died."""
    chosen: dict[str, object] = {"reason": reason, "group": group, "headers": dict(header) or None}
    fitting = {name: value for name, value in chosen.items() if value}
    wanted: dict[str, object] = {"filter": fitting, "rate": rate, "limit": limit, "to": to}
    asked = {name: value for name, value in wanted.items() if value}
    with connect(server) as client:
        if dry_run:
            _show_dry_run(client.perform(calls.dry_run(topic, asked)), output)
            return
        task = client.perform(calls.redrive(topic, asked))
        if wait:
            task = _follow(client, topic, task)
    render(output, task, lambda: _show_redrive(task), [task.id])
    if task.state == "failed":
        raise click.exceptions.Exit(1)


@dlq.command()
@click.argument("topic", type=TOPIC)
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@yes_option
@server_option
def delete(topic: str, partition: int, offset: int, yes: bool, server: str) -> None:
    """Delete one dead letter of TOPIC for ever."""
    with connect(server) as client:
        if not yes:
            found = client.perform(calls.dead_letter(topic, partition, offset))
            value = bytes_text(found.content[1])
            confirm(f"Delete {value[:60]!r} ({found.reason}) for ever?")
        client.perform(calls.delete_dead_letter(topic, partition, offset))
    remark(f"Deleted dead letter {partition}/{offset} of {topic!r}.")


def _row(one: DeadLetter) -> tuple[object, ...]:
    key, value = one.content
    group = one.origin.group if one.origin else "-"
    died = "-" if one.died_at is None else time_text(one.died_at)
    shown = bytes_text(key), bytes_text(value)
    return one.partition, one.offset, died, one.reason or "-", group, one.attempts, *shown


def _facts(one: DeadLetter) -> list[tuple[str, str]]:
    key, value = one.content
    origin = one.origin
    return [
        ("reason", one.reason or "-"),
        ("error", one.error or "-"),
        ("died at", "-" if one.died_at is None else time_text(one.died_at)),
        ("died in", "-" if origin is None else f"{origin.topic}:{origin.partition}:{origin.offset}"),
        ("group", "-" if origin is None else origin.group),
        ("attempts", f"{one.attempts:,} ({one.failures:,} failed)"),
        ("redrives", f"{one.redrives:,}"),
        ("priority", one.priority),
        ("key", bytes_text(key)),
        ("headers", headers_text(one.header_pairs)),
        ("value", bytes_text(value)),
    ]


def _show_dry_run(found: DryRun, output: str) -> None:
    rows = [("would move", reason or "-", count) for reason, count in sorted(found.by_reason.items())]
    rows += [("would stay", error, count) for error, count in sorted(found.skipped.items())]
    show_rows(output, found, ("WHAT", "REASON", "MESSAGES"), rows)
    remark(f"{counted(found.would_move, 'message')} would be moved; leave --dry-run out to do it.")


def _show_redrive(task: Redrive) -> None:
    facts = [("id", task.id), ("state", task.state), ("moved", f"{task.moved:,} of {task.total:,}")]
    facts += [(error, f"{count:,} stay") for error, count in sorted(task.skipped.items())]
    if task.failed:
        facts.append(("failed", f"{task.failed:,} stay: {task.failure}"))
    print_facts(facts)


def _follow(client: Client, topic: str, task: Redrive) -> Redrive:
    """Waits for the end. Ctrl-C stops the waiting, not the redrive."""
    with progress_bar("redriving", task.total) as show_progress:
        while task.is_live:
            show_progress(task.looked_at)
            time.sleep(_POLL_S)
            task = client.perform(calls.redrive_progress(topic, task.id))
        show_progress(task.looked_at)
    return task
