"""One run of `compact`: the audit first, while everything is as it was found, then what changes files."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from goqueue.base.settings import parse_size
from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.auditing import LakeAudit, audit
from goqueue.pipeline.lake.errors import LakeDamaged, LakeError
from goqueue.pipeline.lake.gap_task import DOUBLED, LOST, UNKNOWN
from goqueue.pipeline.lake.tables import exists, open_table
from goqueue.pipeline.lake.tending import Tended, expire, gather, rows_to_expire, sweep, tables_in
from goqueue.pipeline.running import Progress, Run, Summary

_FILE_SIZE: Final = "128MiB"
_RETENTION: Final = "7d"
_SHORT_MS: Final = 3_600_000
_ARCHIVED: Final = ("messages", "typed/")
_TOLD_MAX: Final = 5
_PLACES_MAX: Final = 50


def compact(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """Raises `LakeDamaged` at the end if messages are in the archive twice: what can be done is done before."""
    began = time.monotonic()
    names = _tables(run)
    found = _audit(spark, run, progress)
    tended = []
    for name in names:
        progress.step(f"tending {name}")
        tended.append(_tend(run, name))
    summary = _summary(tended, found, began, _warnings(run, found))
    if found is not None and found.sum(DOUBLED):
        raise LakeDamaged(_doubled(found))
    return summary


def _tables(run: Run) -> list[str]:
    there = tables_in(run.lake)
    asked = choices.names(run.options, "tables")
    for name in asked:
        if name not in there:
            raise LakeError(f"There is no table {name!r} in {run.lake}; there are {', '.join(there) or 'none'}.")
    if not there:
        raise LakeError(f"There are no tables in {run.lake}; archive something first, or correct the path.")
    return asked or there


def _audit(spark: SparkSession, run: Run, progress: Progress) -> LakeAudit | None:
    if run.dry_run or not choices.flag(run.options, "audit", True) or not exists(run.place("messages")):
        return None
    progress.step("auditing the archive")
    return audit(spark, run)


def _tend(run: Run, name: str) -> Tended:
    table = open_table(run.place(name))
    before = len(table.file_uris())
    day = _expired_day(run.options) if name.startswith(_ARCHIVED) else None
    retention_ms = choices.duration_ms(run.options, "retention", _RETENTION) or 0
    if run.dry_run:
        rows = 0 if day is None else rows_to_expire(table, day)
        return Tended(name, before, before, rows, sweep(table, retention_ms, dry_run=True))
    rows = 0 if day is None else expire(table, day)
    gather(table, _file_bytes(run.options))
    return Tended(name, before, len(table.file_uris()), rows, sweep(table, retention_ms))


def _expired_day(options: Mapping[str, str]) -> dt.date | None:
    """The first day that stays."""
    age_ms = choices.duration_ms(options, "expire")
    if age_ms is None:
        return None
    return (dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=age_ms)).date()


def _file_bytes(options: Mapping[str, str]) -> int:
    try:
        return parse_size(options.get("file-size", _FILE_SIZE))
    except ValueError as error:
        raise LakeError(f"The option file-size {error}.") from None


# --- telling ------------------------------------------------------------------------------------------------------


def _warnings(run: Run, found: LakeAudit | None) -> list[str]:
    told = []
    retention_ms = choices.duration_ms(run.options, "retention", _RETENTION) or 0
    if retention_ms < _SHORT_MS and not run.dry_run:
        told.append("With so short a retention, run this only while nothing writes to the lake or reads from it.")
    return told if found is None else told + _hole_warnings(found)


def _hole_warnings(found: LakeAudit) -> list[str]:
    words = {
        LOST: "messages of the log are not in the archive",
        UNKNOWN: "missing offsets are not in the log to look up",
    }
    return [
        f"{found.sum(verdict)} {words[verdict]}: {_ranges(found.holes, verdict)}."
        for verdict in words
        if found.sum(verdict)
    ]


def _doubled(found: LakeAudit) -> str:
    return (
        f"{found.sum(DOUBLED)} messages are in the archive more than once: {_ranges(found.holes, DOUBLED)}. "
        "A topic that was deleted and made again has such offsets; else something other than `archive` wrote the table."
    )


def _ranges(holes: Sequence[Mapping[str, Any]], verdict: str) -> str:
    some = [one for one in holes if one["verdict"] == verdict]
    told = ", ".join(f"{one['topic']}/{one['partition']} {one['start']}-{one['end']}" for one in some[:_TOLD_MAX])
    return told + (f" and {len(some) - _TOLD_MAX} more" if len(some) > _TOLD_MAX else "")


def _summary(tended: Sequence[Tended], found: LakeAudit | None, began: float, warnings: list[str]) -> Summary:
    facts: dict[str, Any] = {
        "files_before": sum(one.files for one in tended),
        "files_now": sum(one.now for one in tended),
        "rows_expired": sum(one.expired_rows for one in tended),
        "files_removed": sum(one.removed for one in tended),
    }
    rows = 0
    if found is not None:
        rows = found.sum("rows")
        names = ("missing", "explained", "expired", "lost", "unknown", "doubled")
        facts |= {f"offsets_{name}": found.sum(name) for name in names}
        facts["partitions_with_holes"] = [one for one in found.places if one["missing"] or one["doubled"]][:_PLACES_MAX]
    facts["tables"] = [
        {"table": one.table, "files": one.files, "now": one.now, "expired": one.expired_rows, "removed": one.removed}
        for one in tended
    ]
    return Summary("compact", rows, 0, time.monotonic() - began, len(tended), facts, warnings)
