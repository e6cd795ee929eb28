"""Delta tables as frames, without jars: the log says which Parquet files count, Spark reads those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from goqueue.pipeline.lake.errors import UnsupportedTable
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.schemas import spark_schema
from goqueue.pipeline.lake.tables import open_table

# With these the files alone do not say what the rows are.
_BEYOND_FILES: Final = frozenset({"deletionVectors", "columnMapping"})

Pruning = list[list[tuple[str, str, Any]]]


def read_table(
    spark: SparkSession, table: str, columns: Sequence[str] | None = None, where: str | None = None
) -> DataFrame:
    """The table as it stands now: these columns of the rows that fit `where`, in Spark's SQL."""
    frame = read_files(spark, open_table(table))
    if where is not None:
        frame = frame.where(where)
    return frame if columns is None else frame.select(*columns)


def read_files(spark: SparkSession, table: DeltaTable, pruning: Pruning | None = None) -> DataFrame:
    """All rows of the files that `pruning` leaves: any of its lists, each of whose conditions may hold in the file."""
    _check_readable(table)
    files = table.file_uris(file_pruning_predicate=pruning) if pruning else table.file_uris()
    schema = spark_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", location(table.table_uri)).parquet(*files).select(*schema.names)


def _check_readable(table: DeltaTable) -> None:
    beyond = sorted(_BEYOND_FILES.intersection(table.protocol().reader_features or ()))
    if beyond:
        raise UnsupportedTable(table.table_uri, beyond)
