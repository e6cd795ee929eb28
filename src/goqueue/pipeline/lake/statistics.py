"""A data file's statistics in Delta's form, taken from what Parquet's footer says already.

Only what is certain is told: a column is left out where a part of the file has no bounds, where its values are too
long, or where rounding could make a bound wrong.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_TEXT_CHARS_MAX: Final = 32
_MILLI: Final = dt.timedelta(milliseconds=1)
_MOMENT_MAX: Final = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


def statistics(footer: pq.FileMetaData, schema: pa.Schema) -> str:
    """Delta's `stats`: rows, bounds and nulls of the flat columns."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index, name in _flat_columns(footer, schema):
        chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        if all(chunk.statistics is not None and chunk.statistics.has_null_count for chunk in chunks):
            nulls[name] = sum(chunk.statistics.null_count for chunk in chunks)
            bounds = _bounds(chunks)
            if bounds is not None:
                least[name], most[name] = bounds
    told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(told, separators=(",", ":"))


def _flat_columns(footer: pq.FileMetaData, schema: pa.Schema) -> Iterator[tuple[int, str]]:
    flat = {field.name for field in schema if not pa.types.is_nested(field.type)}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        if name in flat:
            yield index, name


def _bounds(chunks: list[Any]) -> tuple[Any, Any] | None:
    """None unless every part that has values has bounds that can be told."""
    found = []
    for chunk in chunks:
        if chunk.statistics.null_count == chunk.num_values:
            continue
        if not chunk.statistics.has_min_max:
            return None
        found.append(chunk.statistics)
    if not found:
        return None
    try:
        least, most = min(one.min for one in found), max(one.max for one in found)
    except (ValueError, OverflowError):  # a time that Python cannot say
        return None
    return _told(least, most)


def _told(least: Any, most: Any) -> tuple[Any, Any] | None:
    if isinstance(least, bool | float | bytes):
        return None
    if isinstance(least, dt.datetime):
        return _moments(least, most)
    if isinstance(least, dt.date):
        return least.isoformat(), most.isoformat()
    if isinstance(least, str):
        return (least, most) if max(len(least), len(most)) <= _TEXT_CHARS_MAX else None
    return (least, most) if isinstance(least, int) else None


def _moments(least: dt.datetime, most: dt.datetime) -> tuple[str, str] | None:
    """Delta keeps milliseconds: the lower bound is rounded down, the upper one up."""
    if least.tzinfo is None or most > _MOMENT_MAX:
        return None
    return _millis(least), _millis(most + _MILLI if most.microsecond % 1000 else most)


def _millis(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
