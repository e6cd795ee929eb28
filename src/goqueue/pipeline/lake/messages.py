"""The archive's rows: everything a message has, the day it is of, and its value as text where it is text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, StringType, StructType

from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA
from goqueue.pipeline.source.fields import schema_of

READ: Final = (*BASE, HEADERS, *METADATA)
SCHEMA: Final[StructType] = schema_of(READ).add("date", DateType()).add("text", StringType())
PARTITION_BY: Final = ("topic", "date")

_FRAME_BYTES: Final = 5  # a zero, and four of the schema's id
_FIRST: Final = pa.scalar(dt.datetime(1, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))
_LAST: Final = pa.scalar(dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))


def with_day_and_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of the connector as rows of the archive."""
    added = {"date": days(rows.column("timestamp")), "text": texts(rows.column("value"))}
    columns = [*rows.columns, *added.values()]
    return pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, *added])


def shaped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for all batches of a task."""
    return map(with_day_and_text, batches)


def days(moments: pa.Array) -> pa.Array:
    """The day in UTC; none where no calendar has it."""
    is_known = pc.and_(pc.greater_equal(moments, _FIRST), pc.less_equal(moments, _LAST))
    return pc.if_else(is_known, moments, pa.scalar(None, moments.type)).cast(pa.date32())


def texts(values: pa.Array) -> pa.Array:
    """Values that are UTF-8 as text, and JSON behind a schema's id; null for all others."""
    starts_with_zero = pc.any(pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0")))
    if not starts_with_zero.as_py():
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # at least one is no text; each is looked at by itself
    return pa.array([None if value is None else _text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes) -> str | None:
    if value[:1] == b"\0":
        value = value[_FRAME_BYTES:]
        if value[:1] + value[-1:] not in (b"{}", b"[]"):
            return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
