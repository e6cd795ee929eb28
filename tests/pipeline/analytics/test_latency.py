"""Latency by Spark against plain Python, on lives from a seed, in one pass and in many."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.pipeline.analytics import latency as study
from goqueue.pipeline.analytics.latency import latency, percentiles
from goqueue.pipeline.analytics.tables import place, rows_of
from goqueue.pipeline.analytics.trace_events import EVENT
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.running import Run, Silent
from tests.pipeline.analytics.lives import MICRO, SECOND, Measured, Teller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RANK_ERROR = 0.01


def written(folder: Path, name: str, events: Iterable[dict[str, Any]], tail: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"traces-{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events) + tail)


def hour_of(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // SECOND // 3600 * 3600, UTC)


def by_hour(expected: Iterable[Measured]) -> dict[tuple[datetime, str, str, str], list[int]]:
    found: dict[tuple[datetime, str, str, str], list[int]] = defaultdict(list)
    for one in expected:
        found[hour_of(one.at_ns), one.topic, one.group, one.stage].append(one.took_us)
    return found


def assert_quantile(value: int, rank: float, took: list[int]) -> None:
    """The value's true rank is as near as the sketch promises."""
    ordered = sorted(took)
    assert value in took
    low, high = bisect_left(ordered, value) / len(took), bisect_right(ordered, value) / len(took)
    slack = RANK_ERROR + 1 / len(took)
    assert low - slack <= rank <= high + slack, (value, rank, low, high)


def assert_hours(rows: Iterable[Any], expected: Iterable[Measured]) -> None:
    wanted = by_hour(expected)
    found = {(row.hour.astimezone(UTC), row.topic, row.group, row.stage): row for row in rows}
    assert found.keys() == wanted.keys()
    for key, took in wanted.items():
        row = found[key]
        assert (row["count"], row.sum_us, row.min_us, row.max_us) == (len(took), sum(took), min(took), max(took))
        for name, rank in study.PERCENTILES.items():
            assert_quantile(row[name], rank, took)


def test_hours_and_ranges_of_hours(spark: SparkSession) -> None:
    teller = Teller(seed=21)
    teller.tell(1_500, span_s=10_800)
    hours = latency(spark.createDataFrame([tuple(one.values()) for one in teller.events], EVENT))
    assert_hours(hours.collect(), teller.expected)
    merged = percentiles(hours, "stage").collect()
    for row in merged:
        took = [one.took_us for one in teller.expected if one.stage == row.stage]
        assert row["count"] == len(took)
        for name, rank in study.PERCENTILES.items():
            assert_quantile(row[name], rank, took)
    assert {row.stage for row in merged} == {one.stage for one in teller.expected}


def run_of(tmp_path: Path, topics: tuple[str, ...] = ()) -> Run:
    return Run(None, None, topics, str(tmp_path / "lake"), options={"traces": str(tmp_path / "traces")})


def test_passes_add_up_whatever_is_cut_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that grow, a line torn and whole later, events read twice, and a pass that dies half way."""
    teller = Teller(seed=22)
    teller.tell(250, span_s=5_000)
    events = sorted(teller.events, key=lambda one: (one["end_ns"], one["span_id"]))
    half, run = len(events) // 2, run_of(tmp_path)
    written(tmp_path / "traces", "1", events[:half], json.dumps(events[half])[:40])
    first = study.run(spark, run, Silent())
    assert (first.facts["events"], first.facts["unreadable_lines"]) == (half, 1)
    assert "1 lines of the trace files are no events" in first.warnings[0]
    written(tmp_path / "traces", "1", events[: half + 1])
    written(tmp_path / "traces", "2", events[half:])
    with monkeypatch.context() as broken:
        broken.setattr(study, "slowest", lambda lives: 1 / 0)  # after the hours, before the rest
        with pytest.raises(ZeroDivisionError):
            study.run(spark, run, Silent())
    assert study.run(spark, run, Silent()).facts["events"] == 0
    assert_results(spark, run, teller)


def assert_results(spark: SparkSession, run: Run, teller: Teller) -> None:
    """All tables of a lake against the lives."""
    tables = {name: rows_of(spark, place(run.lake, name)) for name in ("latency", "stages", "slowest", "failures")}
    found = {name: [] if table is None else table.collect() for name, table in tables.items()}
    assert_hours(found["latency"], teller.expected)
    totals = Counter((one.topic, one.stage) for one in teller.expected)
    assert {(row.topic, row.stage): row["count"] for row in found["stages"]} == totals
    assert {row.trace_id: row.took_us for row in found["slowest"]} == slowest(teller)
    assert {(row.event, row.topic, row.reason) for row in found["failures"]} == set(failures(teller))
    assert sum(row["count"] for row in found["failures"]) == failures(teller).total()


def slowest(teller: Teller) -> dict[str, int]:
    times: dict[str, tuple[int, int]] = {}
    for one in teller.events:
        begin, end = times.get(one["trace_id"], (one["start_ns"], one["end_ns"]))
        times[one["trace_id"]] = (min(begin, one["start_ns"]), max(end, one["end_ns"]))
    hours: dict[datetime, list[tuple[int, str]]] = defaultdict(list)
    for trace_id, (begin, end) in times.items():
        hours[hour_of(begin)].append((-((end - begin) // MICRO), trace_id))
    return {trace_id: -took for some in hours.values() for took, trace_id in sorted(some)[:20]}


def failures(teller: Teller) -> Counter[tuple[str, str, str]]:
    names = {
        "consume.nacked": "",
        "consume.rejected": "no item <n>",
        "visibility.timeout": "",
        "dlq.routed": "REJECTED",
    }
    return Counter(
        (one["name"], one["topic"].removesuffix(".dlq"), names[one["name"]])
        for one in teller.events
        if one["name"] in names
    )


def test_topics_that_are_asked_for_bring_their_whole_traces(spark: SparkSession, tmp_path: Path) -> None:
    teller, run = Teller(seed=24), run_of(tmp_path, ("mails",))
    teller.tell(60, span_s=3_000)
    written(tmp_path / "traces", "1", teller.events)
    dry = Run(run.kafka, run.url, run.topics, run.lake, dry_run=True, options=run.options)
    wanted = sum(one["topic"] in ("mails", "mails.dlq") for one in teller.events)
    assert study.run(spark, dry, Silent()).rows_in == wanted
    assert not (tmp_path / "lake").exists()


def test_a_folder_without_traces_says_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="data directory"):
        study.run(spark, run_of(tmp_path), Silent())
