"""The pipeline `report`: one HTML page of what the others found. It needs neither Spark nor a node."""

from __future__ import annotations

import time
from typing import Final

from goqueue.pipeline.report.lake_tables import LakeTables
from goqueue.pipeline.report.page import page
from goqueue.pipeline.report.reading import FOUND_BY, read_facts
from goqueue.pipeline.running import Progress, Run, Summary
from goqueue.pipeline.storage import write_text

NAME: Final = "report"
SUMMARY_LINE: Final = "One HTML page with plots of what flowed, how fast, what failed, and the lake's health."
OPTIONS: Final = {"out": "Where the page goes; default report/index.html in the lake."}
NEEDS_SPARK: Final = False


def run(spark: object, run: Run, progress: Progress) -> Summary:
    """Of all topics in the lake, or of those that the run names. What was never computed is empty and says so."""
    began = time.monotonic()
    progress.step("reading the lake's tables")
    lake = LakeTables(run.lake, run.topics)
    facts = read_facts(lake, time.time_ns() // 1_000_000)
    progress.step("drawing the page")
    out = run.options.get("out") or run.place("report", "index.html")
    text = page(facts)
    if not run.dry_run:
        write_text(out, text)
    absent = sorted({name for part, name in FOUND_BY.items() if getattr(facts, part) is None})
    told = {"page": out, "bytes": len(text.encode()), "not_run_yet": absent}
    return Summary(NAME, lake.rows, 1, time.monotonic() - began, 1, told)
