"""The studies' Delta tables: where they are, and writes that count once.

Every write carries the study's name and the number of its pass. A pass that is done over, after a crash or by
mistake, finds its number in the table and leaves it alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.pipeline.lake import read_table, write_table
from goqueue.pipeline.lake.parts import DataFile
from goqueue.pipeline.lake.reading import read_files
from goqueue.pipeline.lake.tables import ensure_table, exists, open_table
from goqueue.pipeline.lake.writing import write_files

Merge = Callable[[DataFrame], DataFrame]
_BY_DAY = ("date",)


def place(lake: str, name: str) -> str:
    """Side by side, never one in another: a vacuum of the outer one would take the inner one's files."""
    return f"{lake.rstrip('/')}/studies/{name}"


def rows_of(spark: SparkSession, table: str) -> DataFrame | None:
    """None before the first write."""
    return read_table(spark, table) if exists(table) else None


def last_pass(table: str, study: str) -> int:
    """The number of the last pass that wrote here; -1 before the first."""
    found = open_table(table).transaction_version(study) if exists(table) else None
    return -1 if found is None else found


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Computed once while the block lasts, however often it is used."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def append_once(frame: DataFrame, table: str, study: str, number: int) -> int:
    """Adds the rows of a pass, by day; how many they are. 0 if they are there already."""
    return write_table(frame, table, mode="append", partition_by=_BY_DAY, app_id=study, version=number)


def append_rows(rows: pa.Table, table: str, study: str, number: int) -> int:
    """The same for few rows that the driver made. The table is there afterwards even if there are none."""
    if last_pass(table, study) >= number:
        return 0
    told = CommitProperties(app_transactions=[Transaction(study, number)])
    write_deltalake(table, rows, mode="append", partition_by=list(_BY_DAY), commit_properties=told)
    return int(rows.num_rows)


def merge_once(frame: DataFrame, table: str, study: str, number: int, merge: Merge) -> int:
    """Puts the rows of a pass together with what the table has of the same days; how many those days have now.

    `merge` gets old and new rows, with the columns of the new ones, and makes the table's rows of them. `frame` is
    looked at twice. All of it is one commit.
    """
    if last_pass(table, study) >= number:
        return 0
    found = ensure_table(table, merge(frame).schema, _BY_DAY)
    days = sorted(row["date"] for row in frame.select("date").distinct().collect())
    if not days:
        return 0
    old = _files_of(found, days)
    before = read_files(frame.sparkSession, found).where(f.col("date").isin(days)).select(*frame.columns)
    parts = write_files(merge(before.unionByName(frame)), table, _BY_DAY)
    _exchange(found, old, parts, Transaction(study, number))
    return sum(part.rows for part in parts)


def _files_of(table: DeltaTable, days: Sequence[date]) -> list[RemoveAction]:
    now = time.time_ns() // 1_000_000
    listed = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        RemoveAction(one["path"], True, now, one["size_bytes"], {"date": one["partition.date"].isoformat()})
        for one in listed
        if one["partition.date"] in days
    ]


def _exchange(table: DeltaTable, old: Sequence[RemoveAction], parts: Sequence[DataFile], mark: Transaction) -> None:
    """Readers see the old files or the new ones. Delta refuses if another took one of the old ones meanwhile."""
    new = [AddAction(one.path, one.size, one.values, one.made_ms, True, one.stats) for one in parts]
    told = CommitProperties(app_transactions=[mark])
    by = table.metadata().partition_columns
    table.create_write_transaction([*old, *new], "append", table.schema(), partition_by=by, commit_properties=told)


def overwrite(frame: DataFrame, table: str) -> int:
    """A small table, made anew in one commit; how many rows it has."""
    return write_table(frame, table, mode="overwrite")
