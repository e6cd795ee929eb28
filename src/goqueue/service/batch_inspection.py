"""What a publish has to know of an encoded batch's records: that all have keys, which wait, that all can be read.

Most batches are only searched for a few bytes, and many not at all. A batch that is large is not looked at on the loop:
`TooMuchHere` asks the door to wait for `Publish.look` and to come again with what that found.
"""

from __future__ import annotations

import msgspec

from goqueue.base.commands import PublishBatch
from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import RECORD_FAILURES_MAX
from goqueue.base.topic_config import TopicConfig
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.format.records import payload
from goqueue.format.search import has
from goqueue.format.slices import light_body, read, slices
from goqueue.service.delayed_batches import NEEDLE, Delays
from goqueue.service.hooks import SchemaCheck, TooMuchHere
from goqueue.service.record_checks import keyless

_HERE_RECORDS = 5_000  # decoded on the loop


class InspectionWish(msgspec.Struct, frozen=True):
    """What the topic's settings ask to know."""

    keys: bool = False
    everything: bool = False
    delays: bool = False
    schema: bool = False

    @property
    def decodes(self) -> bool:
        return self.keys or self.everything or self.schema


class Inspection(msgspec.Struct, frozen=True):
    """What was found, and what was looked for."""

    wanted: InspectionWish
    delays: Delays | None = None


NOTHING = InspectionWish()
SAW_NOTHING = Inspection(NOTHING)


def asks_for_nothing(config: TopicConfig, command: PublishBatch) -> bool:
    """Whether a batch that is not compressed can be stored as it is: what most are, told at the least cost."""
    if config.records_check != "header" or config.compacts or config.validates:
        return False
    return command.is_copy or config.queue_delay_headers != "true" or not has(command.batch, NEEDLE)


def wanted_of(topic: Topic, is_copy: bool, has_schemas: bool) -> InspectionWish:
    config = topic.config
    delays = config.queue_delay_headers == "true" and not is_copy
    schema = has_schemas and config.validates and not is_copy
    everything = config.records_check == "full" and not is_copy
    if not (delays or schema or everything or config.compacts):
        return NOTHING
    return InspectionWish(config.compacts, everything, delays, schema)


class InspectedBatch(msgspec.Struct, frozen=True):
    """A batch on its way into a partition, and what is to be known of it."""

    topic: Topic
    at: TopicPartition
    wanted: InspectionWish
    batch: Buffer
    header: BatchHeader
    now: Millis


def look_here(asked: InspectedBatch, schema: SchemaCheck | None) -> Inspection:
    """On the loop; `TooMuchHere` if that would hold up others."""
    wanted, batch, header = asked.wanted, asked.batch, asked.header
    if not wanted.decodes and not header.codec and not has(batch, NEEDLE):
        return Inspection(wanted)
    try:
        body = light_body(batch, header, _HERE_RECORDS if wanted.decodes else header.record_count)
    except CorruptBatch:
        if wanted.decodes:
            raise
        return Inspection(wanted)  # whoever reads it passes over it
    if body is None or (header.record_count > _HERE_RECORDS and has(body, NEEDLE)):
        raise TooMuchHere
    return look(asked, schema, body)


def look(asked: InspectedBatch, schema: SchemaCheck | None, body: Buffer | None = None) -> Inspection:
    """Off the loop, or of a small batch. Raises what the publish is refused with."""
    wanted, batch, header = asked.wanted, asked.batch, asked.header
    is_here = body is not None
    try:
        body = payload(batch, header) if body is None else body
    except CorruptBatch:
        if wanted.decodes:
            raise
        return Inspection(wanted)
    if wanted.schema and schema is not None:
        schema.batch(asked.topic, header, batch, is_here)
    delays = Delays(asked.now) if wanted.delays and has(body, NEEDLE) else None
    if wanted.keys or wanted.everything or delays is not None:
        _look_at_records(asked, body, delays)
    if delays is None or not delays.found:
        return Inspection(wanted)
    delays.take_out(batch, header, body)
    return Inspection(wanted, delays)


def _look_at_records(asked: InspectedBatch, body: Buffer, delays: Delays | None) -> None:
    wanted, header = asked.wanted, asked.header
    lacking: list[int] = []
    place = 0
    for one in slices(asked.batch, header, 0, body):
        if wanted.keys or wanted.everything or has(one.batch, NEEDLE):
            records = read(one)
            if wanted.keys and len(lacking) < RECORD_FAILURES_MAX:
                lacking += [at for at, record in enumerate(records, place) if record.key is None]
            for record in records if delays is not None else ():
                if record.headers and delays is not None:
                    delays.take(record, header)
        place += one.count
    if lacking:
        raise keyless(asked.at, lacking)
