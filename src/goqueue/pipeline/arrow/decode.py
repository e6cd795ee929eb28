"""Records to Arrow: the fields of all records of a group at once, and only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.base.errors import CorruptBatch
from goqueue.format.batch import Buffer, read_header
from goqueue.pipeline.arrow import varints
from goqueue.pipeline.arrow.binary import gather
from goqueue.pipeline.arrow.columns import HEADERS, METADATA, TYPES, arrow_schema
from goqueue.pipeline.arrow.headers import NO_HEADERS, HeaderTable, read_headers
from goqueue.pipeline.arrow.memory import array_of, bools_of, scalar_of
from goqueue.pipeline.arrow.metadata import METADATA_OF
from goqueue.pipeline.arrow.spots import RecordSpots, Spot, unfold
from goqueue.pipeline.arrow.varints import Bytes, Ints
from goqueue.pipeline.link.place import OffsetRange

_FOREVER: Final = 2**63 - 1
_MILLIS_MAX: Final = _FOREVER // 1000


class Fields(NamedTuple):
    """Where everything is in the records that are wanted."""

    data: Bytes
    offsets: Ints
    times_ms: Ints
    stamped: Ints  # 1: by the broker
    keys: Ints
    key_sizes: Ints
    values: Ints
    value_sizes: Ints
    ends: Ints

    def only(self, wanted: npt.NDArray[np.bool_]) -> Fields:
        return Fields(self.data, *(column[wanted] for column in self[1:]))


def decode(
    records: RecordSpots, wanted: OffsetRange, columns: Sequence[str], keys: pa.Array | None = None
) -> pa.RecordBatch:
    """The records with offsets in the range, and with one of the keys if any are given, as these columns.

    `CorruptBatch` if they make no sense.
    """
    fields = _fields(records)
    inside = (fields.offsets >= wanted.start) & (fields.offsets < wanted.end)
    if not inside.all():
        fields = fields.only(inside)
    if keys is not None:
        fields = fields.only(_have_key(fields, keys))
    headers = _headers(fields) if HEADERS in columns or any(name in METADATA for name in columns) else NO_HEADERS
    arrays = [_column(name, fields, headers, wanted) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def decode_all(buffer: Buffer, topic: str, partition: int, columns: Sequence[str]) -> pa.RecordBatch:
    """Every record of a buffer that holds one batch."""
    spot = Spot(read_header(buffer), 0)
    (records,) = unfold(buffer, [spot], _FOREVER)
    return decode(records, OffsetRange(topic, partition, 0, _FOREVER), columns)


# --- fields --------------------------------------------------------------------------------------------------


def _fields(records: RecordSpots) -> Fields:
    data = records.data
    lengths, at = varints.read(data, records.starts)
    ends = at + lengths
    deltas, at = varints.read(data, at + 1)  # behind the attributes, which mean nothing
    offset_deltas, at = varints.read(data, at)
    key_sizes, keys = varints.read(data, at)
    at = _behind(keys, key_sizes, ends)
    value_sizes, values = varints.read(data, at)
    _behind(values, value_sizes, ends)
    lasts = records.of_batch([header.last_offset_delta for header in records.batches])
    if (offset_deltas < 0).any() or (offset_deltas > lasts).any():
        raise CorruptBatch("A record claims an offset outside its batch.")
    stamped = records.of_batch([int(header.uses_append_time) for header in records.batches])
    times = records.of_batch([header.base_timestamp for header in records.batches]) + deltas
    if stamped.any():
        times = np.where(stamped, records.of_batch([header.max_timestamp for header in records.batches]), times)
    offsets = records.of_batch([header.base_offset for header in records.batches]) + offset_deltas
    return Fields(data, offsets, times, stamped, keys, key_sizes, values, value_sizes, ends)


def _behind(starts: Ints, sizes: Ints, ends: Ints) -> Ints:
    """The places behind fields of these sizes. Something has to follow each in its record."""
    present = np.maximum(sizes, 0)
    if (sizes < -1).any() or (present >= ends - starts).any():
        raise CorruptBatch("A field of a record runs past its record.")
    return starts + present


def _have_key(fields: Fields, keys: pa.Array) -> npt.NDArray[np.bool_]:
    found = gather(fields.data, fields.keys, fields.key_sizes)
    return bools_of(pc.is_in(found, value_set=keys))


def _headers(fields: Fields) -> HeaderTable:
    return read_headers(fields.data, fields.values + np.maximum(fields.value_sizes, 0), fields.ends)


# --- columns -------------------------------------------------------------------------------------------------


def _column(name: str, fields: Fields, headers: HeaderTable, wanted: OffsetRange) -> pa.Array:
    if name in METADATA_OF:
        return METADATA_OF[name](headers, fields.data, fields.values, fields.value_sizes)
    if name == HEADERS:
        return headers.lists()
    return _COLUMNS[name](fields, wanted)


def _timestamps(fields: Fields, wanted: OffsetRange) -> pa.Array:
    """Producers may send any number as a time; what is beyond the range of microseconds stays at its edge."""
    micros = np.clip(fields.times_ms, -_MILLIS_MAX, _MILLIS_MAX) * 1000
    return array_of(micros, TYPES["timestamp"])


_COLUMNS: Final[Mapping[str, Callable[[Fields, OffsetRange], pa.Array]]] = {
    "key": lambda fields, wanted: gather(fields.data, fields.keys, fields.key_sizes),
    "value": lambda fields, wanted: gather(fields.data, fields.values, fields.value_sizes),
    "topic": lambda fields, wanted: pa.repeat(scalar_of(wanted.topic.encode(), pa.string()), fields.offsets.size),
    "partition": lambda fields, wanted: array_of(np.full(fields.offsets.size, wanted.partition, np.int32), pa.int32()),
    "offset": lambda fields, wanted: array_of(fields.offsets, pa.int64()),
    "timestamp": _timestamps,
    "timestampType": lambda fields, wanted: array_of(fields.stamped.astype(np.int32), pa.int32()),
}
