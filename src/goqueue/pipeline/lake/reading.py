"""Delta tables as frames, without jars: the log says which Parquet files count, Spark reads those."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from goqueue.pipeline.lake.errors import NoSuchVersion, UnsupportedTable
from goqueue.pipeline.lake.file_task import by_python, knows
from goqueue.pipeline.lake.folders import NOTE_OF_ICEBERG, has_file, location
from goqueue.pipeline.lake.schemas import spark_schema
from goqueue.pipeline.lake.tables import open_table

# With these the files alone do not say what the rows are.
_BEYOND_FILES: Final = frozenset({"deletionVectors", "columnMapping"})

Pruning = list[list[tuple[str, str, Any]]]


def read_table(
    spark: SparkSession,
    table: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of_ms: int | None = None,
) -> DataFrame:
    """The table, Delta or Iceberg, as it stands now or as it was at a time: these columns of the rows that fit
    `where`, in Spark's SQL.
    """
    frame = _iceberg(spark, table, as_of_ms) if has_file(table, NOTE_OF_ICEBERG) else _delta(spark, table, as_of_ms)
    if where is not None:
        frame = frame.where(where)
    return frame if columns is None else frame.select(*columns)


def _delta(spark: SparkSession, table: str, as_of_ms: int | None) -> DataFrame:
    found = open_table(table)
    if as_of_ms is not None:
        try:
            found.load_as_version(dt.datetime.fromtimestamp(as_of_ms / 1000, dt.UTC))
        except DeltaError as error:
            raise NoSuchVersion(table, as_of_ms) from error
    return read_files(spark, found)


def _iceberg(spark: SparkSession, table: str, as_of_ms: int | None) -> DataFrame:
    from goqueue.pipeline.lake.iceberg import data_files, open_iceberg, spark_columns

    found = open_iceberg(table)
    at = None if as_of_ms is None else found.snapshot_as_of_timestamp(as_of_ms)
    if as_of_ms is not None and at is None:
        raise NoSuchVersion(table, as_of_ms)
    tasks = data_files(found, None if at is None else at.snapshot_id)
    if any(task.delete_files for task in tasks):
        raise UnsupportedTable(table, ["delete files"])
    schema = spark_columns(found)
    if not tasks:
        return spark.createDataFrame([], schema)
    files = [task.file.file_path for task in tasks]
    if not knows(spark, table):
        return by_python(spark, table, files, schema)
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*files)


def read_files(spark: SparkSession, table: DeltaTable, pruning: Pruning | None = None) -> DataFrame:
    """All rows of the files that `pruning` leaves: any of its lists, each of whose conditions may hold in the file."""
    _check_readable(table)
    files = table.file_uris(file_pruning_predicate=pruning) if pruning else table.file_uris()
    schema = spark_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    if not knows(spark, table.table_uri):
        return by_python(spark, table.table_uri, files, schema, table.metadata().partition_columns)
    return spark.read.schema(schema).option("basePath", location(table.table_uri)).parquet(*files).select(*schema.names)


def _check_readable(table: DeltaTable) -> None:
    beyond = sorted(_BEYOND_FILES.intersection(table.protocol().reader_features or ()))
    if beyond:
        raise UnsupportedTable(table.table_uri, beyond)
