"""Events of traces as rows: from the files that a node writes, or asked of it over REST.

A line that is no event is counted and passed over: the torn end of a file, or damage. The files hold the four steps
of a message from a large batch as one line; they are spelled out here as the node does it, with the same ids, so that
an event is the same from either source.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.client import Client
from goqueue.client.traces import Trace, TraceEvent, search_traces, trace
from goqueue.pipeline.analytics.times import date_of, moment_of_ns

PATTERN: Final = "traces-*.jsonl"
EVENT: Final = (
    "trace_id string, span_id string, name string, start_ns bigint, end_ns bigint, topic string, partition int, "
    "offset bigint, `group` string, key string, more map<string,string>"
)
_ID: Final = ("trace_id", "span_id")
_LIMIT: Final = 1_000  # traces in one answer
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT: Final = "publish"
_CHECKED: Final = "checked_ns"
_IDS: Final = "18446744073709551616"  # 2^64: span ids go round


def lines_of(spark: SparkSession, folder: str) -> DataFrame:
    """The lines of a node's trace files; the column is `value`."""
    return spark.read.option("pathGlobFilter", PATTERN).text(folder)


def parsed(lines: DataFrame) -> DataFrame:
    """Lines of JSON as rows of `EVENT`; blank ones are left out, and what is no event is not `is_event`."""
    # Out of a generator and not of a projection: a condition on its columns would be moved before a projection, and
    # every line parsed again for each column that it names.
    event = f.from_json("value", EVENT)
    return lines.where(f.length(f.trim("value")) > 0).select(f.inline(f.array(event)))


def is_event() -> Column:
    """Whether a row of `parsed` has all that an event needs."""
    needed = ("trace_id", "span_id", "name", "start_ns", "end_ns", "topic", "partition")
    complete = f.lit(True)
    for name in needed:
        complete = complete & f.col(name).isNotNull()
    return complete & f.col("span_id").rlike("^[0-9a-f]{16}$")


def events_of(lines: DataFrame) -> DataFrame:
    """The events in lines of JSON, each once."""
    return whole(parsed(lines).where(is_event()))


def whole(events: DataFrame) -> DataFrame:
    """Nothing is null that the node left out because it is empty, and short events are spelled out."""
    filled = events.select(
        "trace_id",
        "span_id",
        "name",
        "start_ns",
        "end_ns",
        "topic",
        "partition",
        f.coalesce("offset", f.lit(-1).cast("bigint")).alias("offset"),
        f.coalesce("group", f.lit("")).alias("group"),
        f.coalesce("key", f.lit("")).alias("key"),
        f.coalesce("more", f.create_map().cast("map<string,string>")).alias("more"),
    )
    spelled = filled.withColumn("step", f.explode(f.when(f.col("name") == _SHORT, _steps()).otherwise(_itself())))
    told = ("name", "span_id", "start_ns", "end_ns", "more")
    others = [name for name in filled.columns if name not in told]
    rows = spelled.select(*(f.col(f"step.{name}").alias(name) for name in told), *others)
    at = moment_of_ns(f.col("end_ns"))
    # Brought together first, rows are sorted once; else once before they travel and once after.
    return rows.withColumn("date", date_of(at)).repartition(*_ID).dropDuplicates(list(_ID))


def _itself() -> Column:
    return f.array(_step(f.col("name"), 0, f.col("start_ns"), f.col("end_ns"), f.col("more")))


def _steps() -> Column:
    """Received, validated, partitioned, persisted: one short event stands for all of them."""
    began, done = f.col("start_ns"), f.col("end_ns")
    checked = f.coalesce(f.try_element_at("more", f.lit(_CHECKED)).cast("bigint"), done)
    rest = f.map_filter("more", lambda name, value: name != _CHECKED)
    nothing = f.map_filter("more", lambda name, value: f.lit(False))
    return f.array(
        _step(f.lit("publish.received"), 0, began, began, rest),
        _step(f.lit("publish.validated"), 1, began, checked, nothing),
        _step(f.lit("publish.partitioned"), 2, checked, checked, nothing),
        _step(f.lit("publish.persisted"), 3, checked, done, nothing),
    )


def _step(name: Column, further: int, start: Column, end: Column, more: Column) -> Column:
    parts = {"name": name, "span_id": _later_id(further), "start_ns": start, "end_ns": end, "more": more}
    return f.struct(*(value.alias(key) for key, value in parts.items()))


def _later_id(further: int) -> Column:
    if not further:
        return f.col("span_id")
    number = f"(cast(conv(span_id, 16, 10) as decimal(21, 0)) + {further}) % {_IDS}"
    return f.expr(f"lpad(lower(conv(cast({number} as decimal(20, 0)), 10, 16)), 16, '0')")


# --- over REST -------------------------------------------------------------------------------------------------


class TraceQuery:
    """Asks a node for the traces of a stretch of time, all of them or as many as `traces_max`.

    An answer has at most 1,000 traces. Where it is full, the stretch is halved, down to one millisecond.
    """

    def __init__(self, client: Client, traces_max: int) -> None:
        self._client = client
        self._traces_max = traces_max
        self.is_cut = False  # there was more
        self.seen: set[str] = set()

    def events(self, from_ms: int, to_ms: int) -> Iterator[dict[str, Any]]:
        """Every event of the traces that have one in the stretch, as rows."""
        for trace_id in self._ids(from_ms, to_ms):
            whole = self._client.perform(trace(trace_id))
            yield from (row_of(whole, one) for one in whole.spans)

    def _ids(self, from_ms: int, to_ms: int) -> Iterator[str]:
        waiting = [(from_ms, to_ms)]
        while waiting:
            start, end = waiting.pop()
            found = self._client.perform(search_traces({"from": start, "to": end}, _LIMIT))
            if len(found) == _LIMIT and end - start > 1:
                middle = (start + end) // 2
                waiting += [(start, middle), (middle, end)]
                continue
            self.is_cut = self.is_cut or len(found) == _LIMIT
            for one in found:
                if one.trace_id not in self.seen and len(self.seen) >= self._traces_max:
                    self.is_cut = True
                    return
                if one.trace_id not in self.seen:
                    self.seen.add(one.trace_id)
                    yield one.trace_id


def row_of(whole: Trace, event: TraceEvent) -> dict[str, Any]:
    """An event as the files would have it; REST tells microseconds."""
    end_us = (datetime.fromisoformat(event.time) - _EPOCH) // timedelta(microseconds=1)
    return {
        "trace_id": whole.trace_id,
        "span_id": event.span_id,
        "name": event.name,
        "start_ns": (end_us - event.took_us) * 1000,
        "end_ns": end_us * 1000,
        "topic": event.topic,
        "partition": event.partition,
        "offset": -1 if event.offset is None else event.offset,
        "group": event.group,
        "key": whole.key,
        "more": {name: str(value) for name, value in event.attributes.items()},
    }
