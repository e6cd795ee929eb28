"""The records of a batch, a slice at a time: somebody else filled it, and nobody knows how much is in it.

A few kilobytes can unfold to millions of records. So a batch is unfolded up to a limit and cut by its records' own
lengths into slices; each is decoded by itself, when it is wanted, in a few milliseconds. What cannot be read is a slice
too, with the reason: a reader says so and goes on behind it. Slices tile the batch's offsets, and are the same for
every reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from goqueue.base.errors import CorruptBatch, InvalidBatch
from goqueue.base.ids import Offset
from goqueue.base.limits import (
    DECODE_HERE_BYTES,
    DECODE_HERE_RECORDS,
    DECODE_SLICE_BYTES,
    DECODE_SLICE_RECORDS,
    HEADERS_PER_RECORD_MAX,
)
from goqueue.format.batch import HEADER_BYTES, PREFIX_BYTES, BatchHeader, Buffer, check_claims
from goqueue.format.compression import decompress_within
from goqueue.format.records import Record, decode, in_the_open, payload, varint


class RecordSlice(msgspec.Struct, frozen=True, gc=False):
    """Offsets from `first` to `last`, and at most `count` records of them, as a batch of their own.

    With `problem` the records cannot be read, and `batch` is empty.
    """

    first: Offset
    last: Offset
    count: int
    batch: bytes = b""
    problem: str = ""

    @property
    def size(self) -> int:
        return len(self.batch)


def light_body(batch: Buffer, header: BatchHeader, records_max: int = DECODE_HERE_RECORDS) -> Buffer | None:
    """The batch's records, unfolded, if little enough is in it to go through it on the loop; None if not."""
    if header.record_count > records_max:
        return None
    body = memoryview(batch)[HEADER_BYTES : header.size]
    if not header.codec:
        return body
    return decompress_within(header.codec, body, DECODE_HERE_BYTES) if len(body) <= DECODE_HERE_BYTES else None


def slices(batch: Buffer, header: BatchHeader, begin: Offset = 0, body: Buffer | None = None) -> Iterator[RecordSlice]:
    """From the one that holds the offset on. `body` is the unfolded payload, if it is known."""
    try:
        check_claims(header)
        body = payload(batch, header) if body is None else body
    except (CorruptBatch, InvalidBatch) as error:
        yield RecordSlice(header.base_offset, header.last_offset, 0, problem=error.message)
        return
    if header.record_count <= DECODE_SLICE_RECORDS and len(body) <= DECODE_SLICE_BYTES:
        yield _whole(batch, header, body)
        return
    for one in _cut(memoryview(body), header, begin):
        if one.last >= begin:
            yield one


def read(one: RecordSlice) -> list[Record]:
    """The slice's records; `CorruptBatch` if they are not what the batch promises."""
    if one.problem:
        raise CorruptBatch(one.problem)
    if not one.count:
        return []
    records = decode(one.batch)
    if records and not one.first <= records[0].offset <= records[-1].offset <= one.last:
        raise CorruptBatch(f"The records' offsets do not go up from {one.first} to {one.last}.")
    return records


def readable(found: Iterable[RecordSlice]) -> Iterator[Record]:
    """The records of those slices that can be read, for who has nobody to tell of the others."""
    for one in found:
        with suppress(CorruptBatch):
            yield from read(one)


def _whole(batch: Buffer, header: BatchHeader, body: Buffer) -> RecordSlice:
    plain = in_the_open(header, body) if header.codec else bytes(memoryview(batch)[: header.size])
    return RecordSlice(header.base_offset, header.last_offset, header.record_count, plain)


def _cut(body: memoryview, header: BatchHeader, begin: Offset) -> Iterator[RecordSlice]:
    """Walks the records' lengths. The last slice has to end where the payload ends."""
    first, start, left = header.base_offset, 0, header.record_count
    walked: Buffer = bytes(body) if len(body) <= DECODE_HERE_BYTES else body  # looked into twice as fast
    try:
        while left:
            end, count = _slice_end(walked, start, left)
            left -= count
            is_last = not left
            if is_last and end != len(body):
                raise CorruptBatch("A batch holds other records than it counts.")
            next_first = header.last_offset + 1 if is_last else header.base_offset + _offset_delta(body, end)
            if not first < next_first <= header.last_offset + 1:
                raise CorruptBatch("The offsets of a batch's records do not go up.")
            if next_first > begin:
                yield _made(body[start:end], header, first, next_first - 1, count)
            first, start = next_first, end
        if not header.record_count and len(body):
            raise CorruptBatch("A batch holds other records than it counts.")
    except IndexError:
        yield RecordSlice(first, header.last_offset, 0, problem="A record ends in the middle of a number.")
    except CorruptBatch as error:
        yield RecordSlice(first, header.last_offset, 0, problem=error.message)


def _slice_end(body: Buffer, start: int, count_max: int) -> tuple[int, int]:
    """Where a slice that begins there ends, and how many records are in it: at least one."""
    at, count, size = start, 0, len(body)
    most = min(count_max, DECODE_SLICE_RECORDS)
    while count < most:
        length = body[at]
        if length < 0x80 and not length & 1:
            end = at + 1 + (length >> 1)
        elif not length & 1 and (high := body[at + 1]) < 0x80:
            end = at + 2 + (((length & 0x7F) | high << 7) >> 1)
        else:
            length, end = varint(body, at)
            end += length
        if end <= at + 1 or end > size:
            raise CorruptBatch("A record's length runs past its batch.")
        if count and end - start > DECODE_SLICE_BYTES:
            break
        at, count = end, count + 1
    return at, count


def _made(records: memoryview, header: BatchHeader, first: Offset, last: Offset, count: int) -> RecordSlice:
    """A single large record can have any number of headers; those of small ones are few by their size."""
    if len(records) > DECODE_SLICE_BYTES and _headers_of(records) > HEADERS_PER_RECORD_MAX:
        return RecordSlice(first, last, 0, problem=f"A record has more than {HEADERS_PER_RECORD_MAX} headers.")
    alone = msgspec.structs.replace(header, record_count=count, length=HEADER_BYTES - PREFIX_BYTES + len(records))
    return RecordSlice(first, last, count, in_the_open(alone, records))


def _offset_delta(body: memoryview, at: int) -> int:
    _, at = varint(body, at)
    _, at = varint(body, at + 1)
    return varint(body, at)[0]


def _headers_of(body: memoryview) -> int:
    """How many headers the first record says it has."""
    _, at = varint(body, 0)
    _, at = varint(body, at + 1)
    _, at = varint(body, at)
    for _ in ("key", "value"):
        size, at = varint(body, at)
        at += max(0, size)
    return varint(body, at)[0]
