"""A table's files read by Python workers, for storage that this Spark has no connector for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from goqueue.pipeline.lake.folders import NOTHING, folder, location
from goqueue.pipeline.lake.parts import conform
from goqueue.pipeline.lake.schemas import arrow_schema


def knows(spark: SparkSession, path: str) -> bool:
    """Whether Spark itself can read there: local files always, object storage with Hadoop's connector for it."""
    scheme, found, _ = path.partition("://")
    if not found or scheme == "file":
        return True
    jvm = spark._jvm
    assert jvm is not None
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark.sparkContext._jsc.hadoopConfiguration())
    except Exception:  # the JVM's, of whatever kind: there is none
        return False
    return True


def by_python(
    spark: SparkSession, table: str, files: Sequence[str], schema: StructType, partition_by: Sequence[str] = ()
) -> DataFrame:
    """A task for each file. Conditions are applied after reading, and all columns are read."""
    root = location(table)
    named = spark.createDataFrame([(one.removeprefix(f"{root}/"),) for one in files], "path string")
    task = _Reading(root, arrow_schema(schema), tuple(partition_by))
    return named.repartition(len(files)).mapInArrow(task, schema)


class _Reading:
    """What one task does: paths come in, rows go out."""

    def __init__(self, table: str, schema: pa.Schema, partition_by: tuple[str, ...]) -> None:
        self._table, self._schema, self._by = table, schema, partition_by

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        where = folder(self._table)
        for rows in batches:
            for path in rows.column(0).to_pylist():
                with where.open_input_file(path) as file:
                    for batch in pq.ParquetFile(file).iter_batches():
                        yield conform(self._with_values(batch, path), self._schema)

    def _with_values(self, rows: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Delta's files leave out what the table is divided by; the directories say it."""
        said = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        for name in self._by:
            if name not in rows.schema.names:
                text = unquote(said[name])
                value = pa.array([None if text == NOTHING else text] * rows.num_rows, pa.string())
                rows = rows.append_column(name, value.cast(self._schema.field(name).type))
        return rows
