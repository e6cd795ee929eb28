"""How much flowed: windows of messages, bytes and different keys by topic, partition and lane, and groups' lag.

    from goqueue.pipeline.analytics.rates import rates

    rates(spark.read.format("goqueue").option("subscribe", "orders").option("includeMetadata", "true").load())

`keys` are estimated (within about 2 %), from sketches that merge: windows of a topic add up over partitions and runs.
"""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.pipeline.analytics import lag
from goqueue.pipeline.analytics.journal import Journal, Pass, following, reached, unfinished
from goqueue.pipeline.analytics.messages import Messages
from goqueue.pipeline.analytics.tables import kept, merge_once, place
from goqueue.pipeline.analytics.times import date_of
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "rates"
SUMMARY_LINE: Final = "Windows of message rate, size, keys and lanes, and the lag of groups over time."
OPTIONS: Final = {
    "window": "Length of a window, like 10s, 1m or 1h; default 1m.",
    "source": "Where messages come from: auto (the lake's archive where it has the topic), lake or topics.",
}
_COLUMNS: Final = ("key", "topic", "partition", "timestamp", "priority", "value")
_SKETCH_LG: Final = 12  # 4,096 registers: keys within 1.6 %
_WINDOW: Final = ("date", "start", "seconds")
_PLACE: Final = ("topic", "partition", "lane")
_WINDOW_MS_MAX: Final = 86_400_000


def rates(frame: DataFrame, window: str = "1m") -> DataFrame:
    """One row for each window, topic, partition and lane of messages as the connector reads them.

    Without `includeMetadata` nobody knows the lane, and it is null.
    """
    return _finished(_added(_counted(frame, window), *_PLACE))


def traffic(found: DataFrame) -> DataFrame:
    """Rates of whole topics, from what `rates` gives."""
    return _finished(_added(found, "topic"))


def _counted(frame: DataFrame, window: str) -> DataFrame:
    length_ms = window_ms(window)
    lane = f.col("priority") if "priority" in frame.columns else f.lit(None).cast("int")
    start = f.window("timestamp", f"{length_ms} milliseconds")["start"]
    rows = frame.select(
        date_of(start).alias("date"),
        start.alias("start"),
        f.lit(length_ms / 1000).alias("seconds"),
        "topic",
        "partition",
        lane.alias("lane"),
        (_length("key") + _length("value")).alias("size"),
        "key",
    )
    sketch = f.hll_sketch_agg("key", _SKETCH_LG).alias("keys_sketch")
    sums = (f.count(f.lit(1)).alias("messages"), f.sum("size").alias("bytes"), sketch)
    return rows.groupBy(*_WINDOW, *_PLACE).agg(*sums)


def _length(name: str) -> Column:
    return f.coalesce(f.octet_length(name), f.lit(0)).cast("bigint")


def _added(rows: DataFrame, *by: str) -> DataFrame:
    sketch = f.hll_union_agg("keys_sketch").alias("keys_sketch")
    sums = (f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"), sketch)
    return rows.groupBy(*_WINDOW, *by).agg(*sums)


def _finished(rows: DataFrame) -> DataFrame:
    return rows.select(
        *(name for name in rows.columns if name != "keys_sketch"),
        f.hll_sketch_estimate("keys_sketch").alias("keys"),
        (f.col("messages") / f.col("seconds")).alias("messages_per_second"),
        (f.col("bytes") / f.col("seconds")).alias("bytes_per_second"),
        "keys_sketch",
    )


def window_ms(text: str) -> int:
    """A window's length. It divides a day, so that every day begins with one."""
    try:
        found = parse_duration_ms(text, "window")
    except InvalidField as error:
        raise PipelineError(error.message) from None
    if not 0 < found <= _WINDOW_MS_MAX or _WINDOW_MS_MAX % found:
        raise PipelineError(f"A window of {text!r} does not divide a day; use one like 10s, 1m, 15m or 1h.")
    return found


# --- the pipeline ----------------------------------------------------------------------------------------------


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """One pass over what is new, and one sample of every group's lag. Each length of windows is studied on its own."""
    began = time.monotonic()
    window = run.options.get("window", "1m")
    study = f"{NAME}_{window_ms(window)}ms"
    journal = Journal(place(run.lake, f"progress_{study}"))
    progress.step("looking for new messages")
    last = journal.last()
    messages = Messages(spark, run, run.topics, unfinished(last))
    to_do, warnings = following(last, messages.bounds(reached(last)))
    rows = 0
    if to_do is not None and not run.dry_run:
        journal.begin(to_do)
        rows = _study(run.lake, messages, to_do, study, window, progress)
        journal.finish(to_do)
    progress.step("asking groups for their lag")
    samples, warning = (0, None) if run.dry_run else lag.sample(run)
    facts = {"windows": rows, "lag_samples": samples, "topics": len(messages.topics)}
    read = 0 if to_do is None else to_do.size
    warnings += [warning] if warning else []
    return Summary(NAME, read, rows + samples, time.monotonic() - began, int(to_do is not None), facts, warnings)


def _study(lake: str, messages: Messages, to_do: Pass, study: str, window: str, progress: Progress) -> int:
    """How many windows the days of the pass have now."""
    progress.step("counting messages by window", 0, to_do.size)
    with kept(_counted(messages.frame(to_do.work, _COLUMNS), window)) as new:
        rows = merge_once(new, place(lake, "rates"), study, to_do.number, lambda all_: _finished(_added(all_, *_PLACE)))
        merge_once(_added(new, "topic"), place(lake, "traffic"), study, to_do.number, traffic)
    progress.step("counting messages by window", to_do.size, to_do.size)
    return rows
