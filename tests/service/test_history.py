"""The node's history: rates, names that come and go, points over time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from goqueue.base.clock import SystemClock
from goqueue.base.limits import HISTORY_COLUMNS_MAX, HISTORY_STEP_MS
from goqueue.drive.history_ring import HistoryRing
from goqueue.service.history import NodeHistory
from goqueue.service.history_sample import Rates

T = TypeVar("T")


class Clock(SystemClock):
    now = 1_000_000 * HISTORY_STEP_MS

    def now_ms(self) -> int:
        return self.now


async def at_once(work: Callable[[], T]) -> T:
    return work()


def test_a_rate_is_growth_a_second_and_a_counter_that_went_back_is_none() -> None:
    times = iter([0.0, 2.0, 4.0])
    rates = Rates(lambda: next(times))
    assert rates.of({"a": 5}) == {}
    assert rates.of({"a": 25, "new": 4}) == {"a": 10.0, "new": 2.0}
    assert rates.of({"a": 0, "new": 4}) == {"a": 0.0, "new": 0.0}


@pytest.mark.asyncio
async def test_points_are_means_and_survive_a_restart(tmp_path: Path) -> None:
    clock, numbers = Clock(), {"lag": 0.0}
    history = NodeHistory(HistoryRing(tmp_path / "h.ring"), lambda: dict(numbers), clock, at_once)
    await history.start()
    for value in range(1, 12):
        clock.now += HISTORY_STEP_MS
        numbers["lag"] = value
        await history.take()
    await history.stop()
    again = NodeHistory(HistoryRing(tmp_path / "h.ring"), lambda: {"lag": 99.0, "lag:g": 1.0}, clock, at_once)
    await again.start()
    page = await again.read(["lag", "never"], "lag:", 2, 12)
    assert (page.step_ms, page.end_ms) == (HISTORY_STEP_MS, clock.now)
    assert page.series["lag"][:-1] == [float(value) for value in range(11)]
    assert page.series["lag:g"] == [None] * 11 + [1.0]
    assert "never" not in page.series
    assert (await again.read(["lag"], "", 2, 6)).series["lag"][:2] == [0.5, 2.5]
    await again.stop()


@pytest.mark.asyncio
async def test_a_column_that_nobody_fills_is_given_to_another_name_and_its_past_is_not_shown(tmp_path: Path) -> None:
    clock, numbers = Clock(), {f"topic.in:{number}": 1.0 for number in range(HISTORY_COLUMNS_MAX)}
    history = NodeHistory(HistoryRing(tmp_path / "h.ring"), lambda: dict(numbers), clock, at_once)
    await history.start()
    clock.now += HISTORY_STEP_MS
    del numbers["topic.in:3"]
    numbers["topic.in:new"] = 7.0
    await history.take()
    series = (await history.read(["topic.in:3", "topic.in:new"], "", 1, 6)).series
    assert series == {"topic.in:new": [None] * 5 + [7.0]}
    await history.stop()
