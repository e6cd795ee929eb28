"""A pipeline as Spark would run it, before it runs: every view's columns, and what Spark will not do with a stream."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from goqueue.pipeline.definition.checkpoints import stateful
from goqueue.pipeline.definition.frames import EmptyFrames, Frames, GivenFrames
from goqueue.pipeline.definition.mistakes import Mistake
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.sinks import messages
from goqueue.pipeline.definition.views import Views, build_views, told_at
from goqueue.pipeline.definition.words import PipelineSink

_DIVIDING: Final = ("string", "tinyint", "smallint", "int", "bigint", "date", "boolean")


class SinkPlan(msgspec.Struct, frozen=True):
    sink: PipelineSink
    rows: DataFrame
    is_stream: bool
    state: list[str]


class PipelinePlan(msgspec.Struct, frozen=True):
    views: Views
    sinks: list[SinkPlan]


@contextmanager
def empty_frames(spark: SparkSession, file: PipelineFile, lake: str, node: Mapping[str, str]) -> Iterator[Frames]:
    with tempfile.TemporaryDirectory(prefix="goqueue-check-") as empty:
        yield EmptyFrames(spark, empty, lake, str(file.path.parent.absolute()), node)


def plan(spark: SparkSession, file: PipelineFile, frames: Frames) -> PipelinePlan:
    """All views and sinks, or `PipelineFileError` with the first thing that cannot be."""
    if not isinstance(frames, GivenFrames):
        _check_catalog(file)
    views = build_views(spark, file, frames)
    for number, rule in enumerate(file.definition.rule):
        if not views.broken[rule.view].isStreaming and not isinstance(frames, GivenFrames):
            told = f"rule {rule.name!r}: {rule.view} comes from no topic; leave rows out by SQL instead"
            raise file.refuse(Mistake(told, ("rule", number, "view")))
    return PipelinePlan(views, [_planned(spark, file, views, number) for number in range(len(file.definition.sink))])


def _check_catalog(file: PipelineFile) -> None:
    """Whether its database has a driver here. It is not asked whether it is there."""
    asked = file.definition
    if asked.format != "iceberg" or asked.catalog is None:
        return
    from goqueue.pipeline.lake.iceberg_catalog import CatalogUnfit, check_catalog

    try:
        check_catalog(asked.catalog)
    except CatalogUnfit as error:
        raise file.refuse(Mistake(str(error), ("", 0, "catalog"))) from None


def _planned(spark: SparkSession, file: PipelineFile, views: Views, number: int) -> SinkPlan:
    sink = file.definition.sink[number]
    rows = views.frames[sink.view]
    about, where = f"sink {sink.target!r}", ("sink", number, "")
    _check_names(file, sink, rows, number)
    for key, columns in (
        ("keys", sink.keys),
        ("partition_by", sink.partition_by),
        ("order", _listed(sink.order)),
        ("delete_when", _listed(sink.delete_when)),
    ):
        for column in columns:
            if column not in rows.columns:
                told = f"{about}: {sink.view} has no column {column!r}; it has {', '.join(rows.columns)}"
                raise file.refuse(Mistake(told, ("sink", number, key)))
    with told_at(file, about, where):
        if sink.topic is not None:
            rows = messages(rows, sink)
        if rows.isStreaming:
            _check_streaming(spark, rows, sink)
    _check_repeatable(file, sink, rows, number)
    return SinkPlan(sink, views.frames[sink.view], rows.isStreaming, stateful(rows) if rows.isStreaming else [])


def _check_names(file: PipelineFile, sink: PipelineSink, rows: DataFrame, number: int) -> None:
    """Names that would be refused when the first batch is written."""
    about, where = f"sink {sink.target!r}: {sink.view}", ("sink", number, "view")
    lower = [name.lower() for name in rows.columns]
    doubled = [name for name in rows.columns if lower.count(name.lower()) > 1]
    if doubled:
        raise file.refuse(Mistake(f"{about} has the column {doubled[-1]!r} twice; name them apart by AS", where))
    odd = [name for name in rows.columns if "." in name or "`" in name]
    if odd and sink.topic is None:
        raise file.refuse(Mistake(f"{about}: the column {odd[0]!r} needs a name without a dot; say one by AS", where))
    kinds = dict(rows.dtypes)
    for column in sink.partition_by if sink.table is not None else []:
        if kinds.get(column, "string") not in _DIVIDING:
            told = f"{about}: {column!r} is {kinds[column]}; a table is divided by texts, whole numbers or dates"
            raise file.refuse(Mistake(told, ("sink", number, "partition_by")))
    if sink.delete_when in rows.columns and kinds[str(sink.delete_when)] != "boolean":
        told = f"{about}: {sink.delete_when!r} is {kinds[str(sink.delete_when)]}, and not true or false"
        raise file.refuse(Mistake(told, ("sink", number, "delete_when")))


def _listed(one: str | None) -> list[str]:
    return [] if one is None else [one]


def _check_repeatable(file: PipelineFile, sink: PipelineSink, rows: DataFrame, number: int) -> None:
    if rows.isStreaming or sink.mode in ("merge", "overwrite"):
        return
    told = f"sink {sink.target!r}: {sink.view} comes from no topic, so every run would append all of it again; "
    raise file.refuse(Mistake(told + 'say mode = "overwrite" or "merge"', ("sink", number, "mode")))


def _check_streaming(spark: SparkSession, rows: DataFrame, sink: PipelineSink) -> None:
    """What Spark asks of a plan when a query starts: output mode, watermarks, joins, order of operators."""
    jvm = spark._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[sink.output_mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)
