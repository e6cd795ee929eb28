"""A replay's plan and pace, without Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from goqueue.pipeline.lake.chunks import Chunk
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.replay_plan import ReplayPlan, Wish, keep, kept
from goqueue.pipeline.lake.replaying import ReplayPace
from goqueue.pipeline.lake.selection import Selection, range_pruning, selection
from goqueue.pipeline.link.place import OffsetRange

WISH = Wish("lake-id", Selection(("orders",)), "again", 100, False, False, "")


def test_the_same_replay_has_the_same_owner_and_another_one_has_not() -> None:
    assert WISH.owner == msgspec.structs.replace(WISH).owner
    others = [
        msgspec.structs.replace(WISH, name="second"),
        msgspec.structs.replace(WISH, into="elsewhere"),
        msgspec.structs.replace(WISH, chunk_rows=99),
        msgspec.structs.replace(WISH, selection=Selection(("orders",), since_ms=1)),
        msgspec.structs.replace(WISH, archive="another lake"),
    ]
    assert len({WISH.owner, *(one.owner for one in others)}) == 6


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "_checkpoints/replay/one.json")
    assert kept(path, WISH, None) is None
    plan = ReplayPlan(WISH, (Chunk((OffsetRange("orders", 0, 0, 5),), 5), Chunk((OffsetRange("orders", 0, 5, 9),), 4)))
    keep(path, plan)
    assert kept(path, WISH, 0) == plan
    assert plan.rows == 9


def test_a_lost_plan_of_a_replay_under_way_is_told(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"its plan .* is gone.* give it another name"):
        kept(str(tmp_path / "none.json"), WISH, 3)


def test_the_pace_is_kept_over_all_that_was_sent() -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = ReplayPace(10, lambda: now[0], sleep)
    pace.wait(0)
    now[0] = 1.0
    pace.wait(50)
    now[0] = 30.0
    pace.wait(100)
    assert slept == [0.0, 4.0, 0.0]


def test_options_become_a_selection() -> None:
    options = {"since": "1970-01-01T00:00:01Z", "until": "2000", "offsets": "a/0:1-5, 1:7-", "key": "k", "where": "x"}
    found = selection(["b", "a"], options)
    end = (1 << 63) - 1
    ranges = (OffsetRange("a", 0, 1, 5), OffsetRange("a", 1, 7, end), OffsetRange("b", 1, 7, end))
    assert found == Selection(("a", "b"), 1000, 2000, ranges, "k", "x")


@pytest.mark.parametrize(
    ("topics", "options", "told"),
    [
        ([], {}, "with --topics"),
        (["a"], {"offsets": "zero"}, "are no offsets; write them like"),
        (["a"], {"since": "yesterday"}, "The option since: .*is not a time"),
    ],
)
def test_what_cannot_be_meant_is_told(topics: list[str], options: dict[str, str], told: str) -> None:
    with pytest.raises(LakeError, match=told):
        selection(topics, options)


def test_files_are_chosen_by_topic_day_and_offset() -> None:
    day_ms = 86_400_000
    found = Selection(("a",), since_ms=day_ms, until_ms=2 * day_ms).pruning()
    assert [(name, op, str(value)) for name, op, value in found[0]] == [
        ("topic", "=", "a"),
        ("date", ">=", "1970-01-02"),
        ("date", "<=", "1970-01-03"),
    ]
    assert Selection(("a", "b")).pruning() == [[("topic", "=", "a")], [("topic", "=", "b")]]
    assert range_pruning([OffsetRange("a", 3, 5, 9)]) == [
        [("topic", "=", "a"), ("offset", ">=", 5), ("offset", "<", 9)]
    ]
