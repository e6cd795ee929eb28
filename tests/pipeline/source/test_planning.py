from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.source.planning import TASK_ROWS_MAX, TASK_ROWS_MIN, Wishes, plan

_RANGES = st.lists(
    st.builds(
        lambda topic, partition, start, size: OffsetRange(topic, partition, start, start + size),
        st.sampled_from(["a", "b"]),
        st.integers(0, 50),
        st.integers(0, 1 << 40),
        st.integers(-5, 3_000_000),
    ),
    max_size=12,
    unique_by=lambda one: (one.topic, one.partition),
)
_WISHES = st.builds(Wishes, st.none() | st.integers(1, 40), st.none() | st.integers(10_000, 1 << 40))


def _rows(ranges: list[OffsetRange]) -> int:
    return sum(max(0, one.end - one.start) for one in ranges)


@given(_RANGES, _WISHES, st.integers(1, 16))
def test_every_offset_is_in_exactly_one_task(ranges: list[OffsetRange], wishes: Wishes, cores: int) -> None:
    tasks = plan(ranges, wishes, cores)
    assert all(one.end > one.start for task in tasks for one in task)
    assert all(tasks)
    joined: list[OffsetRange] = []
    for one in (part for task in tasks for part in task):
        if joined and joined[-1].place == one.place and joined[-1].end == one.start:
            joined[-1] = OffsetRange(one.topic, one.partition, joined[-1].start, one.end)
        else:
            joined.append(one)
    assert joined == [one for one in ranges if one.end > one.start]


@given(_RANGES, _WISHES, st.integers(1, 16))
def test_wishes_hold(ranges: list[OffsetRange], wishes: Wishes, cores: int) -> None:
    tasks = plan(ranges, wishes, cores)
    sizes = [_rows(task) for task in tasks]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    if wishes.min_partitions and _rows(ranges) >= wishes.min_partitions:
        assert len(tasks) >= wishes.min_partitions
    if wishes.max_records_per_partition:
        assert all(size <= wishes.max_records_per_partition for size in sizes)
    assert all(size <= TASK_ROWS_MAX for size in sizes)


def test_small_ranges_of_several_topics_share_a_task() -> None:
    ranges = [OffsetRange("a", number, 0, 100) for number in range(20)]
    assert plan(ranges, Wishes(), cores=4) == [ranges]


def test_a_big_range_is_split_over_the_cores() -> None:
    big = OffsetRange("a", 0, 1_000, 1_000 + 4 * TASK_ROWS_MIN)
    assert [_rows(task) for task in plan([big], Wishes(), cores=2)] == [2 * TASK_ROWS_MIN] * 2


def test_nothing_to_read_is_no_task() -> None:
    assert plan([OffsetRange("a", 0, 5, 5)], Wishes(min_partitions=4), cores=2) == []
