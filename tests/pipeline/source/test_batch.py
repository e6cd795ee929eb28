from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.options import read_options
from goqueue.pipeline.source.batch import batch_ranges
from goqueue.pipeline.source.errors import DataLost
from goqueue.pipeline.source.narrowing import Narrow
from tests.pipeline.source.fakes import FakeCluster


def _ranges(cluster: Any, narrow: Narrow | None = None, /, **more: str) -> list[OffsetRange]:
    options = read_options({"kafka.bootstrap.servers": "n:1", "subscribe": "a", **more}, "batch")
    return batch_ranges(cluster, options, narrow)


@pytest.fixture
def cluster() -> Any:
    return FakeCluster(a=[(3, 10), (20, 50)])


def test_a_batch_reads_everything_unless_told_otherwise(cluster: Any) -> None:
    assert _ranges(cluster) == [OffsetRange("a", 0, 3, 10), OffsetRange("a", 1, 20, 50)]


def test_a_batch_between_two_edges(cluster: Any) -> None:
    found = _ranges(cluster, startingOffsets='{"a": {"0": 5, "1": -2}}', endingOffsets='{"a": {"0": -1, "1": 30}}')
    assert found == [OffsetRange("a", 0, 5, 10), OffsetRange("a", 1, 20, 30)]
    assert _ranges(cluster, startingTimestamp="4000", endingTimestamp="25000") == [
        OffsetRange("a", 0, 4, 10),
        OffsetRange("a", 1, 20, 25),
    ]


def test_an_unknown_topic(cluster: Any) -> None:
    with pytest.raises(TopicNotFound, match="no topic 'z'"):
        _ranges(cluster, subscribe="z")


@pytest.mark.parametrize(
    ("more", "told", "kept"),
    [
        ({"startingOffsets": '{"a": {"0": 0, "1": 20}}'}, "3 offsets of a/0", OffsetRange("a", 0, 3, 10)),
        ({"endingOffsets": '{"a": {"0": 11, "1": -1}}'}, "before the offset 11 to end at", OffsetRange("a", 0, 3, 10)),
        (
            {"startingOffsets": '{"a": {"0": 99, "1": 20}}'},
            "before the offset 99 to start at",
            OffsetRange("a", 0, 99, 10),
        ),
    ],
)
def test_offsets_that_are_not_there_are_a_loss(
    cluster: Any, more: dict[str, str], told: str, kept: OffsetRange, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataLost, match=told):
        _ranges(cluster, **more)
    assert _ranges(cluster, failOnDataLoss="false", **more)[0] == kept
    assert told in caplog.text


# --- filters ------------------------------------------------------------------------------------------------------


def _narrowed(cluster: Any, *filters: Filter) -> tuple[list[OffsetRange], list[Filter]]:
    narrow = Narrow()
    left = [one for one in filters if not narrow.take(one)]
    found = _ranges(cluster, narrow)
    return [one for one in found if one.start < one.end], left


def test_filters_on_partition_and_topic_leave_partitions_out(cluster: Any) -> None:
    assert _narrowed(cluster, EqualTo(("partition",), 1)) == ([OffsetRange("a", 1, 20, 50)], [])
    assert _narrowed(cluster, In(("partition",), (0, 7)), IsNotNull(("partition",))) == (
        [OffsetRange("a", 0, 3, 10)],
        [],
    )
    assert _narrowed(cluster, EqualTo(("topic",), "b")) == ([], [])


def test_filters_on_the_offset_make_ranges_smaller(cluster: Any) -> None:
    found, left = _narrowed(cluster, GreaterThan(("offset",), 7), LessThanOrEqual(("offset",), 22))
    assert (found, left) == ([OffsetRange("a", 0, 8, 10), OffsetRange("a", 1, 20, 23)], [])
    found, left = _narrowed(cluster, GreaterThanOrEqual(("offset",), 7), LessThan(("offset",), 22))
    assert (found, left) == ([OffsetRange("a", 0, 7, 10), OffsetRange("a", 1, 20, 22)], [])
    assert _narrowed(cluster, EqualTo(("offset",), 30)) == ([OffsetRange("a", 1, 30, 31)], [])


def test_a_time_only_helps_as_logs_need_not_be_in_order_of_time(cluster: Any) -> None:
    since = GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp(8, UTC))
    until = LessThan(("timestamp",), datetime.fromtimestamp(9, UTC))
    assert _narrowed(cluster, since, until) == (
        [OffsetRange("a", 0, 8, 10), OffsetRange("a", 1, 20, 50)],
        [since, until],
    )
    later = GreaterThan(("timestamp",), datetime.fromtimestamp(40, UTC))
    assert _narrowed(cluster, later) == ([OffsetRange("a", 1, 40, 50)], [later])


@pytest.mark.parametrize(
    ("filters", "keys"),
    [
        ([EqualTo(("key",), b"a")], (b"a",)),
        ([In(("key",), (b"a", b"b"))], (b"a", b"b")),
        ([In(("key",), (b"a", b"b")), EqualNullSafe(("key",), b"b")], (b"b",)),
        ([EqualTo(("key",), b"a"), EqualTo(("key",), b"b")], ()),
    ],
)
def test_filters_on_the_key_are_left_to_the_tasks(filters: list[Filter], keys: tuple[bytes, ...]) -> None:
    narrow = Narrow()
    assert all(narrow.take(one) for one in filters)
    assert narrow.keys == keys


def test_conditions_on_the_key_that_contradict_each_other_read_nothing(cluster: Any) -> None:
    assert _narrowed(cluster, EqualTo(("key",), b"a"), EqualTo(("key",), b"b")) == ([], [])


def test_two_lists_of_many_keys_are_compared_in_no_time() -> None:
    many = tuple(b"%d" % number for number in range(50_000))
    narrow, began = Narrow(), time.process_time()
    assert narrow.take(In(("key",), many)) and narrow.take(In(("key",), many[::-1]))
    assert time.process_time() - began < 2, "a search for each takes a quarter of a minute"
    assert narrow.keys == many[::-1]


@pytest.mark.parametrize(
    "one", [EqualTo(("key",), "text"), In(("key",), (b"a", None)), Not(EqualTo(("key",), b"a")), IsNotNull(("key",))]
)
def test_other_filters_on_the_key_are_sparks(one: Filter) -> None:
    narrow = Narrow()
    assert not narrow.take(one)
    assert narrow.keys is None


def test_other_filters_are_sparks(cluster: Any) -> None:
    others = [
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("offset",), None),
    ]
    found, left = _narrowed(cluster, *others)
    assert left == others
    assert {one.place for one in found} == {Place("a", 0), Place("a", 1)}
