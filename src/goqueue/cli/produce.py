"""`goqueue produce`: one message from the command line, or one for each line of a file or of stdin."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, TypedDict, Unpack

import click

from goqueue.base.errors import InvalidField
from goqueue.base.priority import parse_priority
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Failed
from goqueue.cli.live_names import TOPIC
from goqueue.cli.options import pairs, server_option
from goqueue.cli.progress import progress_bar
from goqueue.cli.sending import CliSender
from goqueue.cli.show import counted, print_json_line, remark
from goqueue.client import GoQueueClientError, Scheduled
from goqueue.client.calls import Acks
from goqueue.client.messages import MessageFields, Repeat


def _priority(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_priority(value)
    except InvalidField as error:
        raise click.BadParameter(error.message, ctx, param) from None


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("value", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A message for each line.")
@click.option("--key", help="The key; without one the broker spreads messages.")
@click.option("--key-separator", metavar="SEP", help="Each line is key, SEP, value; \\t is a tab.")
@click.option(
    "--tombstone", is_flag=True, help="A message without a value, which deletes its key in a compacted topic."
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", callback=pairs("header"), help="A header; repeatable."
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Where to store; default by the key.")
@click.option("--priority", metavar="LANE", callback=_priority, help="critical, high, normal, low, background or 0-4.")
@click.option("--delay", metavar="SPAN", help="Wait so long, like 10s or 2h.")
@click.option("--deliver-at", metavar="TIME", help="Wait until then, like 2030-01-31T12:00:00Z.")
@click.option("--every", metavar="SPAN", help="Again and again, so often, like 15m; at least 100ms.")
@click.option("--cron", metavar="CRON", help="Again and again, by a crontab's five fields, like '0 3 * * *'.")
@click.option("--timezone", metavar="ZONE", help="Of --cron, like Europe/Berlin; default UTC.")
@click.option("--times", type=click.IntRange(1), metavar="N", help="At most so many of --every or --cron.")
@click.option("--ttl", metavar="SPAN", help="Not to be consumed after so long, like 1h.")
@click.option(
    "--acks",
    type=click.Choice(["none", "leader", "all"]),
    default="all",
    show_default=True,
    help="Who has the message when it counts as stored.",
)
@click.option(
    "-o", "--output", type=click.Choice(["none", "json"]), default="none", help="json: a line for each place."
)
@server_option
def produce(
    topic: str,
    value: str | None,
    file: Path | None,
    key: str | None,
    key_separator: str | None,
    tombstone: bool,
    headers: list[tuple[str, str]],
    partition: int | None,
    priority: int | None,
    delay: str | None,
    deliver_at: str | None,
    ttl: str | None,
    acks: Acks,
    output: str,
    server: str,
    **repeats: Unpack[RepeatOptions],
) -> None:
    """Publish messages.

    VALUE is one message. Without it, or with -, each line of stdin is a message; with --file, each line of the file.
    An empty line is a message with an empty value.
    """
    _check_sources(value, file, tombstone)
    waits = MessageFields(delay=delay, deliver_at=deliver_at, ttl=ttl, repeat=_repeat(repeats))
    fields = MessageFields(key=key, headers=headers, partition=partition, priority=priority, **waits)
    as_json = output == "json"
    if tombstone or (value is not None and value != "-"):
        _check_single(key, key_separator, tombstone)
        _produce_one(server, topic, None if tombstone else value, acks, fields, as_json)
        return
    if key is not None and key_separator is not None:
        raise click.UsageError("Give --key or --key-separator, not both.")
    with _opened(file) as stream, connect(server) as client:
        client.version()  # An absent broker is better found before any input is read.
        separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()
        _produce_lines(CliSender(client, topic, acks, fields, as_json), stream, separator, _size_of(file))


class RepeatOptions(TypedDict):
    """Of a message that comes again and again."""

    every: str | None
    cron: str | None
    timezone: str | None
    times: int | None


def _repeat(options: RepeatOptions) -> Repeat | None:
    if options["every"] is not None and options["cron"] is not None:
        raise click.UsageError("Give --every or --cron, not both.")
    if options["timezone"] is not None and options["cron"] is None:
        raise click.UsageError("--timezone goes with --cron.")
    if options["every"] is None and options["cron"] is None:
        if options["times"] is not None:
            raise click.UsageError("--times goes with --every or --cron.")
        return None
    return {name: value for name, value in options.items() if isinstance(value, str | int)}


def _check_sources(value: str | None, file: Path | None, tombstone: bool) -> None:
    if (value is not None) + (file is not None) + tombstone > 1:
        raise click.UsageError("Give VALUE, --file or --tombstone; only one of them.")
    if value is None and file is None and not tombstone and _is_typed():
        raise click.UsageError("Nothing to send; give VALUE, --file, or - to type lines.")


def _is_typed() -> bool:
    return sys.stdin.isatty()


def _progress(size: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """While input is read; who types it needs none."""
    if size is None and _is_typed():
        return nullcontext(lambda done: None)
    return progress_bar("sending", size, "bytes")


def _check_single(key: str | None, key_separator: str | None, tombstone: bool) -> None:
    if key_separator is not None:
        raise click.UsageError("--key-separator is for lines; use --key for one message.")
    if tombstone and key is None:
        raise click.UsageError("A tombstone needs --key: it deletes that key.")


def _produce_one(server: str, topic: str, value: str | None, acks: Acks, fields: MessageFields, as_json: bool) -> None:
    # Bytes that the shell passed and that are no text are in the argument as surrogates.
    raw = None if value is None else value.encode("utf-8", "surrogateescape")
    with connect(server) as client:
        placed = client.publish(topic, raw, acks=acks, **fields)
    if as_json:
        print_json_line(placed)
    if isinstance(placed, Scheduled):
        remark(
            f"Scheduled 1 message for {topic!r} at {placed.deliver_at}; cancel it with "
            f"`goqueue delayed cancel {topic} {placed.partition} {placed.scheduled}`."
        )
    else:
        remark(f"Stored 1 message in {topic!r}, partition {placed.partition}, offset {placed.offset}.")


def _produce_lines(sending: CliSender, stream: BinaryIO, separator: bytes | None, size: int | None) -> None:
    # The producer logs what fails; here each failure is told by its line.
    logging.getLogger("goqueue.client").addHandler(logging.NullHandler())
    try:
        with sending, _progress(size) as show_progress:
            done = 0
            for line in stream:
                sending.send(line.removesuffix(b"\n"), separator)
                done += len(line)
                show_progress(done)
    except GoQueueClientError:
        remark(f"Stored {counted(sending.stored, 'message')} in {sending.topic!r} before it failed.")
        raise
    if sending.refused:
        message = f"Stored {sending.stored:,} of {counted(sending.stored + sending.refused, 'message')}"
        raise Failed(f"{message} in {sending.topic!r}; {sending.refused:,} refused.")
    remark(f"Stored {counted(sending.stored, 'message')} in {sending.topic!r}.")


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    with file.open("rb") as stream:
        yield stream


def _size_of(file: Path | None) -> int | None:
    return None if file is None else file.stat().st_size
