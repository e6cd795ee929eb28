"""How long each part of a message's life took, from the events of its trace.

| stage | from | to |
|---|---|---|
| `publish.validate` | the publish came in | it passed the checks |
| `publish.persist` | that | it is in the log |
| `publish.deliver` | it can be had: in the log, committed, due, or back | a group is handed it first |
| `delay.wait` | it was taken | it was due and entered the log |
| `delay.late` | when it was due | it entered the log |
| `lease.ack` | handed out | acked |
| `lease.fail` | handed out | nacked or rejected |
| `lease.timeout` | handed out | the lease ran out |
| `lease.release` | handed out | given back without a failure |
| `redeliver` | failed or given back | handed out again to the same group |
| `dlq.bury` | the last failure | it is among the dead letters |
| `dlq.wait` | that | it is back |
| `txn.end` | added to its transaction | that is over |
| `total` | it came in, or came back | acked by a group |

A stage belongs to the event that ends it, and only earlier events decide about it: what comes later changes nothing.
Messages that share a producer's trace are told apart by their places.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.times import date_of, hour_of, micros, moment_of_ns

_LEASES: Final = {
    "consume.acked": "lease.ack",
    "consume.nacked": "lease.fail",
    "consume.rejected": "lease.fail",
    "visibility.timeout": "lease.timeout",
    "visibility.released": "lease.release",
}
_ENTRIES: Final = ("publish.persisted", "delay.ready", "dlq.redriven", "txn.committed")
_RETURNS: Final = ("consume.nacked", "visibility.timeout", "visibility.released")
_DEATHS: Final = ("consume.nacked", "consume.rejected", "visibility.timeout", "consume.expired")
_BURIED: Final = "dlq.buried"  # a routed message seen from its grave; `dlq.routed` is seen from where it died
_RAISED: Final = "dlq.raised"  # a redriven message seen from its grave
_IDLE: Final = "publish.partitioned"  # no stage begins or ends with it
_MESSAGE: Final = ("trace_id", "topic", "partition", "offset")


def stages(events: DataFrame) -> DataFrame:
    """One row for each stage that an event ends: `stage`, `took_us`, and where and when.

    Events are rows of `trace_id, span_id, name, start_ns, end_ns, topic, partition, offset, group, more`. If they have
    a `number`, a stage has that of the event that ends it.
    """
    timed = _looked_back(_placed(events))
    ended = f.array(f.coalesce(*_ended()), f.coalesce(*_ended_too()))
    found = timed.select("*", f.explode(f.array_compact(ended)).alias("ended"))
    at = moment_of_ns(f.col("end_ns"))
    return found.select(
        date_of(at).alias("date"),
        hour_of(at).alias("hour"),
        at.alias("at"),
        "trace_id",
        "span_id",
        "topic",
        "partition",
        "offset",
        "group",
        f.col("ended.stage").alias("stage"),
        f.greatest(f.col("ended.took_us"), f.lit(0)).alias("took_us"),
        *_number(events),
    )


def _number(events: DataFrame) -> list[str]:
    return [name for name in events.columns if name == "number"]


# --- where an event happened -----------------------------------------------------------------------------------


def _placed(events: DataFrame) -> DataFrame:
    """Events at the message that they happened to. A burial and a way back happen to two: a message and its letter."""
    name, topic, partition, offset = (f.col(one) for one in ("name", "topic", "partition", "offset"))
    here = _seen(name, topic, partition, offset)
    letter = _seen(f.lit(_BURIED), topic, partition, offset)
    seen = (
        f.when(name == "dlq.routed", f.array(letter, _seen_at(name, "/")))
        .when(name == "dlq.redriven", f.array(here, _seen_at(f.lit(_RAISED), ":")))
        .otherwise(f.array(here))
    )
    some = events.where(name != _IDLE)
    spread = some.withColumn("seen", f.explode(seen)).where(f.col("seen.offset").isNotNull())
    told = [f.col(f"seen.{one}").alias(one) for one in ("name", "topic", "partition", "offset")]
    due_ns = (_more("deliver_at").try_cast("bigint") * 1_000_000).alias("due_ns")
    return spread.select(*told, "trace_id", "span_id", "start_ns", "end_ns", "group", due_ns, *_number(events))


def _seen(name: Column, topic: Column, partition: Column, offset: Column) -> Column:
    return f.struct(name.alias("name"), topic.alias("topic"), partition.alias("partition"), offset.alias("offset"))


def _seen_at(name: Column, between: str) -> Column:
    """At the place that the event's `from` names; nowhere if that cannot be read."""
    parts = [f.split_part(_more("from"), f.lit(between), f.lit(number)) for number in (1, 2, 3)]
    return _seen(name, parts[0], parts[1].try_cast("int"), parts[2].try_cast("bigint"))


def _more(name: str) -> Column:
    return f.try_element_at("more", f.lit(name))


# --- what was before it ----------------------------------------------------------------------------------------


def _looked_back(events: DataFrame) -> DataFrame:
    """Each event with the times of those before it that its stages begin with; null where there is none."""
    order = ("end_ns", _rank(), "span_id")
    message = Window.partitionBy(*_MESSAGE).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    group = Window.partitionBy(*_MESSAGE, "group").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    born = _named("publish.received", "publish.persisted", "delay.ready", "dlq.redriven")
    return events.select(
        "*",
        f.min(f.when(born, _birth_ns())).over(message).alias("born_ns"),
        f.max(f.when(_named(*_ENTRIES), f.col("end_ns"))).over(message).alias("entered_ns"),
        f.max(f.when(_named("txn.added"), f.col("end_ns"))).over(message).alias("added_ns"),
        f.max(f.when(_named(_BURIED), f.col("end_ns"))).over(message).alias("buried_ns"),
        f.max(_named("delay.ready")).over(message).alias("was_delayed"),
        f.max(f.when(_named(*_RETURNS), f.col("end_ns"))).over(group).alias("returned_ns"),
        f.max(f.when(_named(*_DEATHS), f.col("end_ns"))).over(group).alias("failed_ns"),
        f.max(_named("consume.fetched")).over(group).alias("was_fetched"),
    )


def _birth_ns() -> Column:
    """A message that comes back begins anew when it is there; the others when they came in."""
    return f.when(_named("dlq.redriven"), f.col("end_ns")).otherwise(f.col("start_ns"))


def _rank() -> Column:
    """The order of events that happened in the same moment: as lives go."""
    return (
        f.when(f.col("name").startswith("delay."), 1)
        .when(_named("publish.persisted"), 2)
        .when(f.col("name").startswith("publish."), 0)
        .when(_named("dlq.redriven", "txn.added", "txn.committed", _BURIED), 3)
        .when(_named("consume.fetched"), 4)
        .otherwise(5)
    )


def _named(*names: str) -> Column:
    return f.col("name").isin(*names)


# --- what it ended ---------------------------------------------------------------------------------------------


def _ended() -> list[Column]:
    """The stage that an event ends: one of these, the others are null."""
    again = f.coalesce("was_fetched", f.lit(False))
    leases = [_stage(stage, _named(name), f.col("start_ns")) for name, stage in _LEASES.items()]
    direct = _named("publish.persisted") & ~f.coalesce("was_delayed", f.lit(False))
    return [
        *leases,
        _stage("publish.validate", _named("publish.validated"), f.col("start_ns")),
        _stage("publish.persist", direct, f.col("start_ns")),
        _stage("publish.deliver", _named("consume.fetched") & ~again, f.col("entered_ns")),
        _stage("delay.wait", _named("delay.ready"), f.col("start_ns")),
        _stage("redeliver", _named("consume.fetched") & again, f.col("returned_ns")),
        _stage("dlq.bury", _named("dlq.routed"), f.col("failed_ns")),
        _stage("dlq.wait", _named(_RAISED), f.col("buried_ns")),
        _stage("txn.end", _named("txn.committed", "txn.aborted"), f.col("added_ns")),
    ]


def _ended_too() -> list[Column]:
    """The second stage of events that end two."""
    return [
        _stage("delay.late", _named("delay.ready"), f.col("due_ns")),
        _stage("total", _named("consume.acked"), f.col("born_ns")),
    ]


def _stage(name: str, is_here: Column, begin_ns: Column) -> Column:
    took_us = micros(f.col("end_ns") - begin_ns)
    found = f.struct(f.lit(name).alias("stage"), took_us.alias("took_us"))
    return f.when(is_here & begin_ns.isNotNull(), found)
