"""`goqueue delayed`: list, show, cancel."""

from __future__ import annotations

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.live_names import TOPIC
from goqueue.cli.options import CommandGroup, server_option, view_options
from goqueue.cli.show import bytes_text, headers_text, remark, show_facts, show_rows
from goqueue.client import Delayed
from goqueue.client.messages import json_content


@click.group(cls=CommandGroup)
def delayed() -> None:
    """List, show and cancel delayed messages."""


@delayed.command("list")
@click.argument("topic", type=TOPIC)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out so many of the next ones.")
@view_options
def list_(topic: str, limit: int, skip: int, server: str, output: str) -> None:
    """List what waits for TOPIC, by time."""
    with connect(server) as client:
        found = client.delayed(topic, limit=limit, skip=skip)
    columns = ("PARTITION", "SCHEDULED", "DELIVER AT", "REPEATS", "KEY", "VALUE")
    names = [f"{one.partition}/{one.scheduled}" for one in found]
    show_rows(output, [_json(one) for one in found], columns, map(_row, found), names)


@delayed.command()
@click.argument("topic", type=TOPIC)
@click.argument("partition", type=click.IntRange(0))
@click.argument("scheduled", type=click.IntRange(0))
@view_options
def show(topic: str, partition: int, scheduled: int, server: str, output: str) -> None:
    """Show a delayed message, also one that is done. SCHEDULED is its place in the schedule."""
    with connect(server) as client:
        found = client.delayed_message(topic, partition, scheduled)
    facts = [("state", found.state), ("deliver at", found.deliver_at)]
    if found.state == "pending":
        facts += [
            ("repeats", _repeats(found)),
            ("key", bytes_text(found.key)),
            ("headers", headers_text(found.headers)),
            ("value", bytes_text(found.value)),
        ]
    show_facts(output, _json(found), facts, f"{partition}/{scheduled}")


@delayed.command()
@click.argument("topic", type=TOPIC)
@click.argument("partition", type=click.IntRange(0))
@click.argument("scheduled", type=click.IntRange(0))
@yes_option
@server_option
def cancel(topic: str, partition: int, scheduled: int, yes: bool, server: str) -> None:
    """Cancel a delayed message: it will never be seen. SCHEDULED is its place in the schedule."""
    if not yes:
        confirm(f"Cancel what waits for {topic!r} at {partition} {scheduled}? It will never be seen.")
    with connect(server) as client:
        client.cancel_delayed(topic, partition, scheduled)
    remark(f"Cancelled {topic} {partition} {scheduled}.")


def _row(one: Delayed) -> tuple[object, ...]:
    return one.partition, one.scheduled, one.deliver_at, _repeats(one), bytes_text(one.key), bytes_text(one.value)


def _repeats(one: Delayed) -> str:
    if one.repeat is None:
        return "-"
    return ", ".join(f"{name} {value}" for name, value in one.repeat.items())


def _json(one: Delayed) -> dict[str, object]:
    place = {"topic": one.topic, "partition": one.partition, "scheduled": one.scheduled, "state": one.state}
    content = json_content(one.key, one.value, one.headers) if one.state == "pending" else {}
    repeats = {} if one.repeat is None else {"repeat": one.repeat, "fired": one.fired}
    return {**place, "deliverAt": one.deliver_at, **content, **repeats}
