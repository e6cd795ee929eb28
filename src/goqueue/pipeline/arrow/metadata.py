"""What headers tell of a message: its lane, its trace, its schema, and how often it was handed out before it died.

Each column reads the header as the broker itself does: the lane of the first such header counts, the trace of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.base.priority import HEADER as PRIORITY
from goqueue.base.priority import NORMAL, lane_of
from goqueue.base.trace_context import TRACEPARENT, parse_traceparent
from goqueue.pipeline.arrow.headers import HeaderTable
from goqueue.pipeline.arrow.memory import array_of, binary_array, numbers_of
from goqueue.pipeline.arrow.varints import Bytes, Ints

SCHEMA_ID: Final = "schema-id"
_CONFLUENT_ID: Final = "__value_schema_id"
ATTEMPTS: Final = "goqueue-dlq-attempts"
_FRAME_BYTES: Final = 5  # a zero, and four of the id
_INT_MAX: Final = 2**31 - 1

Read = Callable[[bytes | None], int | None]


class _Numbers:
    """A column of numbers that is filled from headers."""

    def __init__(self, count: int) -> None:
        self._values = np.zeros(count, np.int32)
        self._known: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)

    def fill(self, rows: Ints, values: Ints) -> None:
        """Rows that are known already stay as they are; of two values for a row the first counts."""
        fresh = ~self._known[rows]
        # Backwards, so that the first is written last.
        self._values[rows[fresh][::-1]] = values[fresh][::-1]
        self._known[rows] = True

    def fill_from(self, headers: HeaderTable, name: str, read: Read) -> None:
        """Each value that occurs is read once: there are few."""
        rows, values = headers.named(name)
        coded = values.dictionary_encode(null_encoding="encode")
        read_values = [read(value) for value in coded.dictionary.to_pylist()]
        are_numbers = np.array([number is not None for number in read_values], np.bool_)
        numbers = np.array([number or 0 for number in read_values], np.int64)
        places = numbers_of(coded.indices)
        good = are_numbers[places]
        self.fill(rows[good], numbers[places[good]])

    def array(self) -> pa.Array:
        return array_of(self._values, pa.int32(), ~self._known)


def _priority(headers: HeaderTable, data: Bytes, values: Ints, sizes: Ints) -> pa.Array:
    column = _Numbers(values.size)
    column.fill_from(headers, PRIORITY, lambda value: NORMAL if (lane := lane_of(value)) is None else lane)
    everyone = np.arange(values.size)
    column.fill(everyone, np.full(values.size, NORMAL))
    return column.array()


def _attempts(headers: HeaderTable, data: Bytes, values: Ints, sizes: Ints) -> pa.Array:
    column = _Numbers(values.size)
    column.fill_from(headers, ATTEMPTS, _number)
    return column.array()


def _schema_id(headers: HeaderTable, data: Bytes, values: Ints, sizes: Ints) -> pa.Array:
    """The header says it, or the value's first five bytes: a zero and the id."""
    column = _Numbers(values.size)
    column.fill_from(headers, SCHEMA_ID, _number)
    column.fill_from(headers, _CONFLUENT_ID, _framed)
    framed = np.flatnonzero(sizes >= _FRAME_BYTES)
    framed = framed[data[values[framed]] == 0]
    places = values[framed, None] + np.arange(1, _FRAME_BYTES)
    ids = data[places].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    fits = ids <= _INT_MAX
    column.fill(framed[fits], ids[fits])
    return column.array()


def _trace_id(headers: HeaderTable, data: Bytes, values: Ints, sizes: Ints) -> pa.Array:
    rows, found = headers.named(TRACEPARENT)
    traces, seen = [""] * values.size, [False] * values.size
    for row, value in zip(rows.tolist(), found.to_pylist(), strict=True):
        context = parse_traceparent(value)
        traces[row] = "" if context is None or seen[row] else context.trace_id  # two say nothing
        seen[row] = True
    bounds = np.cumsum([0, *map(len, traces)])
    return binary_array(bounds, "".join(traces).encode(), pa.string(), np.diff(bounds) == 0)


def _number(value: bytes | None) -> int | None:
    text = (value or b"").strip()
    return int(text) if text.isdigit() and len(text) <= 10 and int(text) <= _INT_MAX else None


def _framed(value: bytes | None) -> int | None:
    if value is None or len(value) < _FRAME_BYTES or value[0] != 0:
        return None
    number = int.from_bytes(value[1:_FRAME_BYTES], "big")
    return number if number <= _INT_MAX else None


METADATA_OF: Final[Mapping[str, Callable[[HeaderTable, Bytes, Ints, Ints], pa.Array]]] = {
    "priority": _priority,
    "traceId": _trace_id,
    "schemaId": _schema_id,
    "attempts": _attempts,
}
