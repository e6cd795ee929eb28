"""Arrow rows to record batches: the small fields of all records are written side by side, Arrow joins them with the
keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.format.batch import MAGIC, TRANSACTIONAL_BIT, BatchHeader, Buffer, assemble
from goqueue.format.compression import compress
from goqueue.pipeline.arrow import varints
from goqueue.pipeline.arrow.binary import view_of
from goqueue.pipeline.arrow.memory import binary_array, nulls_of, numbers_of, scalar_of
from goqueue.pipeline.arrow.rows import Rows
from goqueue.pipeline.arrow.varints import Column, Ints

BATCH_BYTES: Final = 1_000_000  # of records; below the usual max.message.bytes
RECORDS_MAX: Final = 1_000_000  # of one batch
# Length, attributes, time and offset, the sizes of key and value, the number of headers: at most this much.
_OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_SEQUENCE_MAX: Final = 2**31 - 1  # 0 follows
_NOTHING: Final = scalar_of(b"", pa.binary())
_NO_HEADERS: Final = scalar_of(b"\0", pa.binary())


class BatchProducer(NamedTuple):
    """Who writes; everything is part of its transaction."""

    id: int
    epoch: int


class Encoded(NamedTuple):
    """One record batch, as `Produce` takes it."""

    batch: Buffer
    rows: int


def encode(
    rows: Rows, producer: BatchProducer, sequence: int, codec: int = 0, bytes_max: int = BATCH_BYTES
) -> Iterator[Encoded]:
    """The rows in order as batches of about so many bytes, numbered from `sequence` on. A larger row is alone."""
    for part in _parts(rows, bytes_max):
        yield Encoded(_batch(part, producer, sequence & _SEQUENCE_MAX, codec), len(part))
        sequence += len(part)


def sizes_of(rows: Rows) -> Ints:
    """An upper bound of each row's bytes in a batch."""
    sizes = _sizes(rows.values) + _OVERHEAD_BYTES
    if rows.keys is not None:
        sizes += _sizes(rows.keys)
    if rows.headers is not None:
        bounds, names, values = _flat(rows.headers)
        totals = np.concatenate([[0], np.cumsum(_sizes(names) + _sizes(values) + 10)])
        sizes += np.diff(totals[bounds])
    return sizes


def _sizes(values: pa.Array) -> Ints:
    found: Ints = np.diff(view_of(values)[0])
    return found


def _parts(rows: Rows, bytes_max: int) -> Iterator[Rows]:
    """As few parts as fit, all about equally large."""
    if not len(rows):
        return
    sizes = sizes_of(rows)
    totals = np.cumsum(sizes)
    total = int(totals[-1])
    share = min(bytes_max, -(-total // -(-total // bytes_max)) + int(sizes.max()))
    start = before = 0
    while start < len(rows):
        end = int(np.searchsorted(totals, before + share, side="right"))
        end = min(max(end, start + 1), start + RECORDS_MAX)
        yield rows.slice(start, end)
        start, before = end, int(totals[end - 1])


def _batch(rows: Rows, producer: BatchProducer, sequence: int, codec: int) -> bytes:
    records = _records(rows)
    if codec and len(packed := compress(codec, records)) < len(records):
        records = packed
    else:
        codec = 0
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | TRANSACTIONAL_BIT,
        last_offset_delta=len(rows) - 1,
        base_timestamp=int(rows.times[0]),
        max_timestamp=int(rows.times.max()),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        record_count=len(rows),
    )
    return assemble(header, records)


# --- records -------------------------------------------------------------------------------------------------


def _records(rows: Rows) -> Buffer:
    """The records one behind the other, in the memory of the array that Arrow made of their parts."""
    count = len(rows)
    key_sizes = _field_sizes(rows.keys) if rows.keys is not None else np.full(count, -1, np.int64)
    value_sizes = _field_sizes(rows.values)
    tails, tail_sizes = _tails(rows.headers, count)
    fields = [
        varints.write(np.zeros(count, np.int64)),  # attributes
        varints.write(rows.times - rows.times[0]),
        varints.write(np.arange(count)),
        varints.write(key_sizes),
    ]
    value_field = varints.write(value_sizes)
    lengths = tail_sizes + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    for field in (*fields, value_field):
        lengths += field.sizes
    fields.insert(0, varints.write(lengths))
    if rows.keys is None:
        parts = [_side_by_side([*fields, value_field]), rows.values, *tails]
    else:
        parts = [_side_by_side(fields), rows.keys, _side_by_side([value_field]), rows.values, *tails]
    return _data(_join(parts))


def _field_sizes(values: pa.Array) -> Ints:
    sizes = _sizes(values)
    if values.null_count:
        sizes[nulls_of(values)] = -1
    return sizes


def _side_by_side(columns: Sequence[Column]) -> pa.Array:
    """Some numbers of each record as one piece of bytes."""
    ends = np.cumsum(np.sum([column.sizes for column in columns], axis=0))
    return binary_array(np.concatenate([[0], ends]), varints.side_by_side(columns), pa.binary())


def _join(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement="")


def _data(joined: pa.Array) -> Buffer:
    bounds, _ = view_of(joined)
    return memoryview(joined.buffers()[2])[int(bounds[0]) : int(bounds[-1])]


def _tails(headers: pa.Array | None, count: int) -> tuple[list[pa.Array | pa.Scalar], Ints]:
    """What follows the values: the number of headers and the headers; and its sizes."""
    if headers is None:
        return [_NO_HEADERS], np.ones(count, np.int64)
    bounds, *both = _flat(headers)
    counts = varints.write(np.diff(bounds))
    pieces: list[pa.Array | pa.Scalar] = []
    for part in both:
        pieces += [_side_by_side([varints.write(_field_sizes(part))]), part]
    joined = _join(pieces)
    ends, data = view_of(joined)
    # The headers of a record lie one behind the other already.
    lists = ends[bounds]
    whole = binary_array(lists, data, pa.binary())
    return [_side_by_side([counts]), whole], counts.sizes + np.diff(lists)


def _flat(headers: pa.Array) -> tuple[Ints, pa.Array, pa.Array]:
    """Where each record's headers begin, and the names and values of all."""
    bounds = numbers_of(headers.offsets).astype(np.int64)
    pairs = headers.values[int(bounds[0]) : int(bounds[-1])]
    return bounds - bounds[0], pairs.field(0), pairs.field(1)
