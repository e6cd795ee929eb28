"""How a pipeline writes its tables: as Delta or as Iceberg, by a setting, with the same promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from goqueue.pipeline.lake.commits import QueryBatch, has_batch
from goqueue.pipeline.lake.either import has_iceberg
from goqueue.pipeline.lake.errors import LakeBusy, LakeError
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.tables import ensure_table, exists
from goqueue.pipeline.lake.writing import write_table

_ATTEMPTS_MAX: Final = 8


class TableStore(Protocol):
    """A batch happens once in a table, however often it is asked for."""

    def ensure(self, path: str, schema: StructType, partition_by: Sequence[str] = ()) -> None: ...

    def write(
        self, rows: DataFrame, path: str, mode: str, partition_by: Sequence[str], batch: QueryBatch | None
    ) -> int: ...

    def merge(
        self, rows: pa.Table, path: str, rule: MergeRule, schema: StructType, batch: QueryBatch | None
    ) -> int: ...


class DeltaStore:
    def ensure(self, path: str, schema: StructType, partition_by: Sequence[str] = ()) -> None:
        if has_iceberg(path):
            raise LakeError(f'{path} is an Iceberg table; say format = "iceberg", or name another table.')
        ensure_table(path, schema, partition_by)

    def write(
        self, rows: DataFrame, path: str, mode: str, partition_by: Sequence[str], batch: QueryBatch | None
    ) -> int:
        name, number = (None, None) if batch is None else (batch.query, batch.number)
        return write_table(rows, path, mode=mode, partition_by=partition_by, app_id=name, version=number)

    def merge(self, rows: pa.Table, path: str, rule: MergeRule, schema: StructType, batch: QueryBatch | None) -> int:
        marks = [] if batch is None else [Transaction(batch.query, batch.number)]
        for _ in range(_ATTEMPTS_MAX):
            table = ensure_table(path, schema)
            if batch is not None and has_batch(table, batch):
                return 0
            try:
                _merge_into(table, _whole(rows, table), rule, CommitProperties(app_transactions=marks))
            except CommitFailedError:
                continue
            return int(rows.num_rows)
        raise LakeBusy(f"{path} was changed by others {_ATTEMPTS_MAX} times in a row; run fewer jobs on it.")


def _whole(rows: pa.Table, table: DeltaTable) -> pa.Table:
    """With the columns that only the table has, as nulls: a new row leaves nothing of the old one."""
    given = {name.lower() for name in rows.column_names}
    for field in pa.schema(table.schema().to_arrow()):
        if field.name.lower() not in given:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def _merge_into(table: DeltaTable, rows: pa.Table, rule: MergeRule, properties: CommitProperties) -> None:
    same = " AND ".join(f"t.`{key}` = s.`{key}`" for key in rule.keys)
    newer = f"(t.`{rule.order}` IS NULL OR s.`{rule.order}` >= t.`{rule.order}`)" if rule.order else "true"
    gone = f"coalesce(s.`{rule.delete_when}`, false)" if rule.delete_when else "false"
    merger = table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=properties)
    if rule.delete_when:
        merger = merger.when_matched_delete(f"{gone} AND {newer}")
    merger.when_matched_update_all(newer).when_not_matched_insert_all(f"NOT {gone}").execute()


class IcebergStore:
    """`catalog` is the address of a SQL database, like sqlite:////data/lake.db."""

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog

    def ensure(self, path: str, schema: StructType, partition_by: Sequence[str] = ()) -> None:
        from goqueue.pipeline.lake.iceberg import ensure_iceberg

        if exists(path):
            raise LakeError(f"{path} is a Delta table; leave format away, or name another table.")
        ensure_iceberg(path, schema, partition_by, self._catalog)

    def write(
        self, rows: DataFrame, path: str, mode: str, partition_by: Sequence[str], batch: QueryBatch | None
    ) -> int:
        from goqueue.pipeline.lake.iceberg_writing import write_iceberg

        return write_iceberg(rows, path, self._catalog, mode, partition_by, batch)

    def merge(self, rows: pa.Table, path: str, rule: MergeRule, schema: StructType, batch: QueryBatch | None) -> int:
        from goqueue.pipeline.lake.iceberg_writing import merge_iceberg

        self.ensure(path, schema)
        return merge_iceberg(rows, path, rule, schema, batch)


def store(kind: str, lake: str, catalog: str | None) -> TableStore:
    """What a pipeline's settings mean: `delta`, or `iceberg` with its catalogue, which is opened."""
    if kind == "delta":
        return DeltaStore()
    from goqueue.pipeline.lake.iceberg import default_catalog
    from goqueue.pipeline.lake.iceberg_catalog import open_catalog

    address = catalog or default_catalog(lake)
    open_catalog(address)
    return IcebergStore(address)
