"""Ranges of offsets against a plain set."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.core.delivery.ranges import RangeSet

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8), st.booleans()), max_size=40)


def held(ranges: RangeSet) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@settings(max_examples=200, derandomize=True, deadline=None)
@given(SPANS)
def test_ranges_are_a_set_of_offsets_that_never_touch(spans: list[tuple[int, int, bool]]) -> None:
    ranges, model = RangeSet(), set[int]()
    for start, size, cuts in spans:
        if cuts:
            ranges.cut_below(start)
            model = {offset for offset in model if offset >= start}
        else:
            ranges.add(start, start + size)
            model.update(range(start, start + size))
        assert held(ranges) == model
        pairs = list(ranges)
        assert all(start < end for start, end in pairs)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(pairs)), "they touch"
        assert len(ranges) == len(pairs)
        for offset in range(70):
            assert (offset in ranges) == (offset in model)
            end = offset
            while end in model:
                end += 1
            assert ranges.end_of(offset) == end


def test_neighbours_become_one_however_they_come() -> None:
    ranges = RangeSet()
    for offset in [*range(0, 1_000, 2), *range(1, 1_000, 2)]:
        ranges.add(offset, offset + 1)
    assert list(ranges) == [(0, 1_000)]


def test_a_range_that_covers_others_swallows_them() -> None:
    ranges = RangeSet()
    for start in (2, 6, 10):
        ranges.add(start, start + 2)
    ranges.add(0, 20)
    assert list(ranges) == [(0, 20)]
    ranges.add(5, 5)
    ranges.cut_below(7)
    assert list(ranges) == [(7, 20)]
    ranges.cut_below(20)
    assert list(ranges) == [] and len(ranges) == 0
