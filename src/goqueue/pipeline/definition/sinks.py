"""Rows to where they go. A stream's batches arrive exactly once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, FloatType

from goqueue.pipeline.definition.frames import file_options
from goqueue.pipeline.definition.views import BROKEN, quarantined
from goqueue.pipeline.definition.words import QUARANTINE, PipelineSink
from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.stores import DeltaStore, TableStore
from goqueue.pipeline.lake.writing import EachBatch, query_id, start

KEY_RULE: Final = "key-is-there"


class QuarantineCount(msgspec.Struct):
    """Rows that went to a quarantine since the pipeline started; and those without a key that no table took."""

    rows: int = 0
    left_out: int = 0


class SinkPlace(msgspec.Struct, frozen=True):
    """What sinks of one run share. `every_s` None works off what is there and ends."""

    pipeline: str
    lake: str
    folder: str
    node: Mapping[str, str]
    every_s: float | None
    tables: TableStore = DeltaStore()
    checkpoints: str | None = None
    quarantined: QuarantineCount = msgspec.field(default_factory=QuarantineCount)

    @property
    def once(self) -> bool:
        return self.every_s is None

    def table(self, name: str) -> str:
        return f"{self.lake}/{name}"

    def file(self, path: str) -> str:
        return path if "://" in path else f"{self.folder}/{path}"

    def checkpoint(self, sink: str) -> str:
        return f"{self.checkpoints or f'{self.lake}/_checkpoints'}/pipelines/{self.pipeline}/{sink}"


def messages(rows: DataFrame, sink: PipelineSink) -> DataFrame:
    """Rows as messages: the value is JSON of all columns unless the sink says another expression."""
    plain = [f"`{name}`" for name in rows.columns if not name.startswith("_")]
    value = f.expr(sink.value) if sink.value else f.to_json(f.struct(*plain))
    key = f.expr(sink.key).cast("string") if sink.key else f.lit(None).cast("string")
    return rows.select(key.alias("key"), value.cast("string").alias("value"))


def start_sink(rows: DataFrame, sink: PipelineSink, place: SinkPlace) -> StreamingQuery:
    name, checkpoint = f"{place.pipeline}/{sink.id}", place.checkpoint(sink.id)
    if sink.table is not None:
        return start(
            rows,
            _each(rows, sink, place),
            name,
            checkpoint,
            once=place.once,
            every_s=place.every_s,
            output=sink.output_mode,
        )
    if sink.topic is not None:
        writer = messages(rows, sink).writeStream.format("goqueue").options(**place.node, topic=sink.topic)
    else:
        writer = rows.writeStream.format(sink.format).options(**file_options(sink.format))
        writer = writer.option("path", place.file(str(sink.file)))
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    writer = writer.outputMode(sink.output_mode).queryName(name).option("checkpointLocation", checkpoint)
    if place.every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{place.every_s} seconds").start()


def start_quarantine(rows: DataFrame, table: str, view: str, place: SinkPlace) -> StreamingQuery:
    """Broken rows of a view into their table."""
    shaped = quarantined(rows, place.pipeline, view)
    path = place.table(table)
    place.tables.ensure(path, shaped.schema)

    def write(batch: DataFrame, number: int) -> int:
        rows = place.tables.write(batch, path, "append", (), QueryBatch(query_id(batch), number))
        place.quarantined.rows += rows
        return rows

    name = f"quarantine-{view}"
    return start(
        shaped, write, f"{place.pipeline}/{name}", place.checkpoint(name), once=place.once, every_s=place.every_s
    )


def _each(rows: DataFrame, sink: PipelineSink, place: SinkPlace) -> EachBatch:
    path = place.table(str(sink.table))
    place.tables.ensure(path, rows.schema, sink.partition_by)

    def write(batch: DataFrame, number: int) -> int | None:
        found = QueryBatch(query_id(batch), number)
        if sink.mode != "merge":
            return place.tables.write(batch, path, sink.mode, sink.partition_by, found)
        merge(batch, sink, place, found)
        return None

    return write


def write_static(rows: DataFrame, sink: PipelineSink, place: SinkPlace) -> int:
    """Rows of no stream: in place of what is there, or merged into it, so that a second run changes nothing."""
    if sink.table is not None and sink.mode == "merge":
        place.tables.ensure(place.table(sink.table), rows.schema, sink.partition_by)
        return merge(rows, sink, place, None)
    if sink.table is not None:
        return place.tables.write(rows, place.table(sink.table), "overwrite", sink.partition_by, None)
    writer = rows.write.mode("overwrite").format(sink.format).options(**file_options(sink.format))
    writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    writer.save(place.file(str(sink.file)))
    return rows.count()


def merge(rows: DataFrame, sink: PipelineSink, place: SinkPlace, batch: QueryBatch | None) -> int:
    """The newest row of every key takes the place of the table's. Rows without a key go to the quarantine.

    Those of no stream would go there again in every run: they are counted.
    """
    held = rows.persist()  # it is looked at twice, and read once
    try:
        if batch is not None:
            _keep_keyless(held, sink, place, batch)
        else:
            place.quarantined.left_out += held.where(_is_keyless(held, sink.keys)).count()
        newest = _newest(held.where(~_is_keyless(held, sink.keys)), sink)
        found = newest.toArrow().cast(arrow_schema(newest.schema))
    finally:
        held.unpersist()
    rule = MergeRule(sink.keys, sink.order, sink.delete_when)
    return place.tables.merge(found, place.table(str(sink.table)), rule, rows.schema, batch)


def _keep_keyless(rows: DataFrame, sink: PipelineSink, place: SinkPlace, batch: QueryBatch) -> None:
    keyless = rows.where(_is_keyless(rows, sink.keys))
    broken = quarantined(keyless.withColumn(BROKEN, f.array(f.lit(KEY_RULE))), place.pipeline, sink.view)
    keyed = QueryBatch(f"{batch.query}/{KEY_RULE}", batch.number)
    place.quarantined.rows += place.tables.write(broken, place.table(QUARANTINE), "append", (), keyed)


def _is_keyless(rows: DataFrame, keys: Sequence[str]) -> Column:
    """Whether a part of the key is null, or not a number: nothing is equal to that."""
    parts = [f.col(f"`{key}`") for key in keys]
    numbers = [f.col(f"`{key}`") for key in keys if isinstance(rows.schema[key].dataType, FloatType | DoubleType)]
    found: Column = reduce(or_, [*(part.isNull() for part in parts), *(f.isnan(part) for part in numbers)])
    return found


def _newest(rows: DataFrame, sink: PipelineSink) -> DataFrame:
    order = sink.order or ("_offset" if "_offset" in rows.columns else None)
    if order is None:
        return rows.dropDuplicates(sink.keys)
    by = Window.partitionBy(*sink.keys).orderBy(f.expr(order).desc_nulls_last())
    return rows.withColumn("_rank", f.row_number().over(by)).where("_rank = 1").drop("_rank")
