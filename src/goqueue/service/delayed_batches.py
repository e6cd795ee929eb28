"""Encoded batches whose records ask for a delay in their headers, as Kafka's producers send them.

Such records are taken out and wait in the schedule; the batch keeps its offsets, producer and sequence, with gaps as
compaction leaves them, even if nothing is left in it. Batches without such headers are never decoded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.delays import asked_due
from goqueue.base.errors import CorruptBatch, InvalidBatch, InvalidField
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import MIB
from goqueue.core.schedule.records import Entry, Origin
from goqueue.format.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, Buffer, assemble
from goqueue.format.compression import compress, decompress
from goqueue.format.records import decode, payload, raw_records
from goqueue.format.search import has

_NEEDLE: Final = b"goqueue-de"  # what both headers begin with
_UNFOLDED_BYTES_MAX: Final = 32 * MIB


class Parted(msgspec.Struct, frozen=True):
    """The entries that wait, and the batch without them."""

    entries: list[Entry]
    rest: bytes


def may_ask_for_delay(batch: Buffer, header: BatchHeader) -> bool:
    """A look at the bytes alone. A payload that cannot be unfolded, or is huge then, asks for nothing."""
    if not header.codec:
        return has(batch, _NEEDLE)
    try:
        return has(decompress(header.codec, memoryview(batch)[HEADER_BYTES:], _UNFOLDED_BYTES_MAX), _NEEDLE)
    except CorruptBatch:
        return False


def part(batch: Buffer, header: BatchHeader, topic_id: str, partition: int, at: Offset, now: Millis) -> Parted | None:
    """Takes out the records that wait; None if there are none. `at` is the offset that the batch will have."""
    origin = None
    if header.producer_id >= 0:
        origin = Origin(at, header.producer_id, header.producer_epoch, header.base_sequence)
    entries: list[Entry] = []
    taken: set[int] = set()
    for record in decode(batch):
        try:
            due = asked_due(record.headers, now)
        except InvalidField as why:
            raise InvalidBatch(why.message, field=why.field) from None
        if due is not None and due > now:
            taken.add(record.offset - header.base_offset)
            fields = (record.key, record.value, record.headers)
            entries.append(Entry(topic_id, partition, due, *fields, accepted_ms=now, origin=origin))
    if not entries:
        return None
    if header.is_transactional:
        raise InvalidBatch("A message with a delay cannot be part of a transaction.")
    return Parted(entries, _without(batch, header, taken))


def _without(batch: Buffer, header: BatchHeader, taken: set[int]) -> bytes:
    body = memoryview(payload(batch, header))
    kept = [body[one.start : one.end] for one in raw_records(body) if one.offset_delta not in taken]
    left: Buffer = b"".join(kept)
    attributes = header.attributes
    if not kept:
        attributes &= ~CODEC_MASK
    elif header.codec:
        left = compress(header.codec, left)
    return assemble(msgspec.structs.replace(header, record_count=len(kept), attributes=attributes), left)
