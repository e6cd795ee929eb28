"""How long each part of messages' lives took, from the traces of a node: percentiles, slowest traces, failures.

    from goqueue.pipeline.analytics.latency import latency, percentiles

    hours = latency(events)              # events as `trace_events.events_of` reads them from a node's trace files
    percentiles(hours, "stage")          # of all hours together, topics and groups too

The sketches in an hour's rows (KLL) merge: percentiles of any range come from its hours' rows, within 1 % of rank.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.failures import counted, failures
from goqueue.pipeline.analytics.journal import Journal, Pass
from goqueue.pipeline.analytics.slowest import longest, slowest
from goqueue.pipeline.analytics.stages import stages
from goqueue.pipeline.analytics.tables import append_once, kept, merge_once, overwrite, place, rows_of
from goqueue.pipeline.analytics.trace_events import EVENT, TraceQuery, is_event, lines_of, parsed, whole
from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.tables import exists, open_table
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "latency"
SUMMARY_LINE: Final = "Latency of every stage of messages' lives from their traces, the slowest of them, and failures."
OPTIONS: Final = {
    "traces": "Folder of the node's trace files, `traces` in its data directory; without it the node is asked.",
    "traces-max": "How many traces the node is asked for in one run; default 1000.",
}
PERCENTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99}
_SKETCH_K: Final = 400
_HOUR: Final = ("date", "hour", "topic", "group", "stage")
_WHERE: Final = "they are in `traces` in the node's data directory, once a message was traced."
_TRACES_MAX: Final = 1_000
_OVERLAP_MS: Final = 10_000  # the node writes events a little later than they happen


def latency(events: DataFrame) -> DataFrame:
    """One row for each hour, topic, group and stage: `count`, percentiles, and a sketch that merges."""
    return _finished(_sketched(stages(events)))


def percentiles(hours: DataFrame, *by: str) -> DataFrame:
    """Rows of `latency`, of any range, merged into one for each value of `by`."""
    return _finished(_merged(hours, *by))


def _sketched(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_HOUR).agg(
        f.count(f.lit(1)).alias("count"),
        f.sum("took_us").alias("sum_us"),
        f.min("took_us").alias("min_us"),
        f.max("took_us").alias("max_us"),
        f.kll_sketch_agg_bigint("took_us", _SKETCH_K).alias("sketch"),
    )


def _merged(rows: DataFrame, *by: str) -> DataFrame:
    return rows.groupBy(*by).agg(
        f.sum("count").alias("count"),
        f.sum("sum_us").alias("sum_us"),
        f.min("min_us").alias("min_us"),
        f.max("max_us").alias("max_us"),
        f.kll_merge_agg_bigint("sketch", _SKETCH_K).alias("sketch"),
    )


def _finished(rows: DataFrame) -> DataFrame:
    quantiles = [
        f.kll_sketch_get_quantile_bigint("sketch", f.lit(rank)).alias(name) for name, rank in PERCENTILES.items()
    ]
    return rows.select(*(name for name in rows.columns if name != "sketch"), *quantiles, "sketch")


# --- the pipeline ----------------------------------------------------------------------------------------------


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """One pass: the events that are new, and what they add to the tables. A pass that was cut off is finished."""
    began = time.monotonic()
    table = place(run.lake, "trace_events")
    progress.step("reading events of traces")
    with _found(spark, run) as found:
        new = _new(spark, found.events, table, run.topics)
        facts: dict[str, Any] = {"unreadable_lines": found.unreadable}
        if run.dry_run:
            return Summary(NAME, new.count(), 0, time.monotonic() - began, 0, facts, found.warnings)
        count, rows = _study(spark, run.lake, new, progress)
    facts |= {"events": count, "stages": _told(run.lake)}
    return Summary(NAME, count, rows, time.monotonic() - began, int(rows > 0), facts, found.warnings)


def _study(spark: SparkSession, lake: str, new: DataFrame, progress: Progress) -> tuple[int, int]:
    """How many events were new, and how many rows the hours' days have now."""
    journal = Journal(place(lake, f"progress_{NAME}"))
    last = journal.last()
    was_cut_off = last is not None and not last.is_done
    number = 0 if last is None else last.number + last.is_done
    journal.begin(_pass(number))
    count = append_once(new.withColumn("number", f.lit(number)), place(lake, "trace_events"), NAME, number)
    progress.step("measuring stages", 0, count)
    rows = _derive(spark, lake, number) if count or was_cut_off else 0
    progress.step("measuring stages", count, count)
    journal.finish(_pass(number))
    return count, rows


def _pass(number: int) -> Pass:
    """Events are known by their ids, so that a pass has no offsets to remember."""
    return Pass(number, (OffsetRange("traces", 0, 0, 0),))


class _Found(NamedTuple):
    events: DataFrame  # not yet `whole`
    unreadable: int
    warnings: list[str]


def _found(spark: SparkSession, run: Run) -> AbstractContextManager[_Found]:
    folder = run.options.get("traces")
    return nullcontext(_asked(spark, run)) if folder is None else _read(spark, folder)


@contextmanager
def _read(spark: SparkSession, folder: str) -> Iterator[_Found]:
    """Lines are parsed once, however often their events are looked at while the block lasts."""
    try:
        lines = lines_of(spark, folder)
    except AnalysisException as error:
        raise PipelineError(f"There is no folder {folder!r}; {_WHERE}") from error
    with kept(parsed(lines)) as rows:
        bad = rows.where(~is_event()).count()
        warnings = [f"{bad:,} lines of the trace files are no events and were passed over."] if bad else []
        warnings += [] if lines.inputFiles() else [f"There are no trace files in {folder!r}; {_WHERE}"]
        yield _Found(rows.where(is_event()), bad, warnings)


def _asked(spark: SparkSession, run: Run) -> _Found:
    known = rows_of(spark, place(run.lake, "trace_events"))
    newest = None if known is None else known.agg(f.max("end_ns")).collect()[0][0]
    from_ms = 0 if newest is None else max(0, newest // 1_000_000 - _OVERLAP_MS)
    with node_client(doors(run.kafka, run.url).url) as client:
        asked = TraceQuery(client, choices.number(run.options, "traces-max", None) or _TRACES_MAX)
        rows = [tuple(one.values()) for one in asked.events(from_ms, time.time_ns() // 1_000_000 + 1)]
    warnings = [f"Only {len(asked.seen):,} traces were asked for; read the node's files with --traces."]
    return _Found(spark.createDataFrame(rows, EVENT), 0, warnings if asked.is_cut else [])


def _new(spark: SparkSession, events: DataFrame, table: str, topics: Sequence[str]) -> DataFrame:
    """Events that the table does not have; of traces that have to do with these topics, or of all."""
    known = rows_of(spark, table)
    if topics:
        told = events.select("trace_id", "topic")
        everything = told if known is None else told.unionByName(known.select("trace_id", "topic"))
        wanted = everything.where(f.col("topic").isin(list(topics))).select("trace_id").distinct()
        events = events.join(wanted, "trace_id", "left_semi")
    found = whole(events)
    return found if known is None else found.join(known, ["trace_id", "span_id"], "left_anti")


def _derive(spark: SparkSession, lake: str, number: int) -> int:
    """What the events of a pass add to the other tables; how many rows their days have now."""
    known = rows_of(spark, place(lake, "trace_events"))
    if known is None:
        return 0
    fresh = known.where(f.col("number") == number)
    with kept(known.join(fresh.select("trace_id").distinct(), "trace_id", "left_semi")) as lives:
        ended = stages(lives).where(f.col("number") == number)
        with kept(_sketched(ended)) as hours:
            rows = merge_once(hours, place(lake, "latency"), NAME, number, lambda all_: percentiles(all_, *_HOUR))
        with kept(slowest(lives)) as slow:
            merge_once(slow, place(lake, "slowest"), NAME, number, longest)
        with kept(failures(fresh)) as failed:
            merge_once(failed, place(lake, "failures"), NAME, number, counted)
    everything = rows_of(spark, place(lake, "latency"))
    if everything is not None:
        overwrite(percentiles(everything, "topic", "stage").drop("sketch"), place(lake, "stages"))
    return rows


def _told(lake: str) -> list[dict[str, Any]]:
    """The stages over all time, as the summary shows them."""
    table = place(lake, "stages")
    rows = open_table(table).to_pyarrow_table().to_pylist() if exists(table) else []
    shown = ("topic", "stage", "count", *PERCENTILES, "max_us")
    return sorted(({name: row[name] for name in shown} for row in rows), key=lambda one: (one["topic"], one["stage"]))
