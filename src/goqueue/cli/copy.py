"""`goqueue copy`: messages from a topic, a Kafka broker, a queue of RabbitMQ or a file to another, with everything they
have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Unpack

import click

from goqueue.cli.connecting import connect, connect_to_context
from goqueue.cli.copy_parts import CopyNote, CopyPlace, CopySink, CopySource, parse_place
from goqueue.cli.decoding import ValueDecoder
from goqueue.cli.failures import Misused
from goqueue.cli.filters import FilterOptions, filter_options, is_filtered, message_filter
from goqueue.cli.kafka_config import kafka_options
from goqueue.cli.live_names import TOPIC
from goqueue.cli.options import server_option
from goqueue.cli.progress import progress_bar
from goqueue.cli.show import counted, remark
from goqueue.client import Client, Message


def _place(ctx: click.Context, param: click.Parameter, given: str) -> CopyPlace:
    return parse_place(given)


def _name(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", given):
        raise click.BadParameter(f"{given!r} is no name; use up to 100 letters, digits, dots, dashes.", ctx, param)
    return given


@click.command()
@click.argument("source", type=TOPIC, callback=_place)
@click.argument("target", type=TOPIC, callback=_place)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many messages.")
@click.option("--keep-partitions", is_flag=True, help="Each to the partition of its number; default by the key.")
@click.option("--create", is_flag=True, help="Create the target's topic, if it is not there.")
@click.option("--resume", callback=_name, metavar="NAME", help="Go on where a copy of this name ended, or begin it.")
@click.option("--source-config", type=click.Path(dir_okay=False), metavar="FILE", help="Of Kafka and RabbitMQ: login.")
@click.option("--target-config", type=click.Path(dir_okay=False), metavar="FILE", help="Of a Kafka target: its client.")
@filter_options
@server_option
def copy(
    source: CopyPlace,
    target: CopyPlace,
    limit: int | None,
    keep_partitions: bool,
    create: bool,
    resume: str | None,
    source_config: str | None,
    target_config: str | None,
    server: str,
    **filters: Unpack[FilterOptions],
) -> None:
    """Copy messages with keys, headers, times and priorities.

    SOURCE and TARGET are TOPIC, context://NAME/TOPIC, http://HOST:PORT/TOPIC, kafka://HOST:PORT/TOPIC, file:PATH with
    a JSON object a line, or - for standard input and output. What is there when it begins is copied, once. With
    --resume a copy that was interrupted goes on and copies nothing twice. How Kafka is logged in to, and by which
    certificates, is in files of NAME=VALUE as Kafka's own tools have them.

    SOURCE may also be amqp://HOST:PORT/QUEUE, or amqps://, a queue of RabbitMQ. It is emptied: a message is
    acknowledged there when the target has it. If that breaks, some messages may be copied twice, and none is lost.
    """
    for place, config in ((source, source_config), (target, target_config)):
        if config is not None and place.kind not in ("kafka", "amqp"):
            raise Misused(
                "A file of settings is for kafka:// and amqp:// alone; a broker of ours has a context, with key and CA."
            )
    if "amqp" in (source.kind, target.kind):
        _check_amqp(source, target, resume is not None or keep_partitions or is_filtered(filters))
    if source == target:
        raise Misused("Source and target are the same; a topic would be copied into itself.")
    if limit is not None and resume is not None:
        raise Misused("--limit ends in the middle of a batch, where --resume cannot go on; give one of them.")
    with closing(_source(source, server, source_config, limit)) as reading:
        if create:
            _create(source, target, server)
        sink = _sink(target, server, resume, keep_partitions, target_config, source.kind == "amqp")
        with closing(sink) as writing, _client(source, server) as client:
            goes_on = resume is not None or source.kind == "amqp"
            copying = Copying(reading, writing, f"{source.kind}:{source.at}/{source.name}", resume, goes_on)
            copying.run(limit, message_filter(filters, ValueDecoder(client)))


class Copying:
    """One run."""

    def __init__(self, source: CopySource, sink: CopySink, label: str, name: str | None, goes_on: bool) -> None:
        self._source = source
        self._sink = sink
        self._label = label
        self._name = name
        self._goes_on = goes_on

    def run(self, limit: int | None, wanted: Callable[[Message], bool]) -> None:
        begin = self._sink.note() or CopyNote(self._label, "", 0)
        if begin.source != self._label:
            raise Misused(f"The copy {self._name!r} is of {begin.source}, not of {self._label}; choose another name.")
        if begin.position:
            remark(f"Going on behind {counted(begin.copied, 'message')}, copied before.")
        try:
            end = self._copy(begin, limit, wanted)
        except KeyboardInterrupt:
            hint = "the same command goes on" if self._goes_on else "with --resume NAME it could go on"
            remark(f"Interrupted; {hint}.")
            raise click.exceptions.Exit(130) from None
        remark(f"Copied {counted(end.copied - begin.copied, 'message')}.")

    def _copy(self, note: CopyNote, limit: int | None, wanted: Callable[[Message], bool]) -> CopyNote:
        position, left, seen = note.position or None, limit, 0
        with progress_bar("copying", self._source.total(position)) as show:
            for batch in self._source.batches(position):
                chosen = [one for one in batch.messages if wanted(one)][:left]
                note = CopyNote(self._label, batch.position, note.copied + len(chosen))
                self._sink.write(chosen, note)
                self._source.acknowledge(len(chosen))
                seen += len(batch.messages)
                show(seen)
                left = None if left is None else left - len(chosen)
                if left == 0:
                    break
        return note


def _check_amqp(source: CopyPlace, target: CopyPlace, is_more_asked: bool) -> None:
    if target.kind == "amqp":
        raise Misused("Messages are copied from RabbitMQ, not to it.")
    if target.kind not in ("topic", "context", "url"):
        raise Misused("What is taken out of RabbitMQ goes to a topic of GoQueue; copy from there to other places.")
    if is_more_asked:
        raise Misused(
            "A queue of RabbitMQ is emptied as a whole: --resume, --keep-partitions, --key, --header and --where are "
            "for other sources. The same command goes on where one ended."
        )


# --- places -------------------------------------------------------------------------------------------


def _client(place: CopyPlace, server: str) -> Client:
    """The broker that is meant; the current one where the place is none."""
    if place.kind == "context":
        return connect_to_context(place.at)
    return connect(place.at if place.kind == "url" else server)


def _source(place: CopyPlace, server: str, config: str | None, limit: int | None) -> CopySource:
    if place.kind == "file":
        from goqueue.cli.copy_file import FileSource

        return FileSource(place.name)
    if place.kind == "kafka":
        from goqueue.cli.copy_kafka import KafkaSource

        return KafkaSource(place.at, place.name, kafka_options(config))
    if place.kind == "amqp":
        from goqueue.cli.copy_rabbitmq import RabbitSource

        return RabbitSource(place, config, limit)
    from goqueue.cli.copy_broker import BrokerSource

    client = _client(place, server)
    with _closed_if_it_fails(client):
        return BrokerSource(client, place.name)


def _sink(
    place: CopyPlace, server: str, name: str | None, keep_partitions: bool, config: str | None, may_repeat: bool
) -> CopySink:
    """`may_repeat`: the source may give a message twice."""
    if place.kind == "file":
        from goqueue.cli.copy_file import FileSink

        return FileSink(place.name, name)
    if place.kind == "kafka":
        from goqueue.cli.copy_kafka import KafkaSink

        return KafkaSink(place.at, place.name, name, keep_partitions, kafka_options(config))
    from goqueue.cli.copy_broker import BrokerSink

    client = _client(place, server)
    with _closed_if_it_fails(client):
        found = client.topic(place.name)  # better now than after something was read
        if may_repeat:
            from goqueue.cli.copy_fifo import FifoSink, is_fifo

            if is_fifo(found):
                return FifoSink(client, place.name)
        return BrokerSink(client, place.name, name, keep_partitions)


@contextmanager
def _closed_if_it_fails(client: Client) -> Iterator[None]:
    try:
        yield
    except BaseException:
        client.close()
        raise


def _create(source: CopyPlace, target: CopyPlace, server: str) -> None:
    """With as many partitions as the source has, where that is a broker's topic."""
    if target.kind in ("file", "kafka"):
        raise Misused("--create makes topics of GoQueue; make this one first.")
    partitions = None
    if source.kind not in ("file", "kafka", "amqp"):
        with _client(source, server) as client:
            partitions = client.topic(source.name).num_partitions
    with _client(target, server) as client:
        client.create_topic(target.name, partitions, exist_ok=True)
