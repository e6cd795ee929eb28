"""Batches in virtual time: when they leave, and that nothing is lost, reordered or over a limit."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.client.accumulator import Accumulator, Batching, OutgoingBatch


def gathered(rules: Batching, *sizes: int, now: float = 0.0) -> Accumulator[int]:
    machine: Accumulator[int] = Accumulator(rules)
    for number, size in enumerate(sizes):
        machine.add("orders", number, size, now)
    return machine


def taken(machine: Accumulator[int], now: float) -> OutgoingBatch[int]:
    batch = machine.take(now)
    assert batch is not None
    return batch


def test_a_lone_message_lingers_and_then_leaves() -> None:
    machine = gathered(Batching(), 10, now=1.0)
    assert machine.next_deadline() == pytest.approx(1.005)
    assert machine.take(1.0049) is None
    assert taken(machine, 1.005) == OutgoingBatch("orders", [0], 10, 1.0)


def test_linger_zero_means_at_once() -> None:
    machine = gathered(Batching(linger_ms=0), 10, now=7.0)
    assert taken(machine, 7.0).items == [0]


def test_a_hundred_messages_leave_without_lingering() -> None:
    machine = gathered(Batching(), *[1] * 99)
    assert machine.take(0.0) is None
    machine.add("orders", 99, 1, 0.0)
    assert taken(machine, 0.0).items == list(range(100))


def test_a_batch_full_by_bytes_leaves_at_once_and_stays_within_them() -> None:
    machine = gathered(Batching(bytes_max=100), 60, 60)
    assert taken(machine, 0.0) == OutgoingBatch("orders", [0], 60, 0.0)


def test_what_did_not_fit_lingers_from_its_own_time_on() -> None:
    machine = gathered(Batching(bytes_max=100), 60)
    machine.add("orders", 1, 60, 0.004)
    machine.finished(taken(machine, 0.004))
    assert machine.take(0.0089) is None
    assert taken(machine, 0.0091).items == [1]


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    machine = gathered(Batching(bytes_max=100), 500, 10)
    assert taken(machine, 0.0).items == [0]


def test_a_topic_has_one_batch_on_its_way() -> None:
    machine = gathered(Batching(messages_max=2), 1, 1, 1, 1)
    first = taken(machine, 0.0)
    assert machine.take(100.0) is None
    assert machine.next_deadline() is None
    machine.finished(first)
    assert taken(machine, 0.0).items == [2, 3]


def test_topics_do_not_wait_for_each_other_and_the_oldest_goes_first() -> None:
    machine = gathered(Batching())
    machine.add("b", 0, 1, 0.001)
    machine.add("a", 1, 1, 0.002)
    assert taken(machine, 1.0).topic == "b"
    assert taken(machine, 1.0).topic == "a"


def test_a_busy_topic_does_not_starve_another() -> None:
    machine = gathered(Batching(messages_max=1))
    for number in range(3):
        machine.add("busy", number, 1, number * 0.001)
    machine.add("calm", 9, 1, 0.0015)
    order = []
    for _ in range(4):
        batch = taken(machine, 0.01)
        order.append(batch.topic)
        machine.finished(batch)
    assert order == ["busy", "busy", "calm", "busy"]


def test_a_flush_makes_everything_due_but_nothing_that_comes_later() -> None:
    machine = gathered(Batching(messages_max=2), 1, 1, 1)
    machine.flush()
    machine.finished(taken(machine, 0.0))
    assert taken(machine, 0.0).items == [2]
    machine.add("orders", 3, 1, 0.0)
    assert machine.take(0.001) is None


def test_room_is_taken_until_the_batch_is_finished() -> None:
    machine = gathered(Batching(buffer_bytes_max=100), 60)
    assert not machine.has_room(41)
    assert machine.has_room(40)
    batch = taken(machine, 1.0)
    assert not machine.has_room(41)
    machine.finished(batch)
    assert machine.has_room(100)
    assert not machine.can_ever_fit(101)


def test_adding_tells_when_the_driver_must_look_again() -> None:
    machine: Accumulator[int] = Accumulator(Batching(messages_max=3))
    assert machine.add("orders", 0, 1, 0.0)  # a first deadline
    assert not machine.add("orders", 1, 1, 0.001)  # the same deadline
    assert machine.add("orders", 2, 1, 0.002)  # full
    machine.take(0.002)
    assert not machine.add("orders", 3, 1, 0.003)  # waits for the batch before it


@pytest.mark.parametrize(
    "wrong",
    [{"messages_max": 0}, {"messages_max": 10_001}, {"bytes_max": 0}, {"buffer_bytes_max": 0}, {"linger_ms": -1}],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Batching(**wrong)


class AnyLife(RuleBasedStateMachine):
    """Any order of adding, waiting, sending, finishing and flushing."""

    @initialize(
        messages=st.integers(1, 5), size=st.integers(1, 50), linger=st.integers(0, 20), room=st.integers(60, 400)
    )
    def begin(self, messages: int, size: int, linger: int, room: int) -> None:
        self.rules_ = Batching(messages, size, linger * 1000, room)  # whole seconds: no rounding
        self.machine: Accumulator[int] = Accumulator(self.rules_)
        self.now = 0
        self.count = 0
        self.waiting: dict[str, list[tuple[int, int, int]]] = defaultdict(list)  # item, size, when it came
        self.asked_for: set[int] = set()
        self.leaving: dict[str, OutgoingBatch[int]] = {}

    @rule(topic=st.sampled_from("abc"), size=st.integers(1, 60))
    def add(self, topic: str, size: int) -> None:
        used = sum(batch.size for batch in self.leaving.values())
        used += sum(size for items in self.waiting.values() for _, size, _ in items)
        assert self.machine.has_room(size) == (used + size <= self.rules_.buffer_bytes_max)
        if self.machine.has_room(size):
            self.machine.add(topic, self.count, size, self.now)
            self.waiting[topic].append((self.count, size, self.now))
            self.count += 1

    @rule(seconds=st.integers(1, 10))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def flush(self) -> None:
        self.machine.flush()
        self.asked_for |= {item for items in self.waiting.values() for item, _, _ in items}

    @rule()
    def take(self) -> None:
        batch = self.machine.take(self.now)
        due = [topic for topic in self.waiting if self.is_due(topic)]
        if batch is None:
            assert due == []
            return
        assert batch.topic in due
        assert batch.since == min(self.waiting[topic][0][2] for topic in due)
        self.check_limits(batch)
        expected = self.waiting[batch.topic][: len(batch.items)]
        assert batch.items == [item for item, _, _ in expected]
        assert batch.size == sum(size for _, size, _ in expected)
        del self.waiting[batch.topic][: len(batch.items)]
        self.leaving[batch.topic] = batch

    @precondition(lambda self: self.leaving)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        topic = data.draw(st.sampled_from(sorted(self.leaving)))
        self.machine.finished(self.leaving.pop(topic))

    def is_due(self, topic: str) -> bool:
        items = self.waiting[topic]
        if not items or topic in self.leaving:
            return False
        is_full = len(items) >= self.rules_.messages_max or sum(size for _, size, _ in items) >= self.rules_.bytes_max
        item, _, came = items[0]
        return is_full or item in self.asked_for or came + self.rules_.linger_ms // 1000 <= self.now

    def check_limits(self, batch: OutgoingBatch[int]) -> None:
        assert 1 <= len(batch.items) <= self.rules_.messages_max
        assert batch.size <= self.rules_.bytes_max or len(batch.items) == 1

    @invariant()
    def holds_exactly_what_is_unfinished(self) -> None:
        expected = [item for items in self.waiting.values() for item, _, _ in items]
        expected += [item for batch in self.leaving.values() for item in batch.items]
        assert sorted(self.machine.unfinished()) == sorted(expected)
        assert self.machine.is_empty == (not expected)

    @invariant()
    def wakes_its_driver_in_time(self) -> None:
        deadline = self.machine.next_deadline()
        assert (deadline is not None and deadline <= self.now) == any(map(self.is_due, list(self.waiting)))


TestAnyLife = AnyLife.TestCase
