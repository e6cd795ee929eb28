"""A line in which all get the same part, however much each of them puts into it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.limits import FAIR_SHARES_KNOWN_MAX
from goqueue.core.fair_queue import FairQueue


def served(line: FairQueue[str], cost: float = 1.0) -> str:
    found = line.pop()
    assert found is not None
    line.charge(found[0], cost)
    return found[1]


def fill(line: FairQueue[str], name: str, count: int) -> None:
    for number in range(count):
        line.push(line.share(name), f"{name}{number}")


def test_whoever_has_much_in_the_line_gets_no_more_than_another() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    fill(line, "a", 50)
    fill(line, "b", 3)
    assert [served(line) for _ in range(7)] == ["a0", "b0", "a1", "b1", "a2", "b2", "a3"]


def test_whoever_used_no_more_than_all_who_wait_would_be_next() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    few = line.share("b")
    assert line.would_be_next(few), "nobody waits"
    fill(line, "a", 5)
    served(line)
    assert line.would_be_next(few)
    line.charge(few, 5.0)
    assert not line.would_be_next(few)
    for _ in range(4):
        served(line)
    fill(line, "a", 1)
    assert line.would_be_next(few), "the other has had as much"
    fill(line, "b", 1)
    assert not line.would_be_next(few), "it waits itself"


def test_what_is_charged_counts_and_not_how_many() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    fill(line, "a", 30)
    fill(line, "b", 30)
    first = Counter[str]()
    for _ in range(24):
        found = line.pop()
        assert found is not None
        line.charge(found[0], 3.0 if found[0].name == "a" else 1.0)
        first[found[0].name] += 1
    assert first == {"a": 6, "b": 18}


def test_what_one_used_alone_is_not_held_against_it_and_silence_is_not_saved_up() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    fill(line, "b", 1)
    served(line)
    for _ in range(100):
        fill(line, "a", 1)
        served(line, 10.0)
    fill(line, "a", 5)
    fill(line, "b", 5)
    order = [served(line, 10.0)[0] for _ in range(10)]
    assert sorted(order[:2]) == ["a", "b"] and order[2:] == order[:2] * 4


def test_what_one_used_while_nobody_waited_is_not_owed_to_who_comes_next() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    for _ in range(100):  # served at once, without a turn in the line
        line.charge(line.share("a"), 10.0)
    fill(line, "b", 50)
    fill(line, "a", 5)
    order = [served(line, 10.0)[0] for _ in range(6)]
    assert order.count("a") >= 2


def test_costs_that_come_later_are_counted_before_the_next_turn() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    fill(line, "a", 2)
    fill(line, "b", 2)
    assert served(line, 0.0) == "a0"
    line.charge(line.share("a"), 5.0)
    assert [served(line, 0.0) for _ in range(3)] == ["b0", "b1", "a1"]
    assert line.pop() is None and line.is_empty


def test_the_mean_cost_of_requests_follows_what_they_cost() -> None:
    share = FairQueue[str](1.0).share("a")
    for _ in range(50):
        share.request_over(9.0)
    assert share.request_cost == pytest.approx(9.0, abs=0.01)


def test_no_more_are_known_than_may_be_but_for_those_that_wait() -> None:
    line: FairQueue[str] = FairQueue(1.0)
    fill(line, "a", 1)
    for number in range(FAIR_SHARES_KNOWN_MAX + 5):
        line.charge(line.share(str(number)), 1.0)
    assert len(line._known) <= FAIR_SHARES_KNOWN_MAX
    assert served(line) == "a0"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["push", "pop", "charge"])), max_size=200))
def test_nothing_is_lost_and_each_is_served_in_order(steps: list[tuple[str, str]]) -> None:
    line: FairQueue[tuple[str, int]] = FairQueue(1.0)
    pushed: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    popped: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for number, (name, step) in enumerate(steps):
        if step == "push":
            line.push(line.share(name), (name, number))
            pushed[name].append(number)
        elif step == "charge":
            line.charge(line.share(name), 1.0)
        elif (found := line.pop()) is not None:
            popped[found[1][0]].append(found[1][1])
            line.charge(found[0], 1.0)
    while (found := line.pop()) is not None:
        popped[found[1][0]].append(found[1][1])
    assert popped == pushed
