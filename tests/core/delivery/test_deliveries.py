"""All views of a node as one machine: time, records that could not be written, what a load brings back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from goqueue.core.delivery.deliveries import Deliveries, Woken
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.offers import Grant
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import Forgotten, Record, Returned, ViewId, decode_record, encode_record
from goqueue.core.delivery.states import IllegalMove, MessageState
from tests.core.delivery.views import NORMAL

A, B = ViewId("a", "t", 0), ViewId("b", "t", 0)
POLICY = Policy(failures_max=0, retry_ms=100)


class Node:
    """The machine and its log; `write` is what a host does."""

    def __init__(self) -> None:
        self.log: list[Record] = []
        self.machine = Deliveries(lambda view: POLICY)
        self.machine.loaded(0)
        self.machine.resume()
        for view in (A, B):
            self.write(Delivery(view).open_at(0))

    def write(self, records: Sequence[Record], now: int = 0) -> None:
        self.log += records
        for record in records:
            self.machine.apply(record)
        for delivery in self.machine.views.values():
            delivery.wake(now)

    def lease(self, view: ViewId, offset: int, until_ms: int, now: int = 0) -> None:
        delivery = self.machine.views[view]
        self.write(delivery.lease(NORMAL, [offset], (), Grant("me", f"n{offset}", until_ms), now)[1], now)

    def reloaded(self) -> Deliveries:
        machine = Deliveries(lambda view: POLICY)
        for record in self.log:
            stored = decode_record(encode_record(record))
            assert stored is not None
            machine.apply(stored)
        machine.loaded(0)
        return machine


def test_a_lease_whose_end_was_planned_twice_ends_once() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    node.write(node.machine.views[A].extend([0], 500))
    decision = node.machine.tick(2_000)
    assert [record.offsets for record in decision.records if isinstance(record, Returned)] == [(0,)]
    node.write(decision.records, 2_000)
    assert node.machine.views[A].count(MessageState.READY) == 1, "its lease was its wait"
    assert node.machine.tick(3_000).records == []
    assert node.reloaded().views[A].snapshot().lanes[0].held[0].failed == 1


def test_one_tick_does_what_is_due_in_every_view_and_says_where() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    node.lease(B, 0, until_ms=1_500)
    assert node.machine.next_deadline() == 1_000
    decision = node.machine.tick(1_500)
    assert {record.view for record in decision.records} == {A, B}
    assert decision.effects == [Woken(A), Woken(B)]


def test_what_could_not_be_written_is_due_again_and_told_then() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    node.lease(B, 0, until_ms=9_000)
    node.write(node.machine.views[B].nack([0], POLICY, 0, 0.0, 1_000, ""))
    before = [one.snapshot() for one in node.machine.views.values()]
    refused = node.machine.tick(1_200)
    assert refused.effects == [Woken(A), Woken(B)] and {one.view for one in refused.records} == {A}
    assert node.machine.revert(refused.records, 1_200) == ()
    assert node.machine.views[A].snapshot() == before[0], "nothing of it is known"
    deadline = node.machine.next_deadline()
    assert deadline is not None and deadline <= 1_200
    again = node.machine.tick(2_200)
    assert len(again.records) == 1 and set(again.effects) == {Woken(A), Woken(B)}
    node.write(again.records, 2_200)
    assert node.machine.tick(2_300).effects == []


def test_leases_hold_until_the_node_resumes() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    machine = node.reloaded()
    assert machine.next_deadline() is None
    machine.resume()
    assert machine.next_deadline() == 1_000
    assert machine.views[A].recovered(5_000, POLICY), "found once the node resumes"


def test_deadlines_follow_the_clock() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    assert node.machine.shift(-400, 100).records == []
    assert node.machine.next_deadline() == 600
    assert node.machine.tick(599).records == [] and node.machine.tick(600).records


def test_a_snapshot_stands_for_all_before_it_and_forgets_who_is_gone() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    node.lease(B, 3, until_ms=1_000)
    node.write([Forgotten(B)])
    before = node.machine.views[A].snapshot()
    node.log[:] = node.machine.snapshot()
    again = node.reloaded()
    assert list(again.views) == [A] and again.views[A].snapshot() == before
    assert list(again.at(A.at)) == [again.views[A]] and again.of("b") == []


def test_steps_from_before_a_view_was_written_whole_may_speak_of_what_is_cut_off() -> None:
    node = Node()
    node.lease(A, 0, until_ms=1_000)
    done = node.machine.views[A].ack([0])
    node.write(done)
    node.log[:] = [*done, *node.machine.snapshot()]
    assert node.reloaded().views[A].done_below == 1
    node.log.append(done[0])
    with pytest.raises(KeyError):
        node.reloaded()
    with pytest.raises((KeyError, IllegalMove)):
        node.machine.apply(done[0])
