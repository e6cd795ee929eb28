"""The audit: is every offset of every partition in the archive once? One sorted pass over topic, partition, offset."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from goqueue.pipeline.lake.gap_task import COLUMNS, EXPIRED, EXPLAINED, GAP, LOST, OVERLAP, UNKNOWN, GapTask
from goqueue.pipeline.lake.reading import read_files, read_table
from goqueue.pipeline.lake.tables import open_table
from goqueue.pipeline.lake.tending import expired_before
from goqueue.pipeline.lake.writing import write_table
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.running import Run

_PLACE: Final = ("topic", "partition")
_HOLES_MAX: Final = 10_000


class LakeAudit(msgspec.Struct, frozen=True):
    """What was found, by partition, and the holes that somebody should look at."""

    places: list[dict[str, Any]]
    holes: list[dict[str, Any]]

    def sum(self, name: str) -> int:
        return sum(place[name] for place in self.places)


def audit(spark: SparkSession, run: Run) -> LakeAudit:
    """Looks at the whole archive, and into the node's log if its address is known; writes down what it found.

    The tables are `studies/audit`, a row for each partition, and `studies/holes`, the holes that are not explained.
    """
    archive = open_table(run.place("messages"))
    rows = read_files(spark, archive).select(*_PLACE, "offset")
    task = GapTask(*_log_of(run), expired_before(archive))
    found = holes(rows, task).persist()
    try:
        write_table(by_place(rows, found), run.place("studies", "audit"), mode="overwrite")
        write_table(_to_look_at(found), run.place("studies", "holes"), mode="overwrite")
    finally:
        found.unpersist()
    return LakeAudit(_rows(spark, run.place("studies", "audit")), _rows(spark, run.place("studies", "holes")))


def _log_of(run: Run) -> tuple[str | None, dict[Place, int]]:
    """The node's Kafka door and where its logs begin; nothing if no address was given."""
    if run.kafka is None and run.url is None:
        return None, {}
    kafka = doors(run.kafka, run.url).kafka
    there = cluster(kafka)
    places = [Place(topic, number) for topic, count in there.topics().items() for number in range(count)]
    return kafka, there.earliest(places)


def holes(rows: DataFrame, task: GapTask | None = None) -> DataFrame:
    """Gaps and overlaps: offsets from `start` to `end`, both included. Without a task no log is asked about gaps."""
    before = f.lag("offset").over(Window.partitionBy(*_PLACE).orderBy("offset"))
    steps = rows.withColumn("before", before).where("offset <> before + 1")
    is_gap = f.col("offset") > f.col("before")
    found = steps.select(
        *_PLACE,
        f.when(is_gap, GAP).otherwise(OVERLAP).alias("kind"),
        f.when(is_gap, f.col("before") + 1).otherwise(f.col("offset")).alias("start"),
        f.when(is_gap, f.col("offset") - 1).otherwise(f.col("offset")).alias("end"),
    )
    return found.mapInArrow(task or GapTask(None, {}), COLUMNS)


def by_place(rows: DataFrame, found: DataFrame) -> DataFrame:
    """One row for each partition: what is there, and how many offsets are missing for which reason."""
    there = rows.groupBy(*_PLACE).agg(
        f.min("offset").alias("first"), f.max("offset").alias("last"), f.count("*").alias("rows")
    )
    width = f.col("end") - f.col("start") + 1
    gone = found.groupBy(*_PLACE).agg(
        _sum(f.col("kind") == GAP, width).alias("missing"),
        _sum(f.col("kind") == OVERLAP, f.lit(1)).alias("doubled"),
        _sum(f.col("verdict") == EXPLAINED, width).alias("explained"),
        _sum(f.col("verdict") == EXPIRED, f.col("messages")).alias("expired"),
        _sum(f.col("verdict") == LOST, f.col("messages")).alias("lost"),
        _sum(f.col("verdict") == UNKNOWN, width).alias("unknown"),
    )
    return there.join(gone, list(_PLACE), "left").fillna(0)


def _sum(condition: Any, value: Any) -> Any:
    return f.sum(f.when(condition, value).otherwise(0)).cast("bigint")


def _to_look_at(found: DataFrame) -> DataFrame:
    """The largest ones, as many as a person might ever look at."""
    seen = found.where(f.col("verdict") != EXPLAINED).orderBy((f.col("end") - f.col("start")).desc(), *_PLACE, "start")
    return seen.limit(_HOLES_MAX).select(*_PLACE, "kind", "start", "end", "verdict", "messages")


def _rows(spark: SparkSession, table: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in read_table(spark, table).orderBy(*_PLACE).collect()]
