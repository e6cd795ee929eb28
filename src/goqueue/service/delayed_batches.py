"""Encoded batches whose records ask for a delay in their headers, as Kafka's producers send them.

Such records are taken out and wait in the schedule; the batch keeps its offsets, producer and sequence, with gaps as
compaction leaves them, even if nothing is left in it. Batches without such headers are never decoded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.delays import asked_due
from goqueue.base.errors import InvalidBatch, InvalidField
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import DELAYED_PER_BATCH_MAX
from goqueue.core.schedule.records import OriginBatch, ScheduleEntry
from goqueue.format.batch import CODEC_MASK, BatchHeader, Buffer, assemble
from goqueue.format.compression import compress
from goqueue.format.records import Record, raw_records

NEEDLE: Final = b"goqueue-de"  # what both headers begin with


class Parted(msgspec.Struct, frozen=True):
    """The entries that wait, and the batch without them."""

    entries: list[ScheduleEntry]
    rest: bytes


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A record that asks for a delay, and when it is due."""

    record: Record
    due_ms: Millis


class Delays:
    """The records of one batch that wait."""

    def __init__(self, now: Millis) -> None:
        self.found: list[Waiting] = []
        self._now = now
        self._rest = b""

    def take(self, record: Record, header: BatchHeader) -> None:
        """Looks at one; `InvalidBatch` if it cannot have what it asks for."""
        try:
            due = asked_due(record.headers, self._now)
        except InvalidField as error:
            raise InvalidBatch(error.message, field=error.field) from None
        if due is None or due <= self._now:
            return
        if header.is_transactional:
            raise InvalidBatch("A message with a delay cannot be part of a transaction.")
        if len(self.found) >= DELAYED_PER_BATCH_MAX:
            raise InvalidBatch(f"More than {DELAYED_PER_BATCH_MAX} messages of a batch ask for a delay; send fewer.")
        self.found.append(Waiting(record, due))

    def take_out(self, batch: Buffer, header: BatchHeader, body: Buffer) -> None:
        """Makes the batch without them."""
        taken = {one.record.offset - header.base_offset for one in self.found}
        view = memoryview(body)
        walk = raw_records(body, header.record_count)
        kept = [view[one.start : one.end] for one in walk if one.offset_delta not in taken]
        left: Buffer = b"".join(kept)
        attributes = header.attributes
        if not kept:
            attributes &= ~CODEC_MASK
        elif header.codec:
            left = compress(header.codec, left)
        self._rest = assemble(msgspec.structs.replace(header, record_count=len(kept), attributes=attributes), left)

    def parted(self, header: BatchHeader, topic_id: str, partition: int, at: Offset) -> Parted:
        """`at` is the offset that the batch will have."""
        origin = None
        if header.producer_id >= 0:
            origin = OriginBatch(at, header.producer_id, header.producer_epoch, header.base_sequence)
        return Parted([self._entry(one, topic_id, partition, origin) for one in self.found], self._rest)

    def _entry(self, one: Waiting, topic_id: str, partition: int, origin: OriginBatch | None) -> ScheduleEntry:
        fields = (one.record.key, one.record.value, one.record.headers)
        return ScheduleEntry(topic_id, partition, one.due_ms, *fields, accepted_ms=self._now, origin=origin)
