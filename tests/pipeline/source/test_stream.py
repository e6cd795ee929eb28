from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.options import read_options
from goqueue.pipeline.source.errors import DataLost
from goqueue.pipeline.source.offsets import QueryMark
from goqueue.pipeline.source.stream import Stream
from goqueue.pipeline.source.watching import TOPICS_S
from tests.pipeline.source.fakes import Clock, FakeCluster

_A0, _A1, _B0 = Place("a", 0), Place("a", 1), Place("b", 0)


def _stream(cluster: Any, clock: Clock | None = None, /, **more: str) -> Stream:
    what = {"subscribe": "a"} if not more.keys() & {"subscribe", "subscribePattern", "assign"} else {}
    options = {"kafka.bootstrap.servers": "n:1", "startingOffsets": "earliest", **what, **more}
    return Stream(cluster, read_options(options, "stream"), clock or Clock())


def _first(stream: Stream) -> QueryMark:
    mark = stream.next_mark(None, is_limited=True)
    assert mark is not None
    return mark


@pytest.fixture
def cluster() -> Any:
    return FakeCluster(a=[(0, 100), (0, 300)])


def test_batches_follow_each_other_without_gap_or_overlap(cluster: Any) -> None:
    stream = _stream(cluster, maxOffsetsPerTrigger="150")
    stream.until_now()
    mark: QueryMark | None = _first(stream)
    before: QueryMark | None = None
    read: list[OffsetRange] = []
    while mark is not None:
        read += stream.ranges(before, mark)
        before, mark = mark, stream.next_mark(mark, is_limited=True)
    assert before is not None
    assert before.to == {_A0: 100, _A1: 300}
    for place, end in before.to.items():
        edges = [(one.start, one.end) for one in read if one.place == place]
        assert [start for start, _ in edges] == [0, *(stop for _, stop in edges[:-1])]
        assert edges[-1][1] == end
    assert len(read) == 6


def test_nothing_new_is_no_mark(cluster: Any) -> None:
    stream = _stream(cluster)
    assert stream.next_mark(_first(stream), is_limited=True) is None


def test_spark_may_ask_for_everything_whatever_the_options_say(cluster: Any) -> None:
    stream = _stream(cluster, maxOffsetsPerTrigger="10")
    mark = stream.next_mark(None, is_limited=False)
    assert mark is not None
    assert mark.to == {_A0: 100, _A1: 300}


def test_what_comes_after_the_beginning_of_a_run_that_ends_is_left_for_the_next(cluster: Any) -> None:
    stream = _stream(cluster)
    stream.until_now()
    cluster.grow("a", 0, 50)
    mark = _first(stream)
    assert mark.to == {_A0: 100, _A1: 300}
    assert stream.next_mark(mark, is_limited=True) is None


def test_a_new_partition_is_read_from_its_beginning(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock, startingOffsets="latest")
    before = _first(stream)
    cluster.logs[Place("a", 2)] = (0, 7)
    clock.now += TOPICS_S
    mark = stream.next_mark(before, is_limited=True)
    assert mark is not None
    assert stream.ranges(before, mark) == [OffsetRange("a", 2, 0, 7)]


def test_a_topic_that_appears_under_the_pattern_is_read_from_its_beginning(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock, subscribePattern="[ab]", startingOffsets="latest")
    before = _first(stream)
    cluster.make("b", [(0, 5)])
    clock.now += TOPICS_S
    mark = stream.next_mark(before, is_limited=True)
    assert mark is not None
    assert stream.ranges(before, mark) == [OffsetRange("b", 0, 0, 5)]


def test_a_new_partition_that_lost_its_beginning_already_is_a_loss(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock)
    before = _first(stream)
    cluster.logs[Place("a", 2)] = (4, 7)
    clock.now += TOPICS_S
    with pytest.raises(DataLost, match="4 offsets of a/2"):
        stream.next_mark(before, is_limited=True)


def test_an_unknown_topic(cluster: Any) -> None:
    with pytest.raises(TopicNotFound, match="no topic 'z'"):
        _first(_stream(cluster, subscribe="a,z"))


# --- waiting for enough -------------------------------------------------------------------------------------------


def test_a_small_backlog_waits_until_it_is_large_enough(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    mark = _first(stream)
    cluster.grow("a", 0, 9)
    clock.now += 1
    assert stream.next_mark(mark, is_limited=True) is None
    cluster.grow("a", 1, 1)
    clock.now += 1
    more = stream.next_mark(mark, is_limited=True)
    assert more is not None
    assert more.to == {_A0: 109, _A1: 301}


def test_a_small_backlog_waits_no_longer_than_allowed(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    mark = _first(stream)
    cluster.grow("a", 0, 1)
    clock.now += 59
    assert stream.next_mark(mark, is_limited=True) is None
    clock.now += 1
    assert stream.next_mark(mark, is_limited=True) is not None


def test_a_run_that_ends_does_not_wait_for_more(cluster: Any) -> None:
    stream = _stream(cluster, minOffsetsPerTrigger="300", maxOffsetsPerTrigger="300")
    stream.until_now()
    mark = _first(stream)
    rest = stream.next_mark(mark, is_limited=True)
    assert rest is not None
    assert rest.to == {_A0: 100, _A1: 300}


# --- loss ---------------------------------------------------------------------------------------------------------


def test_retention_that_overtakes_a_query_fails_it(cluster: Any) -> None:
    stream = _stream(cluster, maxOffsetsPerTrigger="40")
    mark = _first(stream)
    cluster.retain_from("a", 0, 60)
    with pytest.raises(DataLost, match=r"offsets of a/0 are gone.*begins at 60.*failOnDataLoss"):
        stream.next_mark(mark, is_limited=True)


def test_retention_that_overtakes_a_query_is_counted_and_warned_of(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = _stream(cluster, maxOffsetsPerTrigger="40", failOnDataLoss="false")
    before = _first(stream)
    cluster.retain_from("a", 0, 60)
    mark = stream.next_mark(before, is_limited=True)
    assert mark is not None
    assert mark.lost == {_A0: 60 - before.to[_A0]}
    assert mark.as_json()["lost"] == {"a": {"0": 60 - before.to[_A0]}}
    assert stream.ranges(before, mark)[0].start == 60
    assert f"{60 - before.to[_A0]} offsets of a/0 are gone" in caplog.text


def test_what_is_lost_is_summed_up(cluster: Any) -> None:
    clock = Clock()
    stream = _stream(cluster, clock, failOnDataLoss="false")
    mark = _first(stream)
    for _ in range(2):
        cluster.grow("a", 1, 100)
        cluster.retain_from("a", 1, mark.to[_A1] + 30)
        clock.now += 1
        found = stream.next_mark(mark, is_limited=True)
        assert found is not None
        mark = found
    assert mark.lost == {_A1: 60}


def test_a_batch_that_is_repeated_after_its_data_is_gone_fails_as_well(cluster: Any) -> None:
    mark = _first(_stream(cluster))
    cluster.retain_from("a", 0, 60)
    with pytest.raises(DataLost, match="60 offsets of a/0"):
        _stream(cluster).ranges(None, mark)
    assert _stream(cluster, failOnDataLoss="false").ranges(None, mark)[0] == OffsetRange("a", 0, 60, 100)


def test_a_topic_that_is_deleted_fails_the_query_or_is_warned_of(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.make("b", [(0, 5)])
    strict = _stream(cluster, subscribe="a,b")
    lenient = _stream(cluster, subscribe="a,b", failOnDataLoss="false")
    before = _first(strict)
    cluster.delete("b")
    with pytest.raises(DataLost, match="b/0 is gone"):
        _stream(cluster, subscribe="a,b").next_mark(before, is_limited=True)
    mark = lenient.next_mark(before, is_limited=True)
    assert mark is not None
    assert mark.to == {_A0: 100, _A1: 300}
    assert lenient.ranges(before, mark) == []
    assert "b/0 is gone" in caplog.text
    assert lenient.next_mark(mark, is_limited=True) is None


def test_a_topic_that_is_made_again_is_read_from_its_beginning_though_its_offsets_look_alike(cluster: Any) -> None:
    before = _first(_stream(cluster))
    cluster.delete("a")
    cluster.make("a", [(0, 100), (0, 900)])
    with pytest.raises(DataLost, match="a/0 was deleted and made again"):
        _stream(cluster).next_mark(before, is_limited=True)
    lenient = _stream(cluster, failOnDataLoss="false")
    mark = lenient.next_mark(before, is_limited=True)
    assert mark is not None
    assert lenient.ranges(before, mark) == [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 0, 900)]


def test_a_log_that_lost_its_tail_goes_on_from_its_end(cluster: Any) -> None:
    before = _first(_stream(cluster))
    cluster.logs[_A0] = (0, 90)
    with pytest.raises(DataLost, match="a/0 ends at 90 now, before the offset 100"):
        _stream(cluster).next_mark(before, is_limited=True)
    clock = Clock()
    lenient = _stream(cluster, clock, failOnDataLoss="false")
    mark = lenient.next_mark(before, is_limited=True)
    assert mark is not None
    assert lenient.ranges(before, mark) == []
    cluster.grow("a", 0, 5)
    clock.now += 1
    after = lenient.next_mark(mark, is_limited=True)
    assert after is not None
    assert lenient.ranges(mark, after) == [OffsetRange("a", 0, 90, 95)]


def test_a_topic_that_is_deleted_between_planning_and_reading(cluster: Any) -> None:
    cluster.make("b", [(0, 5)])
    mark = _first(_stream(cluster, subscribe="a,b"))
    cluster.delete("b")
    with pytest.raises(DataLost, match="b/0 is gone"):
        _stream(cluster, subscribe="a,b").ranges(None, mark)
    kept = _stream(cluster, subscribe="a,b", failOnDataLoss="false").ranges(None, mark)
    assert {one.topic for one in kept} == {"a"}


def test_an_offset_to_start_at_that_is_not_written_yet(cluster: Any) -> None:
    offsets = '{"a": {"0": 101, "1": 0}}'
    with pytest.raises(DataLost, match="a/0 ends at 100, before the offset 101 to start at"):
        _first(_stream(cluster, startingOffsets=offsets))
    assert _first(_stream(cluster, startingOffsets=offsets, failOnDataLoss="false")).begun == {_A0: 100, _A1: 0}


# --- traps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [{"startingOffsets": "latest"}, {"startingTimestamp": "50000"}])
def test_trap_1_where_a_query_began_is_taken_from_the_first_mark_and_not_asked_again(
    cluster: Any, start: dict[str, str]
) -> None:
    """Batch 0 is planned, the driver dies, more messages come and old ones go, and batch 0 is repeated."""
    given = {**({} if "startingOffsets" in start else {"startingOffsets": "latest"}), **start}
    mark = _first(_stream(cluster, **given))
    planned = _stream(cluster, **given).ranges(None, mark)
    cluster.grow("a", 0, 1_000)
    assert _stream(cluster, **given).ranges(None, mark) == planned
    assert mark.begun is not None
    follower = _stream(cluster, **given)
    after = follower.next_mark(mark, is_limited=True)
    assert after is not None
    assert follower.ranges(mark, after) == [OffsetRange("a", 0, mark.to[_A0], 1_100)]


def test_trap_3_the_groups_progress_is_told_when_the_next_batch_is_asked_for(cluster: Any) -> None:
    """Spark's commit lags a batch and is left out at the end of a run: both tell, and nothing is told twice."""
    stream = _stream(cluster, **{"group.id": "g", "maxOffsetsPerTrigger": "200"})
    stream.until_now()
    first = _first(stream)
    assert cluster.committed == []
    second = stream.next_mark(first, is_limited=True)
    assert second is not None
    stream.done(first)
    assert stream.next_mark(second, is_limited=True) is None
    assert [_told(request) for request in cluster.committed] == [first.to, second.to]


def _told(request: Any) -> dict[Place, int]:
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "", -1)
    return {
        Place(topic.name, one.partition_index): one.committed_offset
        for topic in request.topics
        for one in topic.partitions
    }
