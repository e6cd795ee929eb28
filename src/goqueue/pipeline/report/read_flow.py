"""What flowed, as the pipeline `rates` counted it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.base.priority import NAMES
from goqueue.pipeline.report.lake_tables import LakeTables, millis
from goqueue.pipeline.report.rows import Lag, Lane, Traffic


def traffic(lake: LakeTables) -> list[Traffic] | None:
    found = lake.read("studies/traffic", ["topic", "start", "seconds", "messages", "bytes", "keys"])
    if found is None:
        return None
    rows = _finest(found).to_pylist()
    return [Traffic(row["topic"], *_window(row), row["messages"], row["bytes"], row["keys"]) for row in rows]


def lanes(lake: LakeTables) -> list[Lane] | None:
    """Over all partitions. Messages whose lane nobody read are left out."""
    by = ["lane", "topic", "start", "seconds"]
    found = lake.read("studies/rates", [*by, "messages"])
    if found is None:
        return None
    known = _finest(found.filter(pc.is_valid(found["lane"])))
    rows = known.group_by(by).aggregate([("messages", "sum")]).to_pylist()
    return [Lane(NAMES[row["lane"]], row["topic"], *_window(row), row["messages_sum"]) for row in rows]


def lags(lake: LakeTables) -> list[Lag] | None:
    """Over all partitions."""
    by = ["group", "topic", "time"]
    found = lake.read("studies/lag", [*by, "lag"])
    if found is None:
        return None
    rows = found.group_by(by).aggregate([("lag", "sum")]).to_pylist()
    return [Lag(row["group"], row["topic"], millis(row["time"]), row["lag_sum"]) for row in rows]


def _finest(windows: pa.Table) -> pa.Table:
    """Where windows of several lengths were counted, the shortest: the others tell the same messages again."""
    shortest = pc.min(windows["seconds"])
    return windows.filter(pc.equal(windows["seconds"], shortest)) if shortest.is_valid else windows


def _window(row: dict[str, Any]) -> tuple[int, int]:
    return millis(row["start"]), round(row["seconds"] * 1000)
