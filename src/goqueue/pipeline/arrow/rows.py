"""Rows to be written: the columns that users give, checked once and brought into one form."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from goqueue.pipeline.arrow.columns import HEADERS
from goqueue.pipeline.arrow.memory import array_of, nulls_of, numbers_of
from goqueue.pipeline.arrow.varints import Ints
from goqueue.pipeline.link.errors import PipelineError

_KNOWN: Final = ("key", "value", "topic", "partition", HEADERS, "timestamp")


class Rows(msgspec.Struct, frozen=True):
    """Messages. `keys` and `headers` are None if no row has any; times are in milliseconds."""

    values: pa.Array  # binary
    keys: pa.Array | None  # binary
    headers: pa.Array | None  # list of (key, value)
    times: Ints

    def __len__(self) -> int:
        return len(self.values)

    def take(self, places: Ints) -> Rows:
        at = array_of(places, pa.int64())
        keys = None if self.keys is None else self.keys.take(at)
        headers = None if self.headers is None else self.headers.take(at)
        return Rows(self.values.take(at), keys, headers, self.times[places])

    def slice(self, start: int, end: int) -> Rows:
        keys = None if self.keys is None else self.keys[start:end]
        headers = None if self.headers is None else self.headers[start:end]
        return Rows(self.values[start:end], keys, headers, self.times[start:end])


def rows_of(given: pa.RecordBatch, now_ms: int) -> Rows:
    """The messages that a user's columns mean. A row without a time gets `now_ms`."""
    columns = {name: given.column(place) for place, name in enumerate(given.schema.names)}
    unknown = [name for name in columns if name not in _KNOWN]
    if unknown:
        raise PipelineError(
            f"There is no place for the column {unknown[0]!r}; rows to write may have {', '.join(_KNOWN)}. Put what "
            "belongs to the message into value, for example with to_json(struct(...))."
        )
    if "value" not in columns:
        raise PipelineError("Rows to write need a column 'value' (binary or string).")
    keys, headers = columns.get("key"), columns.get(HEADERS)
    return Rows(
        binary_of(columns["value"], "value"),
        None if keys is None or keys.null_count == len(keys) else binary_of(keys, "key"),
        None if headers is None or headers.null_count == len(headers) else _headers_of(headers),
        _times_of(columns.get("timestamp"), given.num_rows, now_ms),
    )


def binary_of(column: pa.Array, name: str) -> pa.Array:
    """Bytes as they are, text in UTF-8."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_null(kind):
        return column.cast(pa.binary())
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if is_text or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    raise PipelineError(f"The column {name!r} is of type {kind}; it must be binary or string. Cast it first.")


def _headers_of(column: pa.Array) -> pa.Array:
    """Lists of (key, value), where every header and its key is there."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        wanted = "array<struct<key:string,value:binary>>"
        raise PipelineError(f"The column 'headers' is of type {kind}; it must be {wanted}.")
    pairs = column.flatten()
    names, values = pairs.field(0), pairs.field(1)
    if pairs.null_count or names.null_count:
        raise PipelineError("A header has no name; every element of 'headers' needs a key.")
    both = [binary_of(names, "headers.key"), binary_of(values, "headers.value")]
    counts = np.where(nulls_of(column), 0, np.diff(numbers_of(column.offsets)))
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(array_of(bounds, pa.int32()), pa.StructArray.from_arrays(both, ["key", "value"]))


def _times_of(column: pa.Array | None, count: int, now_ms: int) -> Ints:
    if column is None:
        return np.full(count, now_ms, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise PipelineError(f"The column 'timestamp' is of type {column.type}; it must be a timestamp.")
    millis = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())
    return np.where(nulls_of(column), now_ms, numbers_of(millis))
