"""The pipeline `compact`: small files together, old ones away, and an audit of what the archive holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "compact"
SUMMARY_LINE: Final = "Small files of the lake together, expired ones away, and an audit of gaps and overlaps."
OPTIONS: Final = {
    "tables": "Only these tables, like messages,typed/orders; default all that the lake has.",
    "file-size": "How large files should become, like 128MiB, the default.",
    "retention": "Files that no table needs any more are removed when they are older than this; default 7d.",
    "expire": "Archived messages and typed rows of days that ended longer ago than this are deleted, like 30d.",
    "audit": "no: leave the audit away. Default yes.",
}


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """Audits, expires, puts files together and removes what is left over, in this order."""
    from goqueue.pipeline.lake.compacting import compact

    return compact(spark, run, progress)


def holes(rows: DataFrame) -> DataFrame:
    """Gaps and overlaps of offsets in rows with `topic`, `partition` and `offset`, from `start` to `end` each."""
    from goqueue.pipeline.lake.auditing import holes as of_rows

    return of_rows(rows.select("topic", "partition", "offset")).drop("verdict", "messages")
