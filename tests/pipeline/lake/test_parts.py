"""Data files: rows by partition values, bounded memory, statistics that never lie."""

from __future__ import annotations

import datetime as dt
import errno
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.sql.types import StructType

from goqueue.pipeline.lake import parts as parts_module
from goqueue.pipeline.lake.commits import commit
from goqueue.pipeline.lake.errors import LakeError, LakeUnwritable
from goqueue.pipeline.lake.folders import directory, folder, location, value_text
from goqueue.pipeline.lake.parts import DataFile, Parts, conform, split
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.statistics import statistics
from goqueue.pipeline.lake.tables import ensure_table
from goqueue.pipeline.lake.tending import tables_in

ROWS = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("n", pa.int64())])
DAY = dt.date(2026, 11, 15)


def rows(*told: tuple[str | None, dt.date | None, int]) -> pa.RecordBatch:
    columns = list(zip(*told, strict=True))
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


def test_rows_are_split_by_values_and_keep_their_order() -> None:
    given = rows(("b", DAY, 1), ("a", DAY, 2), ("b", DAY, 3), ("a", None, 4), ("b", DAY, 5))
    found = {values: some.column("n").to_pylist() for values, some in split(given, ("topic", "date"))}
    assert found == {("b", DAY): [1, 3, 5], ("a", DAY): [2], ("a", None): [4]}


def test_rows_of_one_value_are_not_copied() -> None:
    given = rows(("a", DAY, 1), ("a", DAY, 2))
    assert [some is given for _, some in split(given, ("topic",))] == [True]
    assert not list(split(given.slice(0, 0), ("topic",)))


def test_a_file_holds_one_combination_and_not_its_values(tmp_path: Path) -> None:
    parts = Parts(str(tmp_path), ROWS, ("topic", "date"))
    parts.write(rows(("a", DAY, 1), ("b", DAY, 2)))
    parts.write(rows(("a", DAY, 3), ("a", None, 4)))
    found = sorted(parts.close(), key=lambda one: (one.values["date"] is None, one.path))
    told = [("a", "2026-11-15", 2), ("b", "2026-11-15", 1), ("a", None, 1)]
    assert [(one.values["topic"], one.values["date"], one.rows) for one in found] == told
    first = pq.read_table(tmp_path / found[0].path, partitioning=None)
    assert first.column_names == ["n"] and first.column("n").to_pylist() == [1, 3]
    assert found[0].path.startswith("topic=a/date=2026-11-15/part-")
    assert found[0].size == (tmp_path / found[0].path).stat().st_size


def test_two_tasks_with_the_same_rows_touch_different_files(tmp_path: Path) -> None:
    written: list[DataFile] = []
    for _ in range(2):
        parts = Parts(str(tmp_path), ROWS)
        parts.write(rows(("a", DAY, 1)))
        written += parts.close()
    assert len({one.path for one in written}) == 2
    assert all((tmp_path / one.path).exists() for one in written)


def test_open_files_and_waiting_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "_OPEN_MAX", 3)
    monkeypatch.setattr(parts_module, "_WAITING_BYTES_MAX", 4096)
    monkeypatch.setattr(parts_module, "_FILE_BYTES_MAX", 20_000)
    parts = Parts(str(tmp_path), ROWS, ("topic",))
    for number in range(500):
        parts.write(rows(*((f"t{number % 10}", DAY, n) for n in range(number, number + 100))))
        assert len(parts._open) <= 3
        assert sum(one.waiting for one in parts._open.values()) <= 4096
    found = parts.close()
    assert sum(one.rows for one in found) == 50_000
    assert max(one.size for one in found) < 60_000


def test_a_file_is_ended_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "_WAITING_BYTES_MAX", 0)
    monkeypatch.setattr(parts_module, "_FILE_BYTES_MAX", 1)
    parts = Parts(str(tmp_path), ROWS)
    parts.write(rows(("a", DAY, 1)))
    parts.write(rows(("a", DAY, 2)))
    assert [one.rows for one in parts.close()] == [1, 1]


def test_missing_columns_are_null_and_types_are_cast() -> None:
    given = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32()), "more": ["x"]})
    assert conform(given, ROWS).to_pylist() == [{"topic": None, "date": None, "n": 1}]


# --- statistics -----------------------------------------------------------------------------------------------------


def stats_of(tmp_path: Path, *groups: pa.Table) -> dict[str, dict[str, object]]:
    collected: list[pq.FileMetaData] = []
    with pq.ParquetWriter(tmp_path / "one.parquet", groups[0].schema, metadata_collector=collected) as writer:
        for group in groups:
            writer.write_table(group)
    found = json.loads(statistics(collected[0], groups[0].schema))
    return {
        "min": found["minValues"],
        "max": found["maxValues"],
        "nulls": found["nullCount"],
        "rows": found["numRecords"],
    }


def table(**columns: pa.Array) -> pa.Table:
    return pa.table(columns)


def test_bounds_span_all_row_groups(tmp_path: Path) -> None:
    found = stats_of(tmp_path, table(n=pa.array([5, None, 9])), table(n=pa.array([1, 7, None])))
    assert found == {"min": {"n": 1}, "max": {"n": 9}, "nulls": {"n": 2}, "rows": 6}


def test_a_group_of_nulls_has_no_say(tmp_path: Path) -> None:
    nothing = pa.array([None, None], pa.int64())
    found = stats_of(tmp_path, table(n=nothing), table(n=pa.array([3, 4])))
    assert (found["min"], found["max"], found["nulls"]) == ({"n": 3}, {"n": 4}, {"n": 2})
    assert stats_of(tmp_path, table(n=nothing))["min"] == {}


def test_times_are_rounded_outwards(tmp_path: Path) -> None:
    moments = pa.array([1_500_000_000_000_001, 1_500_000_000_999_999], pa.timestamp("us", "UTC"))
    found = stats_of(tmp_path, table(at=moments))
    assert found["min"] == {"at": "2017-07-14T02:40:00.000Z"}
    assert found["max"] == {"at": "2017-07-14T02:40:01.000Z"}


def test_what_could_be_wrong_is_left_out(tmp_path: Path) -> None:
    found = stats_of(
        tmp_path,
        table(
            long=pa.array(["x" * 33]),
            real=pa.array([1.5]),
            raw=pa.array([b"\xff"]),
            beyond=pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC")),
            nested=pa.array([[1]]),
            day=pa.array([DAY]),
        ),
    )
    assert found["min"] == {"day": "2026-11-15"} == found["max"]
    assert "nested" not in found["nulls"]


def test_readers_skip_files_by_statistics(tmp_path: Path) -> None:
    schema = StructType().add("n", "long").add("at", "timestamp")
    made = ensure_table(str(tmp_path), schema)
    for start in (0, 100):
        parts = Parts(str(tmp_path), arrow_schema(schema))
        moments = pa.array([start * 1000, start * 1000 + 1], pa.timestamp("us", "UTC"))
        parts.write(pa.RecordBatch.from_arrays([pa.array([start, start + 9]), moments], ["n", "at"]))
        commit(made, parts.close())
    found = DeltaTable(str(tmp_path))
    assert len(found.file_uris(file_pruning_predicate=[("n", ">=", 10)])) == 1
    assert len(found.file_uris(file_pruning_predicate="at >= '1970-01-01T00:00:00.050Z'")) == 1
    assert len(found.file_uris(file_pruning_predicate="at >= '1970-01-01T00:00:00.000001Z'")) == 2


# --- folders --------------------------------------------------------------------------------------------------------


def test_odd_partition_values_come_back(tmp_path: Path) -> None:
    odd = ["a b:c/ä%~", "x=y", "..", "plain"]
    schema = StructType().add("n", "long").add("lane", "string")
    made = ensure_table(str(tmp_path), schema, ("lane",))
    parts = Parts(str(tmp_path), arrow_schema(schema), ("lane",))
    parts.write(pa.RecordBatch.from_pydict({"n": list(range(5)), "lane": [*odd, None]}))
    commit(made, parts.close())
    found = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert {row["n"]: row["lane"] for row in found} == dict(enumerate([*odd, None]))


def test_values_that_cannot_divide_a_table_are_refused() -> None:
    assert value_text(True) == "true"
    assert value_text("") is None
    assert directory(["a", "b"], [None, "x/y"]) == "a=__HIVE_DEFAULT_PARTITION__/b=x%2Fy"
    with pytest.raises(LakeError, match="texts, whole numbers or dates"):
        value_text(1.5)


def test_a_place_is_the_same_for_every_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert location("lake/t") == str(tmp_path / "lake/t")
    assert location("s3://bucket/lake/") == "s3://bucket/lake"


def test_a_table_behind_a_url_is_written_through_delta_rs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As object storage is; here it is the local disk again."""
    monkeypatch.setattr(parts_module, "_WAITING_BYTES_MAX", 0)
    table = f"file://{tmp_path}/t"
    schema = StructType().add("n", "long").add("lane", "string")
    made = ensure_table(table, schema, ("lane",))
    parts = Parts(location(table), arrow_schema(schema), ("lane",))
    parts.write(pa.RecordBatch.from_pydict({"n": [1, 2], "lane": ["a", "b c"]}))
    found = parts.close()
    assert [one.size for one in found] == [(tmp_path / "t" / one.path).stat().st_size for one in found]
    commit(made, found)
    assert sorted(row["n"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()) == [1, 2]
    assert tables_in(f"file://{tmp_path}") == ["t"]


class FullDisk:
    """Takes one file, and of the next one the beginning."""

    def __init__(self, folder: fs.FileSystem) -> None:
        self._folder, self._files = folder, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)

    def open_output_stream(self, path: str) -> Any:
        self._files += 1
        found = self._folder.open_output_stream(path)
        return found if self._files == 1 else pa.PythonFile(FullFile(found), mode="w")


class FullFile(io.RawIOBase):
    def __init__(self, file: Any) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._file.tell():
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))


def test_a_full_disk_is_told_and_not_filled_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "folder", lambda table: FullDisk(folder(table)))
    parts = Parts(str(tmp_path), ROWS, ("topic",))
    parts.write(rows(("a", DAY, 1), ("b", DAY, 2)))
    with pytest.raises(LakeUnwritable, match=f"written to {tmp_path}: .*No space left.* Make room there"):
        parts.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
