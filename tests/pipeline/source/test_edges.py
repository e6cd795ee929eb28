from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.edges import Moment, StartingOffsets, Times
from goqueue.pipeline.source.ending import ending
from goqueue.pipeline.source.errors import BadOption, NoSuchTime
from goqueue.pipeline.source.starting import starting
from tests.pipeline.source.fakes import FakeCluster

_A, _B = Place("a", 0), Place("a", 1)
_ENDS = {_A: 10, _B: 50}


@pytest.fixture
def cluster() -> Any:
    return FakeCluster(a=[(3, 10), (20, 50)])


def test_earliest_and_latest(cluster: Any) -> None:
    assert starting(cluster, _ENDS, "earliest", "error") == {_A: 3, _B: 20}
    assert starting(cluster, _ENDS, "latest", "error") == _ENDS
    assert ending(cluster, _ENDS, "latest") == _ENDS


def test_offsets_with_minus_two_and_minus_one(cluster: Any) -> None:
    assert starting(cluster, _ENDS, StartingOffsets({_A: -2, _B: -1}, "startingOffsets"), "error") == {_A: 3, _B: 50}
    assert starting(cluster, _ENDS, StartingOffsets({_A: 5, _B: 30}, "startingOffsets"), "error") == {_A: 5, _B: 30}
    assert ending(cluster, _ENDS, StartingOffsets({_A: 7, _B: -1}, "endingOffsets")) == {_A: 7, _B: 50}


@pytest.mark.parametrize("each", [{_A: 1}, {_A: 1, _B: 1, Place("c", 0): 1}])
def test_offsets_name_exactly_the_partitions_that_are_read(cluster: Any, each: dict[Place, int]) -> None:
    with pytest.raises(BadOption, match="startingOffsets"):
        starting(cluster, _ENDS, StartingOffsets(each, "startingOffsets"), "error")
    with pytest.raises(BadOption, match="endingOffsets"):
        ending(cluster, _ENDS, StartingOffsets(each, "endingOffsets"))


def test_times_lead_to_the_first_message_that_is_not_older(cluster: Any) -> None:
    assert starting(cluster, _ENDS, Times({_A: 5_000, _B: 20_500}, "x"), "error") == {_A: 5, _B: 21}
    assert starting(cluster, _ENDS, Moment(0), "error") == {_A: 3, _B: 20}
    assert ending(cluster, _ENDS, Moment(8_000)) == {_A: 8, _B: 20}


def test_a_time_younger_than_all_messages_is_an_error_or_the_end(cluster: Any) -> None:
    with pytest.raises(NoSuchTime, match=r"a/0 has no message.*startingOffsetsByTimestampStrategy"):
        starting(cluster, _ENDS, Moment(30_000), "error")
    assert starting(cluster, _ENDS, Moment(30_000), "latest") == {_A: 10, _B: 30}
    assert ending(cluster, _ENDS, Moment(30_000)) == {_A: 10, _B: 30}


def test_what_is_found_by_time_lies_never_behind_what_can_be_read(cluster: Any) -> None:
    held_back = {_A: 10, _B: 25}
    assert starting(cluster, held_back, Moment(9_000), "error") == {_A: 9, _B: 20}
    assert starting(cluster, held_back, Times({_A: 9_000, _B: 40_000}, "x"), "error") == {_A: 9, _B: 25}
    assert ending(cluster, held_back, Times({_A: 9_000, _B: 40_000}, "x")) == {_A: 9, _B: 25}
