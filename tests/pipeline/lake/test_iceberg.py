"""Iceberg tables without Spark: rows once, merges as Delta's, growth, older versions, upkeep, and lost races."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.either import FoundTable
from goqueue.pipeline.lake.errors import LakeError, NoTable, SchemaChanged
from goqueue.pipeline.lake.growing import Renamed, growth
from goqueue.pipeline.lake.iceberg import data_files, ensure_iceberg, mark, open_iceberg, transact
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.stores import DeltaStore, IcebergStore, TableStore
from tests.pipeline.lake.columns import columns

RULE = MergeRule(["id", "part"], "version", "is_gone")


CUSTOMERS = columns(id="string", part="int", version="bigint", is_gone="boolean")


def customers(*rows: tuple[str | None, int, int | None, bool | None]) -> pa.Table:
    names = CUSTOMERS.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], arrow_schema(CUSTOMERS))


def rows_of(path: str) -> list[tuple[Any, ...]]:
    if FoundTable(path).format == "iceberg":
        found = open_iceberg(path).scan().to_arrow()
    else:
        found = DeltaTable(path).to_pyarrow_table()
    return sorted(tuple(row.values()) for row in found.select(CUSTOMERS.names).to_pylist())


@pytest.fixture(params=["delta", "iceberg"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return DeltaStore() if request.param == "delta" else IcebergStore(f"sqlite:///{tmp_path}/catalog.db")


def test_merges_are_the_same_in_both_formats_and_happen_once(tables: TableStore, tmp_path: Path) -> None:
    path = str(tmp_path / "customers")
    tables.ensure(path, CUSTOMERS)
    first = customers(("a", 1, 1, False), ("a", 2, 1, None), ("b", 1, 5, False), ("c", 1, 1, True))
    assert tables.merge(first, path, RULE, CUSTOMERS, QueryBatch("q", 0)) == 4
    assert rows_of(path) == [("a", 1, 1, False), ("a", 2, 1, None), ("b", 1, 5, False)]
    second = customers(("a", 1, 2, True), ("a", 2, 3, False), ("b", 1, 4, True), ("d", 1, None, False))
    for _ in range(2):
        tables.merge(second, path, RULE, CUSTOMERS, QueryBatch("q", 1))
        assert rows_of(path) == [("a", 2, 3, False), ("b", 1, 5, False), ("d", 1, None, False)]


def test_a_merged_row_leaves_nothing_of_the_old_one_in_columns_that_it_lacks(
    tables: TableStore, tmp_path: Path
) -> None:
    path = str(tmp_path / "customers")
    tables.ensure(path, CUSTOMERS)
    tables.merge(customers(("a", 1, 1, False), ("b", 1, 1, False)), path, RULE, CUSTOMERS, None)
    lacking = columns(id="string", part="int", version="bigint")
    given = pa.Table.from_pylist([{"id": "a", "part": 1, "version": 2}], arrow_schema(lacking))
    tables.merge(given, path, MergeRule(["id", "part"], "version"), lacking, None)
    assert rows_of(path) == [("a", 1, 2, None), ("b", 1, 1, False)]


def test_small_files_are_gathered_and_old_ones_go(tables: TableStore, tmp_path: Path) -> None:
    path = str(tmp_path / "customers")
    tables.ensure(path, CUSTOMERS)
    for number in range(6):
        tables.merge(customers((f"c{number}", number, 1, False)), path, RULE, CUSTOMERS, QueryBatch("q", number))
    before = rows_of(path)
    found = FoundTable(path)
    assert found.files() == 6
    tended = found.tend("customers", 1 << 20, 0)
    assert (tended.files, tended.now) == (6, 1) and tended.removed >= 6 and rows_of(path) == before
    assert len(list(Path(path).rglob("*.parquet"))) <= 2  # Delta's log has a checkpoint in Parquet
    assert found.delete("id = 'c3' OR part = 5") == 2
    assert [row[0] for row in rows_of(path)] == ["c0", "c1", "c2", "c4"]
    tables.merge(customers(("c0", 0, 9, False)), path, RULE, CUSTOMERS, QueryBatch("q", 5))  # the mark is still there
    assert ("c0", 0, 1, False) in rows_of(path)


def test_files_that_wait_for_their_commit_stay_whatever_the_retention(tables: TableStore, tmp_path: Path) -> None:
    path = str(tmp_path / "customers")
    tables.merge(customers(("a", 1, 1, False)), path, RULE, CUSTOMERS, None)
    waiting = Path(path, "data", "part-waiting.parquet")
    waiting.parent.mkdir(exist_ok=True)
    waiting.write_bytes(b"rows of a batch that is not committed yet")
    FoundTable(path).tend("customers", 1 << 20, 0)
    assert waiting.exists()
    os.utime(waiting, (0, 0))  # nobody commits files of 1970
    FoundTable(path).tend("customers", 1 << 20, 0)
    assert not waiting.exists() and rows_of(path) == [("a", 1, 1, False)]


def test_tables_grow_and_refuse_what_would_lose(tables: TableStore, tmp_path: Path) -> None:
    path = str(tmp_path / "customers")
    tables.ensure(path, CUSTOMERS)
    tables.merge(customers(("a", 1, 1, False)), path, RULE, CUSTOMERS, None)
    wider = columns(id="string", part="bigint", version="bigint", is_gone="boolean", city="string")
    tables.ensure(path, wider)
    large = pa.Table.from_pylist([{"id": "b", "part": 1 << 40, "version": 1, "city": "Oslo"}], arrow_schema(wider))
    tables.merge(large, path, RULE, wider, None)
    assert rows_of(path) == [("a", 1, 1, False), ("b", 1 << 40, 1, None)]
    tables.ensure(path, columns(id="string"))  # a column that rows lack is null in them
    with pytest.raises(SchemaChanged, match=r"'id' of .* is string, and double was given"):
        tables.ensure(path, columns(id="double"))
    with pytest.raises(Renamed, match=r"keep the old name too \(NULL AS part\)"):
        tables.ensure(path, columns(id="string", version="bigint", is_gone="boolean", city="string", portion="bigint"))
    assert growth("t", wider, CUSTOMERS).is_nothing


def test_a_commit_that_lost_a_race_is_not_repeated_blindly(tmp_path: Path) -> None:
    path, catalog = str(tmp_path / "customers"), f"sqlite:///{tmp_path}/catalog.db"
    tables = IcebergStore(catalog)
    tables.ensure(path, CUSTOMERS)
    batch, tries = QueryBatch("q", 0), list[int]()

    def change(table: Any, transaction: Any) -> None:
        tries.append(1)
        if len(tries) == 1:  # another driver of the same query is quicker
            assert tables.merge(customers(("a", 1, 1, False)), path, RULE, CUSTOMERS, batch) == 1
        transaction.append(customers(("a", 1, 1, False)))

    assert transact(path, batch, change) is False
    assert rows_of(path) == [("a", 1, 1, False)] and mark(open_iceberg(path), "q") == 0 and len(tries) == 1


def test_older_versions_can_be_read_until_they_expire(tmp_path: Path) -> None:
    path = str(tmp_path / "customers")
    tables = IcebergStore(f"sqlite:///{tmp_path}/catalog.db")
    tables.ensure(path, CUSTOMERS)
    tables.merge(customers(("a", 1, 1, False)), path, RULE, CUSTOMERS, None)
    then = open_iceberg(path).current_snapshot()
    assert then is not None
    tables.merge(customers(("a", 1, 2, True)), path, RULE, CUSTOMERS, None)
    old = open_iceberg(path).snapshot_as_of_timestamp(then.timestamp_ms)
    assert old is not None and open_iceberg(path).scan(snapshot_id=old.snapshot_id).to_arrow().num_rows == 1
    FoundTable(path).tend("customers", 1 << 20, 0)
    assert len(open_iceberg(path).metadata.snapshots) == 1 and data_files(open_iceberg(path)) == []


def test_a_table_of_the_other_format_is_refused(tmp_path: Path) -> None:
    tables = IcebergStore(f"sqlite:///{tmp_path}/catalog.db")
    tables.ensure(str(tmp_path / "one"), CUSTOMERS)
    DeltaStore().ensure(str(tmp_path / "two"), CUSTOMERS)
    with pytest.raises(LakeError, match="is an Iceberg table"):
        DeltaStore().ensure(str(tmp_path / "one"), CUSTOMERS)
    with pytest.raises(LakeError, match="is a Delta table"):
        tables.ensure(str(tmp_path / "two"), CUSTOMERS)
    with pytest.raises(NoTable):
        open_iceberg(str(tmp_path / "two"))


def test_rows_expire_by_time_and_by_day(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    now = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
    schema = columns(at="timestamp", day="date").add("seen.at", "timestamp")
    ensure_iceberg(path, schema, ("day",), f"sqlite:///{tmp_path}/catalog.db")
    times = [now - dt.timedelta(days=n) for n in range(6)]
    rows = [{"at": time, "day": time.date(), "seen.at": time} for time in times]
    transact(path, None, lambda _, transaction: transaction.append(pa.Table.from_pylist(rows, arrow_schema(schema))))
    found = FoundTable(path)
    assert found.delete_before("seen.at", now - dt.timedelta(days=4)) == 1
    assert found.delete_before("at", now - dt.timedelta(days=3)) == 1
    assert found.delete_before("day", now - dt.timedelta(days=1)) == 2
    assert found.delete_before("elsewhere", now) == 0
    assert found.tend("visits", 1 << 20, 0).now == 2  # a file for each day
