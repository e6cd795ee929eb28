"""The headers of records: first those of every record that has one, then the second ones, and so on."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.base.errors import CorruptBatch
from goqueue.base.limits import HEADERS_PER_RECORD_MAX
from goqueue.pipeline.arrow import varints
from goqueue.pipeline.arrow.binary import gather
from goqueue.pipeline.arrow.columns import HEADER_TYPE, HEADERS, TYPES
from goqueue.pipeline.arrow.memory import array_of, bools_of, scalar_of
from goqueue.pipeline.arrow.varints import Bytes, Ints, Numbers

_HEADER_BYTES_MIN: Final = 2  # two sizes


class HeaderTable(NamedTuple):
    """All headers, record by record."""

    counts: Ints  # of each record
    names: pa.Array
    values: pa.Array

    def lists(self) -> pa.Array:
        """A list for each record; null where there is none, as in Spark's Kafka source."""
        bounds = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int32)
        pairs = pa.StructArray.from_arrays([self.names, self.values], fields=list(HEADER_TYPE))
        validity = pa.py_buffer(np.packbits(self.counts > 0, bitorder="little"))
        buffers = [validity, pa.py_buffer(bounds)]
        return pa.Array.from_buffers(TYPES[HEADERS], self.counts.size, buffers, children=[pairs])

    def named(self, name: str) -> tuple[Ints, pa.Array]:
        """The records that have such a header, in order, and its values. A record that has two is there twice."""
        places = np.flatnonzero(bools_of(pc.equal(self.names, scalar_of(name.encode(), pa.string()))))
        rows = np.repeat(np.arange(self.counts.size), self.counts)[places]
        return rows, self.values.take(array_of(places, pa.int64()))


NO_HEADERS: Final = HeaderTable(np.empty(0, np.int64), pa.nulls(0, pa.string()), pa.nulls(0, pa.binary()))


def read_headers(data: Bytes, at: Ints, ends: Ints) -> HeaderTable:
    """The headers that begin at these places with their number and fill the records up to their ends."""
    counts, at = varints.read(data, at)
    _check(counts, 0, (ends - at) // _HEADER_BYTES_MIN)
    if counts.max(initial=0) > HEADERS_PER_RECORD_MAX:
        raise CorruptBatch(f"A record has more than {HEADERS_PER_RECORD_MAX} headers.")
    slots = np.cumsum(counts) - counts  # where each record's headers begin in the table
    names, name_sizes, values, value_sizes = (np.empty(int(counts.sum()), np.int64) for _ in range(4))
    rows = np.arange(counts.size)
    for number in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > number]
        slot = slots[rows] + number
        name_sizes[slot], names[slot] = _field(data, at[rows], ends[rows], 0)
        value_sizes[slot], values[slot] = _field(data, names[slot] + name_sizes[slot], ends[rows], -1)
        at[rows] = values[slot] + np.maximum(value_sizes[slot], 0)
    if (at != ends).any():
        raise CorruptBatch("Bytes are left behind the headers of a record.")
    return HeaderTable(counts, _text(gather(data, names, name_sizes)), gather(data, values, value_sizes))


def _field(data: Bytes, at: Ints, ends: Ints, least: int) -> Numbers:
    """The sizes of fields, and where those begin."""
    found = varints.read(data, at)
    _check(found.values, least, ends - found.ends)
    return found


def _check(sizes: Ints, least: int, room: Ints) -> None:
    if (sizes < least).any() or (sizes > room).any():
        raise CorruptBatch("The headers of a record run past its end.")


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        raise CorruptBatch("The name of a header is not UTF-8.") from None
