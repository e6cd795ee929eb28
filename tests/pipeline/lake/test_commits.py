"""Commits: asked for any number of times, at any moment cut off, they happen once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from goqueue.pipeline.lake import commits
from goqueue.pipeline.lake.commits import QueryBatch, commit, has_batch
from goqueue.pipeline.lake.errors import LakeBusy, LakeUnwritable, NoTable, SchemaChanged
from goqueue.pipeline.lake.schemas import delta_schema
from goqueue.pipeline.lake.tables import ensure_table, open_table
from goqueue.pipeline.lake.tending import gather, sweep
from tests.pipeline.lake.rows import SMALL, add, files_in, numbers_in, small_files, small_table


def test_a_batch_is_added_once(tmp_path: Path) -> None:
    assert add(tmp_path, [1, 2], QueryBatch("q", 0))
    assert not add(tmp_path, [1, 2], QueryBatch("q", 0))
    assert add(tmp_path, [3], QueryBatch("q", 1))
    assert not add(tmp_path, [1, 2], QueryBatch("q", 0))
    assert numbers_in(tmp_path) == [1, 2, 3]


def test_queries_count_by_themselves(tmp_path: Path) -> None:
    assert add(tmp_path, [1], QueryBatch("q", 5))
    assert add(tmp_path, [2], QueryBatch("other", 0))
    assert add(tmp_path, [3])
    assert add(tmp_path, [4])
    assert numbers_in(tmp_path) == [1, 2, 3, 4]


def test_a_crash_between_files_and_commit_leaves_orphans_that_a_sweep_removes(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    small_files(tmp_path, [1, 2])  # and here the driver dies
    assert numbers_in(tmp_path) == []
    assert add(tmp_path, [1, 2], QueryBatch("q", 0))
    assert numbers_in(tmp_path) == [1, 2]
    assert files_in(tmp_path) == 2
    assert sweep(table, 0) == 1
    assert files_in(tmp_path) == 1
    assert numbers_in(tmp_path) == [1, 2]


def test_a_crash_between_commit_and_sparks_log_does_not_double(tmp_path: Path) -> None:
    add(tmp_path, [1, 2], QueryBatch("q", 7))  # and here the driver dies: Spark runs batch 7 again
    again = small_files(tmp_path, [1, 2])
    assert not commit(open_table(str(tmp_path)), again, batch=QueryBatch("q", 7))
    assert numbers_in(tmp_path) == [1, 2]
    assert sweep(open_table(str(tmp_path)), 0) == 1


def test_of_two_that_commit_the_same_batch_at_once_one_wins(tmp_path: Path) -> None:
    small_table(tmp_path)
    handles = [open_table(str(tmp_path)) for _ in range(4)]
    files = [small_files(tmp_path, [1, 2]) for _ in handles]
    gate = threading.Barrier(len(handles))
    outcomes: list[bool] = []

    def one(handle: DeltaTable, number: int) -> None:
        gate.wait()
        outcomes.append(commit(handle, files[number], batch=QueryBatch("q", 0)))

    threads = [threading.Thread(target=one, args=(handle, number)) for number, handle in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]
    assert numbers_in(tmp_path) == [1, 2]


def test_one_that_read_before_the_other_committed_is_refused_by_the_table_itself(tmp_path: Path) -> None:
    small_table(tmp_path)
    slow = open_table(str(tmp_path))
    assert not has_batch(slow, QueryBatch("q", 0))
    files = small_files(tmp_path, [1])
    add(tmp_path, [1], QueryBatch("q", 0))
    with pytest.raises(CommitFailedError):
        commits._transact(slow, files, commits._transactions(QueryBatch("q", 0), {}), None)
    assert numbers_in(tmp_path) == [1]


def test_writers_of_different_batches_do_not_disturb_each_other(tmp_path: Path) -> None:
    small_table(tmp_path)
    handles = [open_table(str(tmp_path)) for _ in range(4)]
    files = [small_files(tmp_path, [number]) for number in range(4)]
    gate = threading.Barrier(4)

    def one(number: int) -> None:
        gate.wait()
        commit(handles[number], files[number], batch=QueryBatch(f"q{number}", 0))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers_in(tmp_path) == [0, 1, 2, 3]


def test_a_mark_that_another_moved_stops_the_commit(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    commit(table, small_files(tmp_path, [1]), marks={"orders/0": 10}, seen={"orders/0": None})
    with pytest.raises(LakeBusy, match="Another job archived orders/0"):
        commit(table, small_files(tmp_path, [1]), marks={"orders/0": 10}, seen={"orders/0": None})
    assert commit(table, small_files(tmp_path, [2]), marks={"orders/0": 20}, seen={"orders/0": 10})
    assert numbers_in(tmp_path) == [1, 2]
    assert open_table(str(tmp_path)).transaction_version("orders/0") == 20


def test_a_commit_may_move_marks_alone(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    assert commit(table, [], batch=QueryBatch("q", 0), marks={"orders/0": 5})
    assert table.transaction_version("orders/0") == 5


def test_batches_and_marks_outlive_checkpoints_gathering_and_sweeps(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    for number in range(120):  # more than one checkpoint of the log
        commit(table, small_files(tmp_path, [number]), batch=QueryBatch("q", number), marks={"orders/0": number * 10})
    gather(table, 1 << 20)
    sweep(table, 0)
    table.create_checkpoint()
    table.cleanup_metadata()
    fresh = open_table(str(tmp_path))
    assert has_batch(fresh, QueryBatch("q", 119)) and not has_batch(fresh, QueryBatch("q", 120))
    assert fresh.transaction_version("orders/0") == 1190
    assert numbers_in(tmp_path) == list(range(120))
    assert files_in(tmp_path) == 1


def test_replacing_puts_new_rows_and_columns_in_place_of_the_old(tmp_path: Path) -> None:
    add(tmp_path, [1, 2])
    table = open_table(str(tmp_path))
    commit(table, small_files(tmp_path, [3]), replace=delta_schema(SMALL), marks={"m": 1})
    assert numbers_in(tmp_path) == [3]
    assert table.transaction_version("m") == 1


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_table_grows_by_new_columns(tmp_path: Path) -> None:
    add(tmp_path, [1])
    grown = ensure_table(str(tmp_path), SMALL.add("more", "string"))
    assert [field.name for field in grown.schema().fields] == ["n", "lane", "more"]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == [{"n": 1, "lane": "a", "more": None}]


def test_a_column_does_not_change_its_type(tmp_path: Path) -> None:
    small_table(tmp_path)
    with pytest.raises(SchemaChanged, match=r"Column 'N' of .* is bigint, and string was given"):
        ensure_table(str(tmp_path), type(SMALL)().add("N", "string"))


def test_a_table_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoTable, match="run the pipeline that writes it first"):
        open_table(str(tmp_path / "none"))


def test_a_lake_that_takes_no_files_is_told(tmp_path: Path) -> None:
    in_the_way = tmp_path / "lake"
    in_the_way.write_text("a file, not a folder")
    with pytest.raises(LakeUnwritable, match=r"Nothing can be written to .*lake/messages.* Choose a folder"):
        ensure_table(str(in_the_way / "messages"), SMALL)
    assert [one.name for one in tmp_path.iterdir()] == ["lake"]
