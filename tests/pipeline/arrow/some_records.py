"""Records for property tests, and what Arrow columns should say of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from goqueue.format.records import NewRecord
from goqueue.pipeline.arrow.columns import BASE, HEADERS, TYPES

maybe_bytes = st.none() | st.binary(max_size=300)
header_lists = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=150)), max_size=3).map(tuple)
# Spark's years end before 10000; Python's too.
times = st.integers(0, 2**47) | st.integers(1_700_000_000_000, 1_700_000_009_000)
new_records = st.builds(NewRecord, maybe_bytes, maybe_bytes, header_lists, times)
record_lists = st.lists(new_records, min_size=1, max_size=80)
EVERYTHING = (*BASE, HEADERS)


def when(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def expected(records: Sequence[NewRecord], topic: str = "t", partition: int = 3, base: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": topic,
            "partition": partition,
            "offset": base + at,
            "timestamp": when(record.timestamp_ms),
            "timestampType": 0,
            HEADERS: [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for at, record in enumerate(records)
    ]


def rows_to_write(records: Sequence[NewRecord]) -> pa.RecordBatch:
    """The records as a user's rows."""
    columns = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        HEADERS: [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
        "timestamp": [when(record.timestamp_ms) for record in records],
    }
    return pa.RecordBatch.from_pydict({name: pa.array(column, TYPES[name]) for name, column in columns.items()})
