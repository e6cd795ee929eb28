"""A Delta table: found, made, or given the columns it lacks."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructField, StructType

from goqueue.pipeline.lake.errors import LakeUnwritable, NoTable
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.growing import growth
from goqueue.pipeline.lake.schemas import arrow_schema, delta_schema, spark_schema


def exists(path: str) -> bool:
    return DeltaTable.is_deltatable(location(path))


def open_table(path: str) -> DeltaTable:
    """The table as it stands now, or `NoTable`."""
    try:
        return DeltaTable(location(path))
    except TableNotFoundError:
        raise NoTable(path) from None


def ensure_table(path: str, schema: StructType, partition_by: Sequence[str] = (), replace: bool = False) -> DeltaTable:
    """The table, with at least these columns. With `replace` its old columns do not matter."""
    try:
        if not exists(path):
            DeltaTable.create(location(path), delta_schema(schema), mode="ignore", partition_by=list(partition_by))
        table = open_table(path)
        return table if replace else _grown(table, schema)
    except (OSError, DeltaError) as error:
        raise LakeUnwritable(path, error) from error


def _grown(table: DeltaTable, schema: StructType) -> DeltaTable:
    has = spark_schema(table)
    wanted = growth(table.table_uri, has, schema)
    if wanted.widened.fields:
        _widen(table, has, wanted.widened)
    if wanted.added.fields:
        table.alter.add_columns(delta_schema(wanted.added).fields)
        table.update_incremental()
    return table


def _widen(table: DeltaTable, has: StructType, widened: StructType) -> None:
    """Writes all rows anew with the wider types, in one commit: Delta's files have one type for a column."""
    kinds = {field.name: field.dataType for field in widened.fields}
    wider = StructType([StructField(one.name, kinds.get(one.name, one.dataType)) for one in has.fields])
    columns = arrow_schema(wider)
    batches = (rows.cast(columns) for rows in table.to_pyarrow_dataset().to_batches() if rows.num_rows)
    write_deltalake(
        table,
        pa.RecordBatchReader.from_batches(columns, batches),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=table.metadata().partition_columns,
    )
    table.update_incremental()
