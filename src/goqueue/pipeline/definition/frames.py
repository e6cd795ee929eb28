"""Sources as frames: of a running node, without any rows (to check a pipeline), or with given rows (to test it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from goqueue.base.times import parse_time_ms
from goqueue.pipeline.definition.words import PipelineSource, Rows
from goqueue.pipeline.lake.reading import read_table

# The columns that a read of a topic has, whatever is in it.
RAW: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
PLACE: Final = ("_key", "_topic", "_partition", "_offset", "_timestamp")
# As spreadsheets read and write it. Spark's own way has a backslash before quotes, and neither spaces at the ends of a
# value nor lines in it.
_CSV: Final = {
    "header": "true",
    "escape": '"',
    "multiLine": "true",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class Frames(Protocol):
    """Where a pipeline's rows come from."""

    def frame(self, source: PipelineSource) -> DataFrame: ...


class NodeFrames:
    """Topics of a node as streams, tables and files as they stand now.

    `begun_ms` is where topics begin, if there is no checkpoint, instead of what their sources say.
    """

    def __init__(
        self, spark: SparkSession, node: Mapping[str, str], lake: str, folder: str, begun_ms: int | None = None
    ) -> None:
        self._spark, self._node, self._lake, self._folder = spark, node, lake, folder
        self._begun_ms = begun_ms

    def frame(self, source: PipelineSource) -> DataFrame:
        if source.topic is not None:
            return shaped(self._stream(source), source)
        return static(self._spark, source, self._lake, self._folder)

    def _stream(self, source: PipelineSource) -> DataFrame:
        options = {**self._node, "subscribe": source.topic, "maxOffsetsPerTrigger": str(source.max_rows)}
        if source.schema == "registry":
            options |= {"schema": "registry", "mode": "permissive"}
        if self._begun_ms is None and source.begin in ("earliest", "latest"):
            options["startingOffsets"] = source.begin
        else:
            since_ms = self._begun_ms
            if since_ms is None:
                since_ms = parse_time_ms(source.begin, "begin")
            options["startingTimestamp"] = str(since_ms)
            options["startingOffsetsByTimestampStrategy"] = "latest"
        return self._spark.readStream.format("goqueue").options(**options).load()


class EmptyFrames:
    """The same frames as far as Spark's analysis can tell, and no rows: streams over a folder that is empty."""

    def __init__(self, spark: SparkSession, empty: str, lake: str, folder: str, node: Mapping[str, str]) -> None:
        self._spark, self._empty, self._lake, self._folder, self._node = spark, empty, lake, folder, node

    def frame(self, source: PipelineSource) -> DataFrame:
        if source.topic is None:
            return static(self._spark, source, self._lake, self._folder)
        rows = self._spark.readStream.schema(self._schema(source)).parquet(self._empty)
        return shaped(rows, source)

    def _schema(self, source: PipelineSource) -> StructType | str:
        if source.schema != "registry":
            return RAW
        options = {**self._node, "subscribe": str(source.topic), "schema": "registry", "mode": "permissive"}
        return self._spark.read.format("goqueue").options(**options).load().schema


class GivenFrames:
    """Rows of a test. What a row does not name is null; places in the topic are made up in order."""

    def __init__(self, spark: SparkSession, like: Frames, given: Mapping[str, Rows]) -> None:
        self._spark, self._like, self._given = spark, like, given

    def frame(self, source: PipelineSource) -> DataFrame:
        schema = self._like.frame(source).schema
        rows = [_filled(row, number, schema, source) for number, row in enumerate(self._given.get(source.name, []))]
        return self._spark.createDataFrame(rows, schema, verifySchema=True)


def _filled(row: Mapping[str, object], number: int, schema: StructType, source: PipelineSource) -> tuple[object, ...]:
    unknown = sorted(set(row) - set(schema.names))
    if unknown:
        raise ValueError(f"source {source.name!r} has no column {unknown[0]!r}")
    made_up = {"_topic": source.topic, "_partition": 0, "_offset": number} if source.topic is not None else {}
    return tuple({**made_up, **row}.get(name) for name in schema.names)


def shaped(rows: DataFrame, source: PipelineSource) -> DataFrame:
    """A topic's rows as people want them: columns of the value, and where the message stands in `_` columns."""
    place = [
        f.col("key").cast("string").alias("_key"),
        f.col("topic").alias("_topic"),
        f.col("partition").alias("_partition"),
        f.col("offset").alias("_offset"),
        f.col("timestamp").alias("_timestamp"),
    ]
    if source.schema == "registry":
        return rows.select("value.*", *place)
    if source.columns is not None:
        parsed = f.from_json(f.col("value").cast("string"), source.columns)
        found = rows.select(parsed.alias("value"), f.col("value").cast("string").alias("_value"), *place)
        return found.select("value.*", "_value", *PLACE)
    return rows.select(f.col("value").cast("string").alias("value"), *place)


def static(spark: SparkSession, source: PipelineSource, lake: str, folder: str) -> DataFrame:
    """A table or files as they stand now: a stream joins them so until it is started again."""
    if source.table is not None:
        as_of_ms = None if source.as_of is None else parse_time_ms(source.as_of, "as_of")
        return read_table(spark, f"{lake}/{source.table}", as_of_ms=as_of_ms)
    path = str(source.file)
    kind = source.format or path.rsplit(".", 1)[-1].lower()
    reader = spark.read.format(kind).options(**file_options(kind), inferSchema="true")
    if source.columns is not None:
        reader = reader.schema(source.columns)
    return reader.load(path if "://" in path else f"{folder}/{path}")


def file_options(kind: str) -> Mapping[str, str]:
    """How files are read and written."""
    return _CSV if kind == "csv" else {}
