"""How fast, as the pipeline `latency` measured it."""

from __future__ import annotations

from typing import Any, Final

from goqueue.pipeline.report.lake_tables import LakeTables
from goqueue.pipeline.report.rows import EventRow, Failure, StageRow, TraceRow

LIFE: Final = (
    *("publish.validate", "publish.persist", "delay.wait", "delay.late", "publish.deliver"),
    *("lease.ack", "lease.fail", "lease.timeout", "lease.release", "redeliver"),
    *("dlq.bury", "dlq.wait", "txn.end", "total"),
)
_SPANS: Final = ("p50_us", "p90_us", "p99_us", "max_us")


def stages(lake: LakeTables) -> list[StageRow] | None:
    """By topic, as lives go."""
    found = lake.read("studies/stages", ["topic", "stage", "count", *_SPANS])
    if found is None:
        return None
    rows = sorted(found.to_pylist(), key=lambda row: (row["topic"], _order(row["stage"])))
    return [StageRow(row["stage"], row["topic"], row["count"], *(float(row[one]) for one in _SPANS)) for row in rows]


def _order(stage: str) -> tuple[int, str]:
    """What is not known stands last."""
    return LIFE.index(stage) if stage in LIFE else len(LIFE), stage


def slowest(lake: LakeTables) -> list[TraceRow] | None:
    columns = ["trace_id", "topic", "partition", "offset", "status", "took_us", "events"]
    found = lake.read("studies/slowest", columns)
    return None if found is None else [_trace(row) for row in found.to_pylist()]


def _trace(row: dict[str, Any]) -> TraceRow:
    place = row["topic"], row["partition"], row["offset"]
    events = tuple(EventRow(one["name"], one["at_us"], one["took_us"]) for one in row["events"])
    return TraceRow(row["trace_id"], *place, row["status"], row["took_us"], events)


def failures(lake: LakeTables) -> list[Failure] | None:
    """Over all hours and groups."""
    by = ["event", "topic", "reason"]
    found = lake.read("studies/failures", [*by, "count"])
    if found is None:
        return None
    rows = found.group_by(by).aggregate([("count", "sum")]).to_pylist()
    return [Failure(row["event"], row["topic"] or "-", row["reason"] or "", row["count_sum"]) for row in rows]
