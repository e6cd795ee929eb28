"""Tables kept small: days that expire, files put together, and files that nobody needs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

from goqueue.pipeline.lake.commits import commit
from goqueue.pipeline.lake.either import FoundTable
from goqueue.pipeline.lake.parts import Parts
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.tables import ensure_table
from goqueue.pipeline.lake.tending import expire, expired_before, gather, rows_to_expire, sweep, tables_in
from tests.pipeline.lake.rows import add, files_in, numbers_in, small_files, small_table

DAYS = [dt.date(2026, 11, day) for day in (1, 2, 3)]
BY_DAY = StructType().add("n", "long").add("date", "date")


def by_day(path: Path) -> DeltaTable:
    table = ensure_table(str(path), BY_DAY, ("date",))
    parts = Parts(str(path), arrow_schema(BY_DAY), ("date",))
    parts.write(pa.RecordBatch.from_pydict({"n": [1, 2, 3, 4, 5], "date": [*DAYS, DAYS[0], None]}))
    commit(table, parts.close())
    return table


def test_tables_are_found_wherever_they_are(tmp_path: Path) -> None:
    for name in ("messages", "typed/orders", "studies/rates/fine"):
        small_table(tmp_path / name)
    small_table(tmp_path / "_checkpoints/no-table")
    (tmp_path / "report").mkdir()
    (tmp_path / "messages/inner").mkdir()
    assert tables_in(str(tmp_path)) == ["messages", "studies/rates/fine", "typed/orders"]
    assert tables_in(str(tmp_path / "nothing")) == []


def test_days_expire_as_a_whole(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    assert expired_before(table) == dt.date.min
    assert rows_to_expire(table, DAYS[1]) == 2
    assert expire(table, DAYS[1]) == 2
    assert numbers_in(tmp_path) == [2, 3, 5]  # what has no day stays
    assert expired_before(table) == DAYS[1]
    assert expire(table, DAYS[1]) == 0
    assert files_in(tmp_path) == 4
    assert sweep(table, 0) == 1
    assert files_in(tmp_path) == 3


def test_rows_expire_by_columns_with_dots(tmp_path: Path) -> None:
    times = [dt.datetime.combine(day, dt.time(12), dt.UTC) for day in DAYS]
    write_deltalake(str(tmp_path), pa.table({"seen.at": times, "seen.on": DAYS}))
    found = FoundTable(str(tmp_path))
    assert found.delete_before("seen.at", times[1]) == 1
    assert found.delete_before("seen.on", times[2]) == 1
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["seen.on"].to_pylist() == DAYS[2:]


def test_tables_without_days_do_not_expire(tmp_path: Path) -> None:
    add(tmp_path, [1])
    assert expire(small_table(tmp_path), dt.date(9999, 1, 1)) == 0
    assert numbers_in(tmp_path) == [1]


def test_small_files_are_put_together(tmp_path: Path) -> None:
    for number in range(10):
        add(tmp_path, [number])
    table = small_table(tmp_path)
    gather(table, 1 << 20)
    assert len(table.file_uris()) == 1
    assert numbers_in(tmp_path) == list(range(10))


def test_a_sweep_leaves_young_files_alone(tmp_path: Path) -> None:
    """An archive that runs may be just about to commit them."""
    table = small_table(tmp_path)
    small_files(tmp_path, [1])
    assert sweep(table, 3_600_000) == 0
    assert files_in(tmp_path) == 1
    assert sweep(table, 0, dry_run=True) == 1
    assert files_in(tmp_path) == 1
    assert sweep(table, 0) == 1
    assert files_in(tmp_path) == 0
