"""The profiles of topics, run by run, and what drifted from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from goqueue.pipeline.analytics.drift import Profile, drift, profile_of
from goqueue.pipeline.analytics.fields import WHOLE, fields
from goqueue.pipeline.analytics.tables import append_rows

NAME: Final = "quality"
_RUN: Final = [("date", pa.date32()), ("time", pa.timestamp("us", "UTC")), ("number", pa.int64())]
_FIELDS: Final = pa.schema(
    [
        *_RUN,
        ("topic", pa.string()),
        ("field", pa.string()),
        ("type", pa.string()),
        ("rows", pa.int64()),
        ("total", pa.int64()),
    ]
)
_DRIFT: Final = pa.schema(
    [
        *_RUN,
        ("topic", pa.string()),
        ("field", pa.string()),
        ("change", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)

Row = dict[str, Any]


def run_of(number: int, now: datetime) -> Row:
    """What every row of a run says of it."""
    return {"date": now.date(), "time": now, "number": number}


def write_profiles(frame: DataFrame, table: str, number: int, now: datetime) -> dict[str, int]:
    """Counts the fields of a run's messages; how many messages each topic has."""
    rows: list[Row] = [row.asDict() for row in fields(frame).collect()]
    totals: dict[str, int] = {}
    for row in rows:
        if row["field"] == WHOLE:
            totals[row["topic"]] = totals.get(row["topic"], 0) + row["rows"]
    told = [{**run_of(number, now), **row, "total": totals[row["topic"]]} for row in rows]
    append_rows(pa.Table.from_pylist(told, _FIELDS), table, NAME, number)
    return totals


def write_drift(profiles: str, table: str, number: int, now: datetime) -> list[Row]:
    """What changed between this run and the last one that saw the topic; the changes."""
    before, after = _profiles(profiles, number)
    found = [
        {"topic": topic, **msgspec.structs.asdict(change)}
        for topic, profile in sorted(after.items())
        if topic in before
        for change in drift(before[topic], profile)
    ]
    append_rows(pa.Table.from_pylist([{**run_of(number, now), **one} for one in found], _DRIFT), table, NAME, number)
    return found


def _profiles(table: str, number: int) -> tuple[dict[str, Profile], dict[str, Profile]]:
    """By topic: as it was in the last run before that saw it, and as it is in this one."""
    data = DeltaTable(table).to_pyarrow_dataset()
    now = data.to_table(filter=pc.field("number") == number).to_pylist()
    seen = data.to_table(columns=["topic", "number"], filter=pc.field("number") < number)
    last = seen.group_by("topic").aggregate([("number", "max")]).to_pylist()
    wanted = {(one["topic"], one["number_max"]) for one in last}
    earlier = data.to_table(filter=pc.field("number").isin([one for _, one in wanted])).to_pylist()
    return _by_topic(row for row in earlier if (row["topic"], row["number"]) in wanted), _by_topic(now)


def _by_topic(rows: Iterable[Mapping[str, Any]]) -> dict[str, Profile]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(row)
    return {topic: profile_of(some, WHOLE) for topic, some in found.items()}
