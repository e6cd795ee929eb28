"""One round of a pipeline, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from goqueue.pipeline.counters import count_failure, count_success
from goqueue.pipeline.running import METRICS, Pipeline, Progress, Run, Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def perform(found: Pipeline, spark: SparkSession | None, run: Run, progress: Progress) -> Summary:
    """One round, counted in the lake's metrics whether it goes well or not. A dry run leaves no trace."""
    folder = run.place(METRICS)
    try:
        summary = found.run(cast("SparkSession", spark), run, progress)
    except Exception:
        if not run.dry_run:
            count_failure(folder, found.NAME)
        raise
    if not run.dry_run:
        count_success(folder, summary)
    return summary
