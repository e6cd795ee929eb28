"""`goqueue consume`: what is in the log, or what a group has not done yet; up to the end or for ever."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Unpack

import click

from goqueue.cli.connecting import connect
from goqueue.cli.decoding import ValueDecoder
from goqueue.cli.failures import Failed
from goqueue.cli.filters import FilterOptions, filter_options, is_filtered, message_filter
from goqueue.cli.live_names import TOPIC
from goqueue.cli.options import server_option
from goqueue.cli.readable import ReadableForms, hex_form
from goqueue.cli.show import bytes_text, headers_text, remark, time_text
from goqueue.cli.taking import Form, GroupOptions, TakeOptions, answer_of, group_options
from goqueue.cli.whole_topic import whole_topic
from goqueue.client import Client, Message, Page
from goqueue.client.leases import encode_leased
from goqueue.client.member_calls import Begin
from goqueue.client.messages import encode_received

_PAGE: Final = 1_000


@click.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--from",
    "start",
    metavar="PLACE",
    help="earliest, latest, a time, or a cursor like 0:17,1:4; default earliest, with --follow latest.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition.")
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Begin here; needs --partition.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end; Ctrl-C stops it.")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Stop after so many messages.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["value", "json", "full", "pretty", "hex"]),
    default="value",
    help="value: one a line (default); json: objects as in REST; full: partition, offset, time, lane, key, headers, "
    "value, with tabs between; pretty: laid out, Avro and Protobuf by the registry; hex: bytes.",
)
@click.option("--decode", is_flag=True, help="With json: what the registry makes of a value, as `decoded`.")
@filter_options
@group_options
@server_option
def consume(
    topic: str,
    start: str | None,
    partition: int | None,
    offset: int | None,
    follow: bool,
    count: int | None,
    output: str,
    decode: bool,
    server: str,
    **options: Unpack[ConsumeOptions],
) -> None:
    """Read messages, or take them as a member of a group.

    Reading takes nothing away. Partitions are merged; within one, messages come in their order. Ends at the end of
    the log unless told to follow.

    With --group each message is taken under a lease, and the group is left at the end. Without --ack, --nack or
    --reject nothing is answered: the messages come again, and with --follow every lease that runs out counts as a
    failure. Ends when nothing came for a second unless told to follow.
    """
    answer = answer_of(options)
    if decode and output != "json":
        raise click.UsageError("--decode goes with --output json; --output pretty decodes by itself.")
    if options["group"] is not None:
        if is_filtered(options):
            raise click.UsageError("Filters are for reading; a group would take what is left out, too.")
        begin = _begin(start, partition, offset)
        mode, lease = options["mode"] or "shared", options["visibility_timeout"]
        taking = TakeOptions(options["group"], topic, mode, begin, lease, answer, count, follow)
        with suppress(KeyboardInterrupt):
            taking.run(server, lambda client: _leased_form(output, decode, client))
        return
    if offset is not None and (partition is None or start is not None):
        raise click.UsageError("--offset goes with --partition and without --from.")
    place = start or ("latest" if follow else "earliest")
    with connect(server) as client:
        if partition is not None:
            place = _cursor(client, topic, partition, place) if offset is None else f"{partition}:{offset}"
        limit = None if is_filtered(options) else count
        messages = (
            client.tail(topic, from_=place, partition=partition) if follow else _pages(client, topic, place, limit)
        )
        decoder = ValueDecoder(client)
        wanted = filter(message_filter(options, decoder), messages)
        try:
            _write(islice(wanted, count), _form(output, decode, decoder), flush=follow)
        except KeyboardInterrupt:
            return


def _begin(start: str | None, partition: int | None, offset: int | None) -> Begin:
    """Where a group without a position begins; everything else is the group's to know."""
    if partition is not None or offset is not None:
        raise click.UsageError("A group knows where it is; leave --partition and --offset out.")
    if start == "latest":
        return "latest"
    if start not in (None, "earliest"):
        raise click.UsageError("With --group, --from is earliest or latest: where a new group begins.")
    return "earliest"


def _pages(client: Client, topic: str, place: str, count: int | None) -> Iterator[Message]:
    """Everything up to where the log ended when the reading began."""
    ends = {one.partition: one.high_watermark for one in whole_topic(client, topic)}
    left = count
    while True:
        limit = _PAGE if left is None else min(left, _PAGE)
        page = client.read(topic, from_=place, limit=limit)
        for one in page.skipped:
            remark(str(one))
        yield from page
        left = None if left is None else left - len(page)
        if left == 0 or _is_at_end(page, ends) or (not page.messages and page.next == place):
            return
        place = page.next or place


def _is_at_end(page: Page, ends: dict[int, int]) -> bool:
    return all(offset >= ends.get(partition, 0) for partition, offset in page.next_offsets.items())


def _cursor(client: Client, topic: str, partition: int, place: str) -> str:
    """A place as the cursor of one partition."""
    found = {one.partition: one for one in whole_topic(client, topic)}
    if partition not in found:
        raise Failed(f"Topic {topic!r} has no partition {partition}; it has 0 to {len(found) - 1} (unknown-partition)")
    if place == "earliest":
        return f"{partition}:{found[partition].start_offset}"
    if place == "latest":
        return f"{partition}:{found[partition].high_watermark}"
    # The first message from that place on, of whatever partition, moved only its own partition.
    page = client.read(topic, from_=place, limit=1)
    offsets = page.next_offsets | {message.partition: message.offset for message in page}
    if partition not in offsets:
        raise click.UsageError(f"The cursor {place!r} has no partition {partition}.")
    return f"{partition}:{offsets[partition]}"


class ConsumeOptions(GroupOptions, FilterOptions):
    """Of a member, or of a reader."""


def _form(output: str, decode: bool, decoder: ValueDecoder) -> Callable[[Message], bytes]:
    readable = ReadableForms(decoder)
    if output == "pretty":
        return readable.pretty
    return readable.decoded_json if decode else _FORMS[output]


def _leased_form(output: str, decode: bool, client: Client) -> Form:
    if output == "json" and not decode:
        return encode_leased
    return _form(output, decode, ValueDecoder(client))


def _write(messages: Iterator[Message], form: Callable[[Message], bytes], flush: bool) -> None:
    out = sys.stdout.buffer
    for message in messages:
        out.write(form(message) + b"\n")
        if flush:
            out.flush()
    out.flush()


def _full(message: Message) -> bytes:
    parts = (
        str(message.partition),
        str(message.offset),
        time_text(message.timestamp),
        message.priority,
        bytes_text(message.key),
        headers_text(message.headers),
        bytes_text(message.value),
    )
    return "\t".join(parts).encode()


_FORMS: Final[dict[str, Callable[[Message], bytes]]] = {
    "value": lambda message: message.value or b"",
    "json": encode_received,
    "full": _full,
    "hex": hex_form,
}
