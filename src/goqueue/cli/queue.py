"""`goqueue queue`: list, show."""

from __future__ import annotations

import time

import click

from goqueue.base.priority import NAMES
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Failed
from goqueue.cli.live_names import GROUP, TOPIC
from goqueue.cli.options import CommandGroup, view_options
from goqueue.cli.queue_numbers import QueueLane, QueueView, queue_views
from goqueue.cli.show import print_facts, print_table, render, show_rows
from goqueue.cli.span_text import age_text


@click.group(cls=CommandGroup)
def queue() -> None:
    """List and show queues: ready, leased, delayed, lanes, ages."""


@queue.command("list")
@click.option("--topic", type=TOPIC, metavar="TOPIC", help="Only queues of this topic.")
@click.option("--group", type=GROUP, metavar="GROUP", help="Only queues of this group.")
@view_options
def list_(topic: str | None, group: str | None, server: str, output: str) -> None:
    """List queues: what each group has yet to do in each topic."""
    found = _ask(server, topic, group)
    columns = ("GROUP", "TOPIC", "READY", "LEASED", "RETRYING", "DELAYED", "OLDEST", "ACKED", "FAILED", "DEAD")
    names = [f"{one.counts.group}/{one.counts.topic}" for one in found]
    show_rows(output, found, columns, map(_row, found), names)


@queue.command()
@click.argument("topic", type=TOPIC)
@click.argument("group", type=GROUP)
@view_options
def show(topic: str, group: str, server: str, output: str) -> None:
    """Show the queue that GROUP has in TOPIC, lane by lane."""
    found = _ask(server, topic, group)
    if not found:
        raise Failed(
            f"Group {group!r} took nothing from topic {topic!r} yet.\n`goqueue queue list` shows what there is."
        )
    one = found[0]
    render(output, one, lambda: _show(one), [f"{group}/{topic}"])


def _ask(server: str, topic: str | None, group: str | None) -> list[QueueView]:
    with connect(server) as client:
        if topic is not None:
            client.topic(topic)  # so that a name nobody knows is an error and not an empty list
        return queue_views(client, topic, group, time.time_ns() // 1_000_000)


def _row(one: QueueView) -> tuple[object, ...]:
    counts = one.counts
    failed, dead = counts.nacked + counts.expired_leases, sum(counts.dead_letters.values())
    now = counts.ready, counts.in_flight, counts.waiting, one.delayed
    return counts.group, counts.topic, *now, _age(one.oldest_ms), counts.acked, failed, dead


def _show(one: QueueView) -> None:
    counts = one.counts
    dead = ", ".join(f"{number:,} {reason}" for reason, number in sorted(counts.dead_letters.items()))
    print_facts(
        [
            ("group", counts.group),
            ("topic", counts.topic),
            ("ready", f"{counts.ready:,}"),
            ("leased", f"{counts.in_flight:,}"),
            ("retrying", f"{counts.waiting:,}"),
            ("delayed", f"{one.delayed:,} in the topic"),
            ("oldest", _age(one.oldest_ms)),
            ("acked", f"{counts.acked:,}"),
            ("failed", f"{counts.nacked:,} by nack, {counts.expired_leases:,} leases ran out"),
            ("dead", dead or "0"),
        ]
    )
    if one.lanes:
        click.echo()
        columns = ("LANE", "PARTITION", "READY", "LEASED", "RETRYING", "OLDEST", "CAME", "TAKEN", "LAST TAKEN")
        lanes = sorted(one.lanes, key=lambda lane: (NAMES.index(lane.lane), lane.partition))
        now_ms = time.time_ns() // 1_000_000
        print_table(columns, [_lane_row(lane, now_ms) for lane in lanes])


def _lane_row(one: QueueLane, now_ms: int) -> tuple[object, ...]:
    oldest = None if one.oldest_waiting is None else now_ms - one.oldest_waiting
    last = "never" if not one.last_served else f"{age_text((now_ms - one.last_served) / 1000)} ago"
    now = one.ready, one.in_flight, one.waiting
    return one.lane, one.partition, *now, _age(oldest), one.enqueued, one.dequeued, last


def _age(millis: int | None) -> str:
    return "-" if millis is None else age_text(millis / 1000)
