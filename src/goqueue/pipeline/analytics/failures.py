"""What went wrong in traces, hour by hour, and how often."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.fingerprint import template
from goqueue.pipeline.analytics.times import date_of, hour_of, moment_of_ns

FAILURES: Final = (
    "consume.nacked",
    "consume.rejected",
    "consume.expired",
    "delay.expired",
    "visibility.timeout",
    "dlq.routed",
    "txn.aborted",
)


def failures(events: DataFrame) -> DataFrame:
    """How often what went wrong in each hour. Reasons are told without what differs from case to case."""
    at = moment_of_ns(f.col("end_ns"))
    told = [f.try_element_at("more", f.lit(name)) for name in ("error", "reason")]
    died_in = f.split_part(f.try_element_at("more", f.lit("from")), f.lit("/"), f.lit(1))
    rows = events.where(f.col("name").isin(*FAILURES)).select(
        date_of(at).alias("date"),
        hour_of(at).alias("hour"),
        f.col("name").alias("event"),
        f.when(f.col("name") == "dlq.routed", died_in).otherwise(f.col("topic")).alias("topic"),
        "group",
        template(f.coalesce(*told)).alias("reason"),
        f.lit(1).cast("bigint").alias("count"),
    )
    return counted(rows)


def counted(rows: DataFrame) -> DataFrame:
    """Rows of the same hour and kind added up."""
    return rows.groupBy("date", "hour", "event", "topic", "group", "reason").agg(f.sum("count").alias("count"))
