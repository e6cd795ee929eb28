"""A page out of a lake's tables, written here by hand as the other pipelines write them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from goqueue.pipeline.counters import count_success
from goqueue.pipeline.report.lake_tables import LakeTables
from goqueue.pipeline.report.read_failed import rule_of
from goqueue.pipeline.report.read_health import small_files
from goqueue.pipeline.report.reading import read_facts
from goqueue.pipeline.report.report import run as report
from goqueue.pipeline.report.rows import (
    AuditRow,
    BreakRow,
    CheckedRow,
    DeadLetterRow,
    Drift,
    EventRow,
    Facts,
    Failure,
    Hole,
    Lag,
    Lane,
    StageRow,
    TraceRow,
    Traffic,
)
from goqueue.pipeline.running import METRICS, Run, Silent, Summary
from tests.pipeline.report.reading import Page

T0 = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
MS = 1_767_268_800_000


def write(lake: Path, name: str, *rows: dict[str, Any]) -> None:
    write_deltalake(str(lake / name), pa.Table.from_pylist(list(rows)), mode="append")


def facts(lake: Path, *topics: str) -> Facts:
    return read_facts(LakeTables(str(lake), topics), MS)


def after(seconds: float) -> dt.datetime:
    return T0 + dt.timedelta(seconds=seconds)


def window(topic: str, seconds: float, messages: int, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "start": T0, "seconds": seconds, "messages": messages, **more}


def test_traffic_is_read_in_its_shortest_windows(tmp_path: Path) -> None:
    more = {"bytes": 70, "keys": 3}
    write(tmp_path, "studies/traffic", window("a", 60.0, 7, **more), window("b", 60.0, 1, **more))
    write(tmp_path, "studies/traffic", window("a", 3600.0, 7, **more))
    lane = {"partition": 0, "lane": 1}
    write(tmp_path, "studies/rates", window("a", 60.0, 4, **lane), window("a", 60.0, 3, partition=1, lane=1))
    write(tmp_path, "studies/rates", window("a", 60.0, 9, partition=1, lane=None), window("a", 3600.0, 7, **lane))
    found = facts(tmp_path)
    assert found.traffic == [Traffic("a", MS, 60_000, 7, 70, 3), Traffic("b", MS, 60_000, 1, 70, 3)]
    assert found.lanes == [Lane("high", "a", MS, 60_000, 7)]
    assert facts(tmp_path, "b").traffic == [Traffic("b", MS, 60_000, 1, 70, 3)]


def test_lag_is_added_up_over_partitions(tmp_path: Path) -> None:
    rows = [{"group": "g", "topic": "a", "time": T0, "partition": n, "lag": lag} for n, lag in enumerate((4, 5))]
    write(tmp_path, "studies/lag", *rows)
    assert facts(tmp_path).lags == [Lag("g", "a", MS, 9)]


def test_speed(tmp_path: Path) -> None:
    spans = {"p50_us": 1, "p90_us": 2, "p99_us": 3, "max_us": 4}
    order = ("total", "lease.ack", "publish.persist", "something.new")
    write(tmp_path, "studies/stages", *({"topic": "a", "stage": one, "count": 9, **spans} for one in order))
    events = [
        {"name": "publish.received", "at_us": 0, "took_us": 0},
        {"name": "consume.acked", "at_us": 8, "took_us": 5},
    ]
    trace = {"trace_id": "f", "topic": "a", "partition": 1, "offset": None, "status": "completed", "took_us": 8}
    write(tmp_path, "studies/slowest", {**trace, "offset": 3, "events": events})
    failed = {"event": "consume.nacked", "topic": "a", "reason": "x"}
    write(tmp_path, "studies/failures", {**failed, "hour": T0, "count": 2}, {**failed, "hour": after(3600), "count": 3})
    found = facts(tmp_path)
    assert [one.name for one in found.stages or []] == ["publish.persist", "lease.ack", "total", "something.new"]
    assert (found.stages or [])[0] == StageRow("publish.persist", "a", 9, 1.0, 2.0, 3.0, 4.0)
    told = (EventRow("publish.received", 0, 0), EventRow("consume.acked", 8, 5))
    assert found.slowest == [TraceRow("f", "a", 1, 3, "completed", 8, told)]
    assert found.failures == [Failure("consume.nacked", "a", "x", 5)]


def letter(offset: int, seconds: float, **more: Any) -> dict[str, Any]:
    row = {"topic": "a", "letter_topic": "a.dlq", "partition": 0, "offset": offset, "died_at": after(seconds)}
    cause = {"group": "g", "reason": "REJECTED", "fingerprint": "f1", "template": "no <n>", "schema_version": 2}
    return {**row, **cause, **more}


def test_dead_letters_have_an_example_from_the_archive(tmp_path: Path) -> None:
    by_hand = {"topic": None, "group": "", "reason": "", "fingerprint": "e0", "template": "", "schema_version": None}
    write(tmp_path, "studies/letters", letter(5, 10), letter(7, 30), letter(6, 20), letter(9, 90, **by_hand))
    archived = [{"topic": "a", "partition": 0, "offset": n, "text": f"value {n}"} for n in range(10)]
    write(tmp_path, "messages", *archived)
    found = facts(tmp_path)
    assert found.letters == [
        DeadLetterRow("a", "g", "REJECTED", "f1", 3, MS + 10_000, MS + 30_000, "2", "no <n>", "value 7"),
        DeadLetterRow("a.dlq", "", "", "e0", 1, MS + 90_000, MS + 90_000, "", "", ""),
    ]
    assert sum(one.count for one in found.deaths or []) == 4
    assert {one.reason for one in found.deaths or []} == {"REJECTED", "by hand"}
    assert {one.length_ms for one in found.deaths or []} == {2_000}


def test_quality_of_all_runs(tmp_path: Path) -> None:
    for number, bad in ((0, 2), (1, 1)):
        line = {"topic": "a", "rows": 10, "bad": bad, "number": number}
        write(tmp_path, "studies/quality", {**line, "check": "all"}, {**line, "check": "schema"})
    reasons = [
        [{"check": "schema", "why": "$.n: -5 is less than 0"}],
        [{"check": "schema", "why": "$.n: -77 is less than 0"}, {"check": "mine", "why": "the condition is not true"}],
    ]
    write(tmp_path, "quarantine", *({"topic": "a", "text": f"t{n}", "reasons": one} for n, one in enumerate(reasons)))
    write(
        tmp_path, "studies/drift", {"topic": "a", "field": "n", "change": "new field", "before": "", "after": "integer"}
    )
    found = facts(tmp_path)
    assert found.checked == [CheckedRow("a", 20, 3)]
    assert sorted(found.breaks or [], key=lambda one: one.rule) == [
        BreakRow("a", "mine", 1, "t1"),
        BreakRow("a", "schema: $.n: -<n> is less than <n>", 2, "t0"),
    ]
    assert found.drifts == [Drift("a", "n", "new field", "", "integer")]
    assert facts(tmp_path, "b").breaks == []


def test_a_rule_of_the_user_s_is_known_by_its_name() -> None:
    assert rule_of("total_is_small", "the condition is not true") == "total_is_small"
    assert rule_of("schema", "it was 2026-01-31T12:00:00Z") == "schema: it was <time>"


def test_health(tmp_path: Path) -> None:
    counts = {"first": 0, "last": 9, "rows": 8, "missing": 2, "explained": 1, "expired": 0, "lost": 1, "unknown": 0}
    write(tmp_path, "studies/audit", {"topic": "a", "partition": 0, **counts, "doubled": 0})
    hole = {"topic": "a", "partition": 0, "kind": "gap", "start": 3, "end": 3, "verdict": "lost", "messages": 1}
    write(tmp_path, "studies/holes", hole)
    for n in range(3):
        write(tmp_path, "messages", {"topic": "a", "partition": 0, "offset": n, "text": "t"})
    found = facts(tmp_path)
    assert found.audits == [AuditRow("a", 0, 0, 9, 8, 1, 0, 1, 0, 0)]
    assert found.holes == [Hole("a", 0, "gap", "lost", 3, 3)]
    tables = {one.name: one for one in found.tables or []}
    assert list(tables) == ["messages", "studies/audit", "studies/holes"]
    archive = tables["messages"]
    assert (archive.rows, archive.files, archive.small, archive.version) == (3, 3, 3, 2)
    assert archive.bytes == sum(path.stat().st_size for path in (tmp_path / "messages").glob("*.parquet"))
    assert archive.written_ms == pytest.approx(dt.datetime.now(dt.UTC).timestamp() * 1000, abs=60_000)


def test_files_are_small_where_they_could_be_put_together() -> None:
    assert small_files([("a",), ("a",), ("b",), ("c",), ("c",)], [1, 2, 3, 1 << 30, 5]) == 2
    assert small_files([], []) == 0


def test_a_pipeline_that_found_nothing_did_look(tmp_path: Path) -> None:
    assert facts(tmp_path).letters is None
    count_success(f"{tmp_path}/{METRICS}", Summary("dlq", 0, 0, 0.1, 0))
    assert facts(tmp_path).letters == [] and facts(tmp_path).stages is None


def test_the_pipeline_writes_the_page_and_says_what_is_missing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake, "studies/traffic", window("a", 60.0, 7, bytes=70, keys=3), window("b", 60.0, 2, bytes=9, keys=1))
    done = report(None, Run(None, None, ("a",), str(lake)), Silent())
    assert done.facts["page"] == f"{lake}/report/index.html"
    assert done.facts["not_run_yet"] == ["compact", "dlq", "latency", "quality", "rates"]
    page = Page((lake / "report/index.html").read_text())
    assert page.tiles()["Messages"][0] == "7"
    assert (lake / "report/index.html").stat().st_size == done.facts["bytes"]
    elsewhere = Run(None, None, (), str(lake), options={"out": str(tmp_path / "page.html")})
    report(None, elsewhere, Silent())
    assert Page((tmp_path / "page.html").read_text()).tiles()["Messages"][0] == "9"


def test_a_lake_that_is_not_there_makes_a_page_that_says_so(tmp_path: Path) -> None:
    done = report(None, Run(None, None, (), str(tmp_path / "new")), Silent())
    assert len(done.facts["not_run_yet"]) == 5 and done.rows_in == 0
