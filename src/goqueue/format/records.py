"""Records inside a batch: built for REST and its like, decoded on demand. Never on the Kafka produce or fetch path.

Building and decoding lean on aiokafka's compiled codec; `raw_records` walks the bytes by itself, because compaction
keeps surviving records to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import ge
from typing import Any, Final

import msgspec
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from goqueue.base.commands import Headers
from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import BATCH_BYTES_MAX, RECORDS_PER_BATCH_MAX
from goqueue.format.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    assemble,
    pack_header,
    read_header,
)
from goqueue.format.compression import compress, decompress

# Lengths, deltas, attributes and an empty header list take at most this much beside key and value.
RECORD_OVERHEAD_BYTES: Final = 27


class Record(msgspec.Struct, frozen=True, gc=False):
    """One decoded record."""

    offset: Offset
    timestamp_ms: Millis
    key: bytes | None
    value: bytes | None
    headers: Headers


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """One record to be encoded."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: Millis

    @property
    def size_max(self) -> int:
        """An upper bound of its encoded size."""
        size = RECORD_OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size += 10 + 4 * len(name) + len(value or b"")
        return size


class Sequenced(msgspec.Struct, frozen=True):
    """The producer of a batch, and the number of its first record in the partition."""

    producer_id: int
    epoch: int
    sequence: int


class InTransaction(Sequenced, frozen=True):
    """The same for a batch that is part of the producer's transaction."""


def build(
    records: Sequence[NewRecord],
    codec: int = 0,
    producer: Sequenced | None = None,
    producer_id: int = NO_PRODUCER_ID,
) -> bytes:
    """One batch of the records, base offset 0, compressed if that helps."""
    if producer is None:
        builder: Any = DefaultRecordBatchBuilder(2, 0, 0, producer_id, -1, -1, BATCH_BYTES_MAX)
    else:
        numbers = (producer.producer_id, producer.epoch, producer.sequence)
        in_transaction = int(isinstance(producer, InTransaction))
        builder = DefaultRecordBatchBuilder(2, 0, in_transaction, *numbers, BATCH_BYTES_MAX)
    append = builder.append
    for delta, record in enumerate(records):
        # The codec writes header keys and values straight through; it wants a list.
        append(delta, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    if codec == 0:
        return batch
    body = compress(codec, memoryview(batch)[HEADER_BYTES:])
    if HEADER_BYTES + len(body) >= len(batch):
        return batch
    header = read_header(batch)
    return assemble(msgspec.structs.replace(header, attributes=header.attributes | codec), body)


def payload(batch: Buffer, header: BatchHeader) -> Buffer:
    """The encoded records of one batch, unfolded."""
    body = memoryview(batch)[HEADER_BYTES : header.size]
    return decompress(header.codec, body) if header.codec else body


def decode(batch: Buffer) -> list[Record]:
    """All records of one batch; `CorruptBatch` if they are not what the header promises.

    It costs as much as there are: what somebody else sent is read in slices (`format/slices.py`).
    """
    header = read_header(batch)
    if header.codec:
        batch = in_the_open(header, payload(batch, header))
    try:
        reader: Any = DefaultRecordBatch(batch if isinstance(batch, bytes) else bytes(batch))
        records = [
            Record(one.offset, one.timestamp, one.key, one.value, tuple(headers) if (headers := one.headers) else ())
            for one in reader
        ]
    except (CorruptRecordException, UnicodeDecodeError, ValueError, IndexError, OverflowError) as error:
        raise CorruptBatch(f"The records of a batch cannot be read: {error}.") from None
    check_offsets(records, header.base_offset, header.last_offset)
    return records


def in_the_open(header: BatchHeader, body: Buffer) -> bytes:
    """The batch with its records as they are, not compressed; its CRC is not touched."""
    plain = msgspec.structs.replace(header, attributes=header.attributes & ~CODEC_MASK)
    return b"".join((pack_header(plain), body))


def check_offsets(records: Sequence[Record], first: Offset, last: Offset) -> None:
    """A reader's place in the log follows from these: they go up, within what the batch covers."""
    offsets = [record.offset for record in records]
    if not offsets:
        return
    is_dense = offsets == [*range(offsets[0], offsets[0] + len(offsets))]  # as nearly all are, told at C's speed
    goes_up = is_dense or not any(map(ge, offsets, islice(offsets, 1, None)))
    if offsets[0] < first or offsets[-1] > last or not goes_up:
        raise CorruptBatch(f"The records' offsets do not go up from {first} to {last}.")


class RawRecord(msgspec.Struct, frozen=True, gc=False):
    """A record's place in the unfolded payload, with what compaction asks about."""

    start: int
    end: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def raw_records(data: Buffer, count: int = RECORDS_PER_BATCH_MAX) -> Iterator[RawRecord]:
    """Walks records without decoding values or headers; `CorruptBatch` if there are more than the header counts."""
    view = memoryview(data)
    at, size = 0, len(view)
    try:
        while at < size:
            if (count := count - 1) < 0:
                raise CorruptBatch("A batch holds more records than it counts.")
            length, body = varint(view, at)
            end = body + length
            if length <= 0 or end > size:
                raise CorruptBatch("A record's length runs past its batch.")
            _, cursor = varint(view, body + 1)
            offset_delta, cursor = varint(view, cursor)
            key_size, cursor = varint(view, cursor)
            if cursor + key_size >= end:
                raise CorruptBatch("A record's key runs past its record.")
            key = None if key_size < 0 else bytes(view[cursor : cursor + key_size])
            value_size, _ = varint(view, cursor + max(0, key_size))
            yield RawRecord(at, end, offset_delta, key, value_size < 0)
            at = end
    except IndexError:
        raise CorruptBatch("A record ends in the middle of a number.") from None


def varint(view: Buffer, at: int) -> tuple[int, int]:
    """A zigzag varint and the place behind it."""
    result = shift = 0
    while True:
        byte = view[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
        if shift > 63:
            raise CorruptBatch("A record holds a number of more than ten bytes.")
