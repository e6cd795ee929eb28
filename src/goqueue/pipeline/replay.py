"""The pipeline `replay`: archived messages back into a topic, exactly once. See docs/lake.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "replay"
SUMMARY_LINE: Final = "Archived messages back into a topic: by time, offset, key or SQL, at a rate, exactly once."
OPTIONS: Final = {
    "into": "The topic that the messages go to. Needed, except with --dry-run.",
    "since": "Only messages from this time on, like 2026-01-31T12:00:00Z.",
    "until": "Only messages before this time.",
    "offsets": "Only these offsets, the last one left out: orders/0:100-200,orders/1:50- or 0:100- for all topics.",
    "key": "Only messages with this key.",
    "where": "Only messages that fit this condition in Spark's SQL, like: priority = 0 AND text LIKE '%error%'.",
    "rate": "At most so many messages a second; default as fast as it goes.",
    "timestamps": "original: keep each message's time. Default new: the time of the replay.",
    "partitions": "same: into the partition of the same number. Default key: as the key says.",
    "chunk-rows": "Messages that become visible together; default 50000, or five seconds' worth of the rate.",
    "name": "The same replay is done once, however often it is asked for; with another name it is done again.",
    "sample": "How many messages a dry run shows; default 10.",
}


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """Sends the chosen messages of the archive's topics, or goes on where an earlier run of the same was cut off."""
    from goqueue.pipeline.lake.replaying import replay

    return replay(spark, run, progress)


def replayed(rows: DataFrame) -> DataFrame:
    """Rows of the archive as messages to send: where and when each was stands behind its own headers."""
    from goqueue.pipeline.lake.replaying import replayed as of_archive

    return of_archive(rows)
