"""The record batch, version 2, read and stamped in place.

Layout (big-endian): base offset 8, batch length 4, leader epoch 4, magic 1, CRC-32C 4, attributes 2, last offset
delta 4, base timestamp 8, max timestamp 8, producer id 8, producer epoch 2, base sequence 4, record count 4, records.
The CRC covers everything from the attributes on, so base offset and leader epoch are stamped without touching it.
The produce and fetch paths use this module only; no record is ever decoded here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
from crc32c import crc32c

from goqueue.base.errors import CorruptBatch, InvalidBatch
from goqueue.base.ids import Epoch, Millis, Offset, Position
from goqueue.base.limits import BATCH_BYTES_MAX, RECORD_BYTES_MIN, RECORDS_PER_BATCH_MAX

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
PREFIX_BYTES: Final = 12  # base offset and length: what the length does not count
MAGIC: Final = 2
_CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
_MAGIC_AT: Final = 16

NO_PRODUCER_ID: Final = -1
SCHEDULE_PRODUCER_ID: Final = (
    -2
)  # below -1: the broker wrote it; readers take it for no producer, clients cannot use it

CODEC_MASK: Final = 0x07
CODEC_MAX: Final = 4  # zstd
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_HEAD: Final = struct.Struct(">qii1xI2xi")  # base offset, length, leader epoch, CRC, last offset delta
_STRIDE: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fixed part of a batch, in wire order."""

    base_offset: Offset
    length: int
    leader_epoch: Epoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Millis
    max_timestamp: Millis
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return PREFIX_BYTES + self.length

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def uses_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_BIT)


def read_header(buffer: Buffer, at: Position = 0) -> BatchHeader:
    """Reads the header at a position; `CorruptBatch` if it cannot be one. The CRC is not looked at."""
    if len(buffer) - at < HEADER_BYTES:
        raise CorruptBatch(f"A record batch has a header of {HEADER_BYTES} bytes; {len(buffer) - at} are there.")
    header = BatchHeader(*_HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise CorruptBatch(f"Record batch magic {header.magic} is not supported; send version {MAGIC} batches.")
    if not HEADER_BYTES - PREFIX_BYTES <= header.length <= BATCH_BYTES_MAX:
        raise CorruptBatch(f"A record batch cannot be {header.length} bytes long.")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatch("A record batch counts a negative number of records.")
    return header


def verify(buffer: Buffer, header: BatchHeader, at: Position = 0) -> None:
    """Checks that the batch is whole and its CRC right."""
    end = at + header.size
    if len(buffer) < end:
        raise CorruptBatch(f"The record batch says {header.size} bytes; {len(buffer) - at} are there.")
    if crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : end]) != header.crc:
        raise CorruptBatch("The record batch's CRC-32C does not match its bytes; it was damaged on its way.")


def verified_header(batch: Buffer) -> BatchHeader:
    """The header of a buffer that holds exactly one sound, producible batch."""
    if not len(batch):
        raise InvalidBatch("Expected one record batch; got none.")
    header = read_header(batch)
    verify(batch, header)
    if header.size != len(batch):
        raise InvalidBatch(f"Expected one record batch of {header.size} bytes; got {len(batch)} bytes.")
    if header.record_count == 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            f"The record batch counts {header.record_count} records but its last offset delta is "
            f"{header.last_offset_delta}."
        )
    check_claims(header)
    return header


def check_claims(header: BatchHeader) -> None:
    """`InvalidBatch` if no reader could make records of it, by what the header alone says."""
    if header.codec > CODEC_MAX:
        raise InvalidBatch(f"Compression codec {header.codec} is unknown; use gzip, snappy, lz4 or zstd.")
    if header.record_count > RECORDS_PER_BATCH_MAX:
        raise InvalidBatch(
            f"The record batch counts {header.record_count} records; send at most {RECORDS_PER_BATCH_MAX} in one."
        )
    if not header.codec and header.record_count * RECORD_BYTES_MIN > header.size - HEADER_BYTES:
        raise InvalidBatch(
            f"The record batch counts {header.record_count} records but has {header.size - HEADER_BYTES} bytes of them."
        )


def stamp(batch: Buffer, base_offset: Offset, epoch: Epoch) -> list[Buffer]:
    """The batch with its place in the log, as buffers to write in one go; the records are not copied."""
    view = memoryview(batch)
    length = len(view) - PREFIX_BYTES
    return [_STAMP.pack(base_offset, length, epoch), view[_STAMP.size :]]


def stamp_with_time(
    batch: Buffer, header: BatchHeader, base_offset: Offset, epoch: Epoch, now: Millis
) -> tuple[list[Buffer], BatchHeader]:
    """The same with the broker's time as the messages' time; costs a new CRC, still no decoding."""
    attributes = header.attributes | APPEND_TIME_BIT
    stamped = msgspec.structs.replace(
        header, base_offset=base_offset, leader_epoch=epoch, attributes=attributes, max_timestamp=now
    )
    body = memoryview(batch)[HEADER_BYTES:]
    crc = crc32c(body, crc32c(_pack_after_crc(stamped)))
    stamped = msgspec.structs.replace(stamped, crc=crc)
    return [pack_header(stamped), body], stamped


def assemble(header: BatchHeader, records: Buffer) -> bytes:
    """A batch of a header's facts and encoded records; length and CRC are computed."""
    header = msgspec.structs.replace(header, length=HEADER_BYTES - PREFIX_BYTES + len(records))
    after = _pack_after_crc(header)
    crc = crc32c(records, crc32c(after))
    return pack_header(msgspec.structs.replace(header, crc=crc)) + records


def pack_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*msgspec.structs.astuple(header))


def _pack_after_crc(header: BatchHeader) -> bytes:
    return _AFTER_CRC.pack(*msgspec.structs.astuple(header)[5:])


def head(buffer: Buffer, at: Position) -> tuple[Offset, int, Epoch, int, int]:
    """(base offset, size, leader epoch, CRC, last offset delta) of the header at a position, and nothing checked."""
    base_offset, length, epoch, crc, delta = _HEAD.unpack_from(buffer, at)
    return base_offset, length + PREFIX_BYTES, epoch, crc, delta


def is_whole(buffer: Buffer, at: Position, size: int, crc: int) -> bool:
    """Whether a batch of that size and CRC stands there."""
    if size < HEADER_BYTES or len(buffer) - at < size:
        return False
    return bool(crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : at + size]) == crc)


def strides(buffer: Buffer, start: Position = 0) -> Iterator[tuple[Position, Position, Offset, Offset]]:
    """Walks whole batches by their lengths: (position, end, base offset, last offset). Stops at a cut batch."""
    size = len(buffer)
    at = start
    while size - at >= HEADER_BYTES:
        base_offset, length, delta = _STRIDE.unpack_from(buffer, at)
        end = at + PREFIX_BYTES + length
        if length < HEADER_BYTES - PREFIX_BYTES or end > size:
            return
        yield at, end, base_offset, base_offset + delta
        at = end


def split(buffer: Buffer) -> Iterator[memoryview]:
    """The whole batches of a fetch, as views."""
    view = memoryview(buffer)
    for at, end, _, _ in strides(buffer):
        yield view[at:end]
