"""The pipeline `archive`: topics to a Delta lake, exactly once. See docs/lake.md for what the lake looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "archive"
SUMMARY_LINE: Final = "Topics to a Delta lake, exactly once, with typed tables where a schema is registered."
OPTIONS: Final = {
    "max-rows": "Messages of one batch at most; default 500000.",
    "since": "Of topics that are not in the lake yet, only messages from this time on, like 2026-01-31T12:00:00Z.",
    "typed": "no: leave the typed tables alone. Default yes.",
    "retype": "Topics whose typed tables are made anew from the archive first, like orders,payments.",
    "fail-on-loss": "no: go on if retention removed messages before they were archived. Default yes: stop and say so.",
}


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """Archives what there is by now. Without topics: all of them."""
    from goqueue.pipeline.lake.archiving import archive

    return archive(spark, run, progress)


def archived(rows: DataFrame) -> DataFrame:
    """Rows of the connector (with `includeHeaders` and `includeMetadata`) as rows of the archive."""
    from goqueue.pipeline.lake.messages import SCHEMA, shaped

    return rows.mapInArrow(shaped, SCHEMA)
