"""Counters of pipelines: they go on over runs, survive damage, and are what Prometheus reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.pipeline import running
from goqueue.pipeline.counters import Counters, all_counters, count_failure, count_success, counters, parse, render
from goqueue.pipeline.performing import perform
from goqueue.pipeline.running import Run, Silent, Summary, pipeline


def summary(rows: int) -> Summary:
    return Summary("archive", rows, rows - 1, 2.5, 3, {"topics": 2, "note": "text", "rows": [{"a": 1}]}, ["odd"])


def test_counters_go_on_over_runs(tmp_path: Path) -> None:
    folder = str(tmp_path / "lake/_metrics")
    count_success(folder, summary(10), now=1_000.0)
    count_failure(folder, "archive")
    count_success(folder, summary(20), now=2_000.0)
    found = counters(folder, "archive")
    assert (found.runs, found.failures, found.rows_in, found.rows_out, found.batches) == (2, 1, 30, 28, 6)
    assert (found.seconds, found.last_run_seconds, found.last_run_timestamp_seconds) == (5.0, 2.5, 2_000.0)
    assert found.facts == {"topics": 2.0}
    assert list(all_counters(folder)) == ["archive"]


def test_the_file_is_what_prometheus_reads(tmp_path: Path) -> None:
    text = render("rates", Counters(runs=2, rows_in=7, facts={'odd "name"\n': 1.5}))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["goqueue_pipeline_rows_in"].type == "counter"
    [sample] = [one for one in families["goqueue_pipeline_rows_in"].samples if one.name.endswith("_total")]
    assert (sample.labels, sample.value) == ({"pipeline": "rates"}, 7.0)
    assert parse(text) == Counters(runs=2, rows_in=7, facts={'odd "name"\n': 1.5})


@pytest.mark.parametrize("damage", ["", "{{{", "goqueue_pipeline_runs_total{pipeline= 7\n"])
def test_a_damaged_file_starts_anew(damage: str, tmp_path: Path) -> None:
    (tmp_path / "archive.prom").write_text(damage)
    assert counters(str(tmp_path), "archive") == Counters()
    count_success(str(tmp_path), summary(10))
    assert counters(str(tmp_path), "archive").rows_in == 10


def test_a_lake_that_takes_no_file_does_not_hide_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    count_failure(str(tmp_path / "file"), "archive")


def test_a_dry_run_leaves_no_trace(tmp_path: Path) -> None:
    run = Run(None, None, (), str(tmp_path), dry_run=True)
    assert perform(pipeline("report"), None, run, Silent()).pipeline == "report"
    assert list(tmp_path.iterdir()) == []


def test_every_pipeline_is_what_it_says() -> None:
    for name in running.PIPELINES:
        found = pipeline(name)
        assert name == found.NAME
        assert found.SUMMARY_LINE.endswith(".") and len(found.SUMMARY_LINE) < 110
        assert all(text.endswith(".") for text in found.OPTIONS.values())
