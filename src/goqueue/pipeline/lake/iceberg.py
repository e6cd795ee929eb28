"""Iceberg tables through pyiceberg: found, made, grown, and given files in one commit. No jars.

The catalogue is a SQL database, by default an SQLite file in the lake. A note in the table's folder says which, so that
a path is enough to open a table. Marks, which make a batch happen once, are properties of the table and change in the
same commit as its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ByteType, IntegerType, ShortType, StructField, StructType

from goqueue.base.decoders import from_json
from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.errors import LakeBusy, LakeUnwritable, NoTable
from goqueue.pipeline.lake.folders import NOTE_OF_ICEBERG as NOTE
from goqueue.pipeline.lake.folders import folder, has_file, location
from goqueue.pipeline.lake.growing import Growth, growth
from goqueue.pipeline.lake.iceberg_catalog import NAMESPACE, open_catalog
from goqueue.pipeline.lake.schemas import arrow_schema, plain

_MARK: Final = "goqueue.mark."
_ATTEMPTS_MAX: Final = 8
_PAUSE_S: Final = 0.1
# A commit that lost a race is never repeated by the library: the other may have written the same batch.
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


class CatalogNote(msgspec.Struct, frozen=True):
    """Where a table is registered: the catalogue's address, and the table's name in it."""

    catalog: str
    name: str


def default_catalog(lake: str) -> str:
    """Beside the tables; object storage has no place for it."""
    if "://" in lake:
        raise LakeUnwritable(
            lake, 'an Iceberg catalogue cannot lie in object storage; say catalog = "sqlite:////path/of/catalog.db"'
        )
    return f"sqlite:///{location(lake)}/_iceberg.db"


def open_iceberg(path: str) -> Table:
    """The table as it stands now, or `NoTable`."""
    if not has_file(path, NOTE):
        raise NoTable(path)
    with folder(location(path)).open_input_stream(NOTE) as file:
        note = from_json(file.read(), CatalogNote)
    try:
        return open_catalog(note.catalog).load_table((NAMESPACE, note.name))
    except NoSuchTableError:
        raise NoTable(path) from None


def ensure_iceberg(path: str, schema: StructType, partition_by: Sequence[str], catalog: str) -> Table:
    """The table, with at least these columns."""
    try:
        if not has_file(path, NOTE):
            _make(path, schema, partition_by, catalog)
        return _grown(open_iceberg(path), plain(schema))
    except OSError as error:
        raise LakeUnwritable(path, error) from error


def spark_columns(table: Table) -> StructType:
    return plain(from_arrow_schema(table.schema().as_arrow()))


def partition_columns(table: Table) -> list[str]:
    return [table.schema().find_column_name(one.source_id) or one.name for one in table.spec().fields]


def mark(table: Table, name: str) -> int | None:
    found = table.properties.get(_MARK + name)
    return None if found is None else int(found)


def has_batch(table: Table, batch: QueryBatch) -> bool:
    found = mark(table, batch.query)
    return found is not None and found >= batch.number


def transact(path: str, batch: QueryBatch | None, change: Callable[[Table, Transaction], Any]) -> bool:
    """One commit of what `change` does and of the batch's mark; False if the table had the batch."""
    for attempt in range(_ATTEMPTS_MAX):
        table = open_iceberg(path)
        if batch is not None and has_batch(table, batch):
            return False
        try:
            with table.transaction() as transaction:
                change(table, transaction)
                if batch is not None:
                    transaction.set_properties({_MARK + batch.query: str(batch.number)})
        except CommitFailedException:
            time.sleep(_PAUSE_S * attempt)
            continue
        except OSError as error:
            raise LakeUnwritable(path, error) from error
        return True
    raise LakeBusy(f"{path} was changed by others {_ATTEMPTS_MAX} times in a row; run fewer jobs on it.")


def data_files(table: Table, snapshot: int | None = None) -> list[Any]:
    """The scan's tasks: a file each, with the deletes that another engine may have laid over it."""
    return list(table.scan(snapshot_id=snapshot).plan_files())


def _make(path: str, schema: StructType, partition_by: Sequence[str], catalog: str) -> None:
    found = open_catalog(catalog)
    name = location(path).rstrip("/").replace("://", "_").replace("/", "_").replace(".", "_").lstrip("_")
    columns = arrow_schema(narrowless(schema))
    try:
        with found.create_table_transaction(
            (NAMESPACE, name), columns, location=location(path), properties=_PROPERTIES
        ) as transaction:
            with transaction.update_spec() as spec:
                for column in partition_by:
                    spec.add_identity(column)
            mapped = create_mapping_from_schema(transaction.table_metadata.schema()).model_dump_json()
            transaction.set_properties({"schema.name-mapping.default": mapped})
    except (TableAlreadyExistsError, CommitFailedException):
        pass  # another made it at the same time
    where = folder(location(path))
    where.create_dir("metadata", recursive=True)
    with where.open_output_stream(NOTE, buffer_size=1 << 16) as file:
        file.write(msgspec.json.encode(CatalogNote(catalog, name)))


def _grown(table: Table, schema: StructType) -> Table:
    wanted = growth(table.location(), spark_columns(table), narrowless(schema))
    if wanted.is_nothing:
        return table
    transact(table.location(), None, lambda _, transaction: _grow(transaction, wanted))
    return open_iceberg(table.location())


def _grow(transaction: Transaction, wanted: Growth) -> None:
    with transaction.update_schema() as update:
        update.union_by_name(arrow_schema(StructType([*wanted.added.fields, *wanted.widened.fields])))


def narrowless(schema: StructType) -> StructType:
    """Iceberg's smallest whole number has four bytes."""
    small = ByteType, ShortType
    return StructType(
        [StructField(one.name, IntegerType() if isinstance(one.dataType, small) else one.dataType) for one in schema]
    )
