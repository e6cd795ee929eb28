"""`goqueue topic`: create, list, describe, alter, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from goqueue.api.topics import UNKNOWN, PartitionInfo
from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.live_names import TOPIC
from goqueue.cli.options import CommandGroup, output_option, server_option, topic_settings, view_options
from goqueue.cli.show import counted, print_facts, print_table, remark, render, show_rows, tell, time_text
from goqueue.client import Topic

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    return click.option(
        "--config",
        multiple=True,
        metavar="NAME=VALUE",
        callback=topic_settings,
        help="A setting, like retention.ms=7d or segment.bytes=64MiB; repeatable.",
    )(command)


def partitions_option(help_text: str) -> Callable[[F], F]:
    return click.option("--partitions", type=click.IntRange(1), metavar="N", help=help_text)


@click.group(cls=CommandGroup)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("name")
@partitions_option("How many; default from the broker.")
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="How many nodes of a cluster hold each partition; default from the broker.",
)
@config_option
@server_option
@output_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    config: list[tuple[str, str]],
    server: str,
    output: str,
) -> None:
    """Create a topic."""
    with connect(server) as client:
        made = client.create_topic(name, partitions, dict(config), replication_factor=replication_factor)
    _tell(made, f"Created topic {made.name!r} with {counted(made.num_partitions, 'partition')}.", output)


@topic.command("list")
@view_options
def list_(server: str, output: str) -> None:
    """List topics."""
    with connect(server) as client:
        found = client.topics()
    columns = ("NAME", "PARTITIONS", "MESSAGES", "BYTES", "CREATED")
    rows = [(one.name, one.num_partitions, one.messages, one.size_bytes, time_text(one.created_ms)) for one in found]
    show_rows(output, found, columns, rows)


@topic.command()
@click.argument("name", type=TOPIC)
@view_options
def describe(name: str, server: str, output: str) -> None:
    """Show a topic's settings and partitions."""
    with connect(server) as client:
        found = client.topic(name)
    render(output, found, lambda: _describe(found), [found.name])


@topic.command()
@click.argument("name", type=TOPIC)
@config_option
@click.option("--reset", multiple=True, metavar="NAME", help="Take a setting back to its default; repeatable.")
@partitions_option("Grow to this many; a topic never shrinks.")
@server_option
@output_option
def alter(
    name: str, config: list[tuple[str, str]], reset: tuple[str, ...], partitions: int | None, server: str, output: str
) -> None:
    """Change settings, add partitions."""
    if both := sorted(set(dict(config)) & set(reset)):
        raise click.UsageError(f"{', '.join(both)}: set and reset at once.")
    changes: dict[str, str | int | float | None] = {**dict(config), **dict.fromkeys(reset)}
    if not changes and partitions is None:
        raise click.UsageError("Nothing to change; give --config, --reset or --partitions.")
    with connect(server) as client:
        changed = client.alter_topic(name, changes, partitions)
    _tell(changed, f"Changed topic {changed.name!r}.", output)


@topic.command()
@click.argument("name", type=TOPIC)
@yes_option
@server_option
def delete(name: str, yes: bool, server: str) -> None:
    """Delete a topic and its messages."""
    with connect(server) as client:
        if not yes:
            messages = counted(client.topic(name).messages, "message")
            confirm(f"Delete topic {name!r} and its {messages} for ever?")
        client.delete_topic(name)
    remark(f"Deleted topic {name!r}.")


def _tell(found: Topic, sentence: str, output: str) -> None:
    tell(output, found, sentence, found.name)


def _describe(found: Topic) -> None:
    facts = [
        ("name", found.name),
        ("id", found.id),
        ("created", time_text(found.created_ms)),
        ("messages", f"{found.messages:,}"),
        ("bytes", f"{found.size_bytes:,}"),
        ("replicas", f"{found.replication_factor}"),
    ]
    print_facts(facts)
    click.echo()
    settings = sorted(found.config.items())
    print_table(("SETTING", "VALUE", "SET BY"), [(*one, _set_by(found, one[0])) for one in settings])
    click.echo()
    columns = ("PARTITION", "START", "END", "HIGH WATERMARK", "MESSAGES", "BYTES", "SEGMENTS", "STATE")
    rows = [
        (
            one.partition,
            one.start_offset,
            one.end_offset,
            one.high_watermark,
            one.messages,
            one.size_bytes,
            one.segments,
            _state(one),
        )
        for one in found.partitions
    ]
    print_table(columns, rows)


def _set_by(found: Topic, name: str) -> str:
    return "topic" if name in found.overrides else "default"


def _state(partition: PartitionInfo) -> str:
    if partition.high_watermark == UNKNOWN:
        return "no leader answers"
    state, damaged = "ok" if partition.writable else "read-only", len(partition.damaged)
    return f"{state}, {counted(damaged, 'damaged stretch')}" if damaged else state
