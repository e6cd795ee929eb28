"""The archive's batches without Spark: cut off anywhere, repeated, given twice, every message is in each table once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from goqueue.pipeline.lake import archive_query as module
from goqueue.pipeline.lake.archive_query import ArchiveQuery
from goqueue.pipeline.lake.commits import commit
from goqueue.pipeline.lake.errors import LakeBusy, LakeError
from goqueue.pipeline.lake.tables import ensure_table
from goqueue.pipeline.lake.typed import PARTITION_BY, TypedPlan
from goqueue.pipeline.lake.typed_tables import TypedTables
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.registry import Registered
from goqueue.pipeline.source.typed import Typed
from tests.pipeline.lake.local_frames import LocalCluster, LocalFrame
from tests.pipeline.lake.rows import batch_of, message

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


class Crash(Exception):
    """The driver died here."""


class LocalTyped(TypedTables):
    """`orders` has a schema, whatever the registry would say."""

    def __init__(self, lake: Path) -> None:
        super().__init__(str(lake), "http://nowhere", ["orders"])
        plan = TypedPlan(
            "orders", str(lake / "typed/orders"), Typed("", Registered(1, "JSON", SCHEMA), {"orders": "none"})
        )
        self._plans = {"orders": plan}
        self._tables = {"orders": ensure_table(plan.table, plan.columns, PARTITION_BY)}

    def refresh(self) -> None:
        for table in self._tables.values():
            table.update_incremental()


def query(
    lake: Path, cluster: LocalCluster | None = None, topics: Sequence[str] = ("orders", "clicks")
) -> ArchiveQuery:
    known = cluster or LocalCluster({"orders": 2, "clicks": 1})
    return ArchiveQuery(str(lake / "messages"), cast(Any, known), topics, LocalTyped(lake))


def orders(start: int, end: int, partition: int = 0) -> pa.RecordBatch:
    return batch_of([message(n, b'{"n": %d}' % n, partition=partition) for n in range(start, end)])


def clicks(start: int, end: int) -> pa.RecordBatch:
    return batch_of([message(n, b"\xff", topic="clicks") for n in range(start, end)])


def give(to: ArchiveQuery, number: int, *tasks: Sequence[pa.RecordBatch], name: str = "q") -> LocalFrame:
    frame = LocalFrame(tasks, name)
    to(cast(Any, frame), number)
    return frame


def archived(lake: Path) -> Counter[tuple[str, int, int]]:
    rows = DeltaTable(str(lake / "messages")).to_pyarrow_table(columns=["topic", "partition", "offset"]).to_pylist()
    return Counter((row["topic"], row["partition"], row["offset"]) for row in rows)


def typed(lake: Path) -> Counter[tuple[int, int, int]]:
    rows = DeltaTable(str(lake / "typed/orders")).to_pyarrow_table(columns=["_partition", "_offset", "n"]).to_pylist()
    return Counter((row["_partition"], row["_offset"], row["n"]) for row in rows)


def check_whole(lake: Path, orders_end: int, clicks_end: int) -> None:
    """Everything once."""
    expected = [("orders", 0, n) for n in range(orders_end)] + [("clicks", 0, n) for n in range(clicks_end)]
    assert archived(lake) == Counter(expected)
    assert typed(lake) == Counter((0, n, n) for n in range(orders_end))


def test_tasks_write_both_tables_and_the_driver_counts(tmp_path: Path) -> None:
    made = query(tmp_path)
    give(made, 0, [orders(0, 3), clicks(0, 2)], [orders(3, 5)])
    check_whole(tmp_path, 5, 2)
    assert made.tally.rows == {"orders": 5, "clicks": 2}
    assert made.tally.typed == {"orders": 5}
    assert made.tally.seen == 7
    assert made.ends() == {Place("orders", 0): 5, Place("orders", 1): None, Place("clicks", 0): 2}


def test_a_batch_that_the_lake_has_is_not_even_read(tmp_path: Path) -> None:
    give(query(tmp_path), 0, [orders(0, 3)])
    assert give(query(tmp_path), 0, [orders(0, 3)]).runs == 0
    check_whole(tmp_path, 3, 0)


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_a_driver_that_dies_between_commits_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    """After no commit, after the typed table's, and after both but before Spark's own log."""
    give(query(tmp_path), 0, [orders(0, 3), clicks(0, 1)])
    real, done = commit, 0

    def dying(*given: Any, **named: Any) -> bool:
        nonlocal done
        if done == survived:
            raise Crash
        done += 1
        return real(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module, "commit", dying)
        if survived < 2:
            with pytest.raises(Crash):
                give(query(tmp_path), 1, [orders(3, 6), clicks(1, 4)])
        else:
            give(query(tmp_path), 1, [orders(3, 6), clicks(1, 4)])
    give(query(tmp_path), 1, [orders(3, 6), clicks(1, 4)])
    give(query(tmp_path), 2, [orders(6, 7)])
    check_whole(tmp_path, 7, 4)


def test_a_lost_checkpoint_doubles_nothing(tmp_path: Path) -> None:
    """A new query has a new id and begins to count anew; how far the tables are holds all the same."""
    give(query(tmp_path), 0, [orders(0, 5), clicks(0, 2)])
    again = query(tmp_path)
    give(again, 0, [orders(0, 8), clicks(0, 3)], name="another")
    check_whole(tmp_path, 8, 3)
    assert again.tally.seen == 11 and sum(again.tally.rows.values()) == 4


def test_a_typed_table_that_died_before_the_archive_is_made_up_for_by_another_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = commit

    def dying(table: DeltaTable, *given: Any, **named: Any) -> bool:
        if table.table_uri.rstrip("/").endswith("messages"):
            raise Crash
        return real(table, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module, "commit", dying)
        with pytest.raises(Crash):
            give(query(tmp_path), 0, [orders(0, 4)])
    give(query(tmp_path), 0, [orders(0, 6)], name="another")
    check_whole(tmp_path, 6, 0)


def test_two_archives_of_the_same_topic_at_once_do_not_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one finds at its commit that the first was there."""
    first, second = query(tmp_path), query(tmp_path)
    real = LocalFrame.mapInArrow

    def overtaken(frame: LocalFrame, task: Any, schema: str) -> Any:
        monkeypatch.setattr(LocalFrame, "mapInArrow", real)
        found = frame.mapInArrow(task, schema)
        give(second, 0, [clicks(0, 3)], name="another")
        return found

    monkeypatch.setattr(LocalFrame, "mapInArrow", overtaken)
    with pytest.raises(LakeBusy, match="run this one again"):
        give(first, 0, [clicks(0, 3)])
    assert isinstance(first.failure, LakeBusy)
    assert archived(tmp_path) == Counter(("clicks", 0, n) for n in range(3))


def test_a_poison_message_is_whole_in_the_archive_and_counted(tmp_path: Path) -> None:
    made = query(tmp_path)
    bad = batch_of([message(0, b"no json"), message(1, b'{"n": "text"}'), message(2, b'{"n": 2}'), message(3, None)])
    give(made, 0, [bad])
    assert archived(tmp_path) == Counter(("orders", 0, n) for n in range(4))
    assert typed(tmp_path) == Counter([(0, 2, 2), (0, 3, None)])
    skips = made.tally.skips["orders"]
    assert skips.count == 2
    assert skips.examples[0].startswith("orders/0@0: ") and skips.examples[1].startswith("orders/0@1: ")


def test_a_topic_that_was_made_again_is_archived_anew(tmp_path: Path) -> None:
    cluster = LocalCluster({"clicks": 1})
    give(query(tmp_path, cluster, ["clicks"]), 0, [clicks(0, 5)])
    cluster.make_again("clicks")
    give(query(tmp_path, cluster, ["clicks"]), 1, [clicks(0, 2)])
    assert archived(tmp_path) == Counter(
        {("clicks", 0, 0): 2, ("clicks", 0, 1): 2} | {("clicks", 0, n): 1 for n in (2, 3, 4)}
    )


def test_a_topic_deleted_under_way_is_told(tmp_path: Path) -> None:
    made = query(tmp_path, LocalCluster({"orders": 1}), ["orders", "clicks"])
    with pytest.raises(LakeError, match="clicks/0 was deleted while it was archived; run again without"):
        give(made, 0, [clicks(0, 1)])
