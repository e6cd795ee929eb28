"""Frames into Iceberg tables: executors write the files, the driver commits them; merges by the newest row of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In, Reference
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.iceberg import (
    data_files,
    ensure_iceberg,
    has_batch,
    partition_columns,
    spark_columns,
    transact,
)
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.writing import fitted, write_files

_ROW, _NEW_ROW = "_goqueue_row", "_goqueue_new_row"


def write_iceberg(
    frame: DataFrame, path: str, catalog: str, mode: str, partition_by: Sequence[str], batch: QueryBatch | None
) -> int:
    """The rows in one commit, added or in place of all; 0 if the table has the batch."""
    table = ensure_iceberg(path, frame.schema, partition_by, catalog)
    if batch is not None and has_batch(table, batch):
        return 0
    parts = write_files(fitted(frame, spark_columns(table)), path, partition_columns(table), whole_rows=True)
    if not parts and mode == "append":
        return 0
    files = [f"{location(path)}/{part.path}" for part in parts]

    def change(table: Table, transaction: Any) -> None:
        if mode == "overwrite" and data_files(table):
            transaction.delete(AlwaysTrue())
        if files:
            transaction.add_files(files, check_duplicate_files=False)

    return sum(part.rows for part in parts) if transact(path, batch, change) else 0


def merge_iceberg(rows: pa.Table, path: str, rule: MergeRule, schema: StructType, batch: QueryBatch | None) -> int:
    """One commit in which the rows take the place of those with their keys. Each key is there once at most."""
    if not rows.num_rows:
        return 0

    def change(table: Table, transaction: Any) -> None:
        where = _keys_in(rows, rule.keys)
        has = table.scan(row_filter=where).to_arrow()
        merged = merged_rows(has, rows.cast(arrow_schema(schema)), rule)
        if has.num_rows:  # more rows than those of the keys; they go back with the same commit
            transaction.overwrite(merged, overwrite_filter=where)
        elif merged.num_rows:
            transaction.append(merged)

    return int(rows.num_rows) if transact(path, batch, change) else 0


def _keys_in(rows: pa.Table, keys: Sequence[str]) -> BooleanExpression:
    each = [In(term=Reference(key), values=pc.unique(rows[key]).to_pylist()) for key in keys]
    found: BooleanExpression = each[0]
    for one in each[1:]:
        found = And(found, one)
    return found


def merged_rows(has: pa.Table, given: pa.Table, rule: MergeRule) -> pa.Table:
    """The table's rows that stay, and the given ones that are newer and delete nothing."""
    given = _like(given, has.schema)
    old = has.select(rule.keys).append_column(_ROW, pa.array(range(has.num_rows), pa.int64()))
    new = given.select(rule.keys).append_column(_NEW_ROW, pa.array(range(given.num_rows), pa.int64()))
    pairs = old.join(new, rule.keys, join_type="inner")
    lost = _older(has, given, pairs, rule)
    replaced = pairs.filter(pc.invert(lost))[_ROW] if rule.order else pairs[_ROW]
    stale = pairs.filter(lost)[_NEW_ROW] if rule.order else pa.chunked_array([], pa.int64())
    stays, comes = _all_but(has.num_rows, replaced), _all_but(given.num_rows, stale)
    if rule.delete_when:
        comes = pc.and_(comes, pc.invert(pc.fill_null(given[rule.delete_when], False)))
    return pa.concat_tables([has.filter(stays), given.filter(comes)])


def _all_but(rows: int, left_out: Any) -> Any:
    """A mask over so many rows."""
    return pc.invert(pc.is_in(pa.array(range(rows), pa.int64()), value_set=left_out.combine_chunks()))


def _older(has: pa.Table, given: pa.Table, pairs: pa.Table, rule: MergeRule) -> Any:
    """Of each pair, whether the given row is older than the table's."""
    if rule.order is None:
        return None
    before, after = has[rule.order].take(pairs[_ROW]), given[rule.order].take(pairs[_NEW_ROW])
    newer = pc.or_kleene(pc.is_null(before), pc.greater_equal(after, before))
    return pc.invert(pc.fill_null(newer, False))


def _like(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the table, in its order and types; one that is missing is null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
