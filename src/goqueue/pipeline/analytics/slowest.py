"""The traces that took longest, hour by hour, each with its events."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.failures import FAILURES
from goqueue.pipeline.analytics.times import date_of, hour_of, micros, moment_of_ns

_SLOWEST_MAX: Final = 20  # of an hour
_EVENTS_MAX: Final = 200  # of a trace
_COMPLETED: Final = ("consume.acked", "delay.cancelled")


def slowest(events: DataFrame, count: int = _SLOWEST_MAX) -> DataFrame:
    """Of every hour the traces that took longest, each with its events."""
    # Found by their times alone, so that the events of the few, and not of all, are put together.
    times = events.groupBy("trace_id").agg(f.min("start_ns").alias("start_ns"), f.max("end_ns").alias("end_ns"))
    spans = times.select(
        "trace_id",
        hour_of(moment_of_ns(f.col("start_ns"))).alias("hour"),
        micros(f.col("end_ns") - f.col("start_ns")).alias("took_us"),
    )
    few = _first_of_hours(spans, count).select("trace_id")
    return _traces(events.join(f.broadcast(few), "trace_id", "left_semi"))


def _traces(events: DataFrame) -> DataFrame:
    """One row a trace: where and when it began, how it stands, what happened."""
    first = moment_of_ns(f.min("start_ns"))
    known = f.when(f.col("offset") >= 0, f.col("end_ns"))
    told = f.struct("end_ns", "start_ns", "name")
    rows = events.groupBy("trace_id").agg(
        first.alias("started"),
        f.min_by("topic", "end_ns").alias("topic"),
        f.min_by("partition", "end_ns").alias("partition"),
        f.min_by(f.when(f.col("offset") >= 0, f.col("offset")), known).alias("offset"),
        f.max("key").alias("key"),
        f.max_by("name", "end_ns").alias("last"),
        micros(f.max("end_ns") - f.min("start_ns")).alias("took_us"),
        f.min("start_ns").alias("start_ns"),
        f.slice(f.sort_array(f.collect_list(told)), 1, _EVENTS_MAX).alias("told"),
    )
    return rows.select(
        date_of(f.col("started")).alias("date"),
        hour_of(f.col("started")).alias("hour"),
        "trace_id",
        "topic",
        "partition",
        "offset",
        "key",
        "started",
        "took_us",
        _status().alias("status"),
        f.transform("told", _event).alias("events"),
    )


def _status() -> Column:
    failed = f.when(f.col("last").isin(*FAILURES), "error").otherwise("pending")
    return f.when(f.col("last").isin(*_COMPLETED), "completed").otherwise(failed)


def _event(told: Column) -> Column:
    at_us = micros(told["end_ns"] - f.col("start_ns"))
    took_us = micros(told["end_ns"] - told["start_ns"])
    return f.struct(told["name"].alias("name"), at_us.alias("at_us"), took_us.alias("took_us"))


def longest(traces: DataFrame, count: int = _SLOWEST_MAX) -> DataFrame:
    """Each trace once, as it stood last; of an hour the longest."""
    newest = Window.partitionBy("trace_id").orderBy(f.desc("took_us"))
    once = traces.withColumn("nth", f.row_number().over(newest)).where("nth = 1").drop("nth")
    return _first_of_hours(once, count)


def _first_of_hours(traces: DataFrame, count: int) -> DataFrame:
    slower = Window.partitionBy("hour").orderBy(f.desc("took_us"), "trace_id")
    return traces.withColumn("nth", f.row_number().over(slower)).where(f.col("nth") <= count).drop("nth")
