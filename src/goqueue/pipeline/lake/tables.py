"""A Delta table: found, made, or given the columns it lacks."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructType

from goqueue.pipeline.lake.errors import LakeUnwritable, NoTable
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.schemas import delta_schema, new_columns


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
    missing = new_columns(table, schema)
    if missing.fields:
        table.alter.add_columns(delta_schema(missing).fields)
        table.update_incremental()
    return table
