"""The timer wheel: nobody early, nobody a lap late, whatever the order of things."""

from __future__ import annotations

import bisect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.core.wheel import TICK_MS, Wheel

START = 1_767_225_600_003
DAY_MS = 86_400_000


def rounded(due: int) -> int:
    return -(-due // TICK_MS) * TICK_MS


@pytest.mark.parametrize(
    "delay",
    [
        *(0, 1, 6, 7, 9, 10, 11, 2_549, 2_550, 2_559, 2_560, 2_561, 2_570),
        *(163_830, 163_840, 163_850, 10_485_760, 671_088_630, 671_088_640, 60 * DAY_MS),
    ],
)
def test_a_timer_fires_at_its_tick(delay: int) -> None:
    wheel: Wheel[int] = Wheel()
    due = START + delay
    wheel.add(1, due)
    fired_at = None
    while fired_at is None:
        deadline = wheel.next_deadline()
        assert deadline is not None and deadline <= max(rounded(due), START)
        if wheel.advance(deadline) == [1]:
            fired_at = deadline
    assert fired_at in (rounded(due), START // TICK_MS * TICK_MS)
    assert wheel.next_deadline() is None and len(wheel) == 0


def test_a_timer_of_the_current_tick_does_not_wait_for_a_lap() -> None:
    wheel: Wheel[int] = Wheel()
    wheel.advance(START + 7)
    wheel.add(1, START + 7)
    wheel.add(2, START)
    assert wheel.advance(START + 7) == [2, 1]


def test_a_cancelled_timer_never_fires_and_a_moved_one_fires_once() -> None:
    wheel: Wheel[int] = Wheel()
    wheel.add(1, START + 5_000)
    wheel.add(2, START + 5_000)
    assert wheel.cancel(1) and not wheel.cancel(1)
    wheel.add(2, START + 300_000)
    assert wheel.advance(START + 200_000) == []
    assert wheel.advance(START + 400_000) == [2]


def test_time_that_jumps_and_time_that_goes_back() -> None:
    wheel: Wheel[int] = Wheel()
    for token in range(1000):
        wheel.add(token, START + token * 100_000)
    assert wheel.advance(START - DAY_MS) == [0][:0]
    assert wheel.advance(START + 10 * DAY_MS) == list(range(1000))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 90 * DAY_MS), max_size=60), st.lists(st.integers(0, 5 * DAY_MS), max_size=60))
def test_all_fire_in_order_however_time_moves(delays: list[int], steps: list[int]) -> None:
    wheel: Wheel[int] = Wheel()
    model = sorted((START + delay, token) for token, delay in enumerate(delays))
    for token, delay in enumerate(delays):
        wheel.add(token, START + delay)
    now = START
    for step in [*steps, 100 * DAY_MS]:
        now += step
        cut = bisect.bisect_right(model, now // TICK_MS * TICK_MS, key=lambda timer: timer[0])
        assert wheel.advance(now) == [token for _, token in model[:cut]]
        del model[:cut]
    assert model == []


class AgainstASortedList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.wheel: Wheel[int] = Wheel()
        self.model: dict[int, int] = {}

    @rule(token=st.integers(0, 20), delay=st.one_of(st.integers(-50, 3_000), st.integers(0, 20 * DAY_MS)))
    def add(self, token: int, delay: int) -> None:
        self.wheel.add(token, self.now + delay)
        self.model[token] = self.now + delay

    @rule(token=st.integers(0, 20))
    def cancel(self, token: int) -> None:
        assert self.wheel.cancel(token) == (self.model.pop(token, None) is not None)

    @rule(step=st.one_of(st.integers(0, 30), st.integers(0, 3_000), st.integers(0, 9 * DAY_MS)))
    def advance(self, step: int) -> None:
        self.now += step
        self._advance()

    @rule()
    def advance_to_the_deadline(self) -> None:
        deadline = self.wheel.next_deadline()
        if deadline is not None:
            self.now = max(self.now, deadline)
            self._advance()

    def _advance(self) -> None:
        fired = self.wheel.advance(self.now)
        ticked = self.now // TICK_MS * TICK_MS
        sure = sorted((due, token) for token, due in self.model.items() if due <= ticked)
        maybe = {token for token, due in self.model.items() if ticked < due <= self.now}  # added within this tick
        assert [token for token in fired if token not in maybe] == [token for _, token in sure]
        for token in fired:
            assert self.model.pop(token) <= self.now

    @invariant()
    def the_deadline_is_never_late(self) -> None:
        assert len(self.wheel) == len(self.model)
        deadline = self.wheel.next_deadline()
        assert (deadline is None) == (not self.model)
        if self.model:
            assert deadline is not None and deadline <= max(rounded(min(self.model.values())), self.now)


TestAgainstASortedList = AgainstASortedList.TestCase
TestAgainstASortedList.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
