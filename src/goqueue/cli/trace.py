"""`goqueue trace`: list, show, search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from goqueue.cli.connecting import connect
from goqueue.cli.live_names import GROUP, TOPIC
from goqueue.cli.options import CommandGroup, view_options
from goqueue.cli.show import bytes_text, print_facts, render, show_rows
from goqueue.cli.span_text import micros_text
from goqueue.client.traces import Trace, TraceEvent, search_traces, trace, traces

_WIDTH: Final = 30  # of the waterfall, in characters


@click.group("trace", cls=CommandGroup)
def trace_group() -> None:
    """List, show and search traces of messages."""


@trace_group.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="At most so many.")
@view_options
def list_(limit: int, server: str, output: str) -> None:
    """List the traces to which something happened last."""
    with connect(server) as client:
        _print(client.perform(traces(limit)), output)


@trace_group.command()
@click.option("--topic", type=TOPIC, metavar="TOPIC", help="With an event in this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="With an event in this partition.")
@click.option("--group", type=GROUP, metavar="GROUP", help="That this group had something to do with.")
@click.option("--key", metavar="KEY", help="Of messages with this key.")
@click.option("--status", type=click.Choice(["completed", "pending", "error"]), help="How the message stands.")
@click.option("--from", "from_", metavar="TIME", help="With an event at or after this time.")
@click.option("--to", metavar="TIME", help="With an event before this time.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="At most so many.")
@view_options
def search(
    topic: str | None,
    partition: int | None,
    group: str | None,
    key: str | None,
    status: str | None,
    from_: str | None,
    to: str | None,
    limit: int,
    server: str,
    output: str,
) -> None:
    """Search traces, in the node's memory and its files. All that is given has to fit."""
    wanted = {
        "topic": topic,
        "partition": partition,
        "group": group,
        "key": key,
        "status": status,
        "from": from_,
        "to": to,
    }
    with connect(server) as client:
        _print(client.perform(search_traces(wanted, limit)), output)


@trace_group.command()
@click.argument("trace_id", metavar="ID")
@view_options
def show(trace_id: str, server: str, output: str) -> None:
    """Show one message's life, event by event. The bars say when each began and how long it took."""
    with connect(server) as client:
        found = client.perform(trace(trace_id))
    place = f"{found.topic}/{found.partition}" + ("" if found.offset is None else f"/{found.offset}")
    facts = [
        ("trace", found.trace_id),
        ("status", found.status),
        ("message", place),
        ("key", _text(found.key)),
        ("groups", ", ".join(found.groups) or "-"),
        ("started", found.started),
        ("took", micros_text(found.took_us)),
    ]

    def draw() -> None:
        print_facts(facts)
        click.echo("\n" + "\n".join(waterfall(found.spans)))

    render(output, found, draw, [found.trace_id])


def _print(found: list[Trace], output: str) -> None:
    columns = ("TRACE", "STARTED", "STATUS", "TOPIC", "PARTITION", "OFFSET", "KEY", "EVENTS", "LAST", "TOOK")
    show_rows(output, found, columns, [_row(one) for one in found])


def _row(one: Trace) -> tuple[object, ...]:
    offset = "-" if one.offset is None else one.offset
    key, took = _text(one.key), micros_text(one.took_us)
    return one.trace_id, one.started, one.status, one.topic, one.partition, offset, key, one.events, one.last, took


def _text(key: str) -> str:
    return bytes_text(key.encode()) if key else "-"


def waterfall(events: Sequence[TraceEvent]) -> list[str]:
    """One line an event: when, a bar for how long, its name, and what else is known."""
    whole_us = max((one.at_us for one in events), default=0) or 1
    names = max((len(one.name) for one in events), default=0)
    lines = []
    for one in events:
        first = round((one.at_us - one.took_us) / whole_us * (_WIDTH - 1))
        last = round(one.at_us / whole_us * (_WIDTH - 1))
        bar = " " * first + ("▏" if first == last else "█" * (last - first))
        took = micros_text(one.took_us) if one.took_us else ""
        lines.append(
            f"{micros_text(one.at_us):>10}  {bar:<{_WIDTH}}  {one.name:<{names}}  {took:>9}  {_about(one)}".rstrip()
        )
    return lines


def _about(one: TraceEvent) -> str:
    place = f"{one.topic}/{one.partition}" + ("" if one.offset is None else f"/{one.offset}")
    told = ({"group": one.group} if one.group else {}) | one.attributes
    return " ".join([place, *(f"{name}={bytes_text(str(value).encode())}" for name, value in told.items())])
