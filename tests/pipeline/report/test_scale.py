"""Axes: round numbers that hold the data, and places that follow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.report.scale import Scale, even_ticks, log_ticks, time_label, time_step_ms, time_ticks
from tests.pipeline.report.made_up import START_MS


@given(st.floats(1e-6, 1e15), st.sampled_from([10, 1024]))
def test_even_ticks_hold_the_highest_and_are_few(high: float, base: int) -> None:
    ticks = even_ticks(high, base=base)
    assert ticks[0] == 0 and ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 6
    steps = {round(after / ticks[1]) - round(before / ticks[1]) for before, after in pairwise(ticks)}
    assert steps == {1}


def test_even_ticks_are_round() -> None:
    assert even_ticks(38.6) == [0, 10, 20, 30, 40]
    assert even_ticks(100) == [0, 50, 100]
    assert even_ticks(7_500, base=1024) == [0, 2_048, 4_096, 6_144, 8_192]
    assert even_ticks(1_400, base=1024) == [0, 512, 1_024, 1_536]
    assert even_ticks(0) == [0, pytest.approx(1e-9, rel=10)]


@given(st.floats(1, 1e9), st.floats(1, 1e9))
def test_log_ticks_hold_both_ends(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    ticks = log_ticks(low, high)
    assert ticks[0] <= low * (1 + 1e-9) and ticks[-1] >= high * (1 - 1e-9) and len(ticks) >= 2


@given(st.integers(0, 2 * 10**12), st.integers(1, 10**11))
def test_time_ticks_lie_inside_and_are_few(low: int, length: int) -> None:
    ticks = time_ticks(low, low + length)
    assert all(low <= tick <= low + length for tick in ticks)
    assert len(ticks) <= 9


def test_times_are_told_as_finely_as_needed() -> None:
    assert time_step_ms(3_600_000, 8) == 600_000
    assert time_label(1_000)(START_MS) == "12:00:00"
    assert time_label(600_000)(START_MS) == "12:00"
    assert time_label(86_400_000)(START_MS) == "01 Jan"


def test_a_scale_maps_ends_to_ends_and_stays_inside() -> None:
    scale = Scale(0, 10, 100, 200)
    assert [scale(value) for value in (0, 5, 10, 12, -3)] == [100, 150, 200, 200, 100]
    down = Scale(0, 10, 200, 100)
    assert down(10) == 100
    powers = Scale(1, 10_000, 0, 400, is_log=True)
    assert [powers(value) for value in (1, 100, 10_000)] == [0, 200, 400]
    assert Scale(5, 5, 1, 2)(5) == 1
