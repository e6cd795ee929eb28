"""What all connections hold together: the largest goes, and reads ask for room first."""

from __future__ import annotations

import asyncio

from goqueue.base.limits import MIB
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.idle import Activity


class Holder:
    def __init__(self, budget: Budget) -> None:
        self.budget, self.held, self.is_gone, self.unread = budget, 0, False, 0
        budget.add(self)

    def hold(self, count: int) -> None:
        self.held += count
        self.unread = self.held
        self.budget.change(count)

    def recount(self) -> None:
        change, self.held = self.unread - self.held, self.unread
        if change:
            self.budget.change(change)

    def evict(self) -> None:
        self.is_gone = True
        held, self.held = self.held, 0
        self.budget.change(-held)


def test_the_connection_that_holds_the_most_goes() -> None:
    budget = Budget(100)
    small, large, last = Holder(budget), Holder(budget), Holder(budget)
    small.hold(10)
    large.hold(60)
    last.hold(40)
    assert (small.is_gone, large.is_gone, last.is_gone) == (False, True, False)
    assert budget.held == 50


def test_what_clients_have_read_meanwhile_does_not_count() -> None:
    budget = Budget(100)
    reader, other = Holder(budget), Holder(budget)
    reader.hold(90)
    reader.unread = 0
    other.hold(90)
    assert not reader.is_gone and not other.is_gone and budget.held == 90


def test_a_read_gets_what_is_left_and_nothing_if_that_is_little() -> None:
    budget = Budget(10 * MIB)
    holder = Holder(budget)
    holder.hold(4 * MIB)
    assert budget.reserve(50 * MIB) == 6 * MIB
    assert budget.reserve(1 * MIB) == 0
    budget.release(6 * MIB)
    assert budget.reserve(1_000) == 1_000


def test_who_waits_for_room_is_woken_when_there_is_some() -> None:
    async def run() -> None:
        budget = Budget(4 * MIB)
        granted = budget.reserve(4 * MIB)
        waiting = asyncio.create_task(budget.wait(60))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.release(granted)
        await asyncio.wait_for(waiting, 10)

    asyncio.run(run())


def looked(activity: Activity, now: float, unread: int = 0, waiting: bool = False, read: bool = True) -> str:
    return activity.overdue(now, unread, waiting, read, frame_s=10, idle_s=100)


def is_stalled(activity: Activity) -> bool:
    return activity.is_stalled


def test_a_frame_has_so_long_however_many_bytes_come() -> None:
    activity = Activity(0)
    for now in range(10):
        activity.received(now, has_frames=False, is_open=True)
    assert looked(activity, 9) == ""
    activity.received(11, has_frames=False, is_open=True)
    assert looked(activity, 11) == "frame"


def test_a_new_frame_has_its_own_time_and_a_node_that_does_not_read_no_reproach() -> None:
    activity = Activity(0)
    activity.received(0, has_frames=False, is_open=True)
    activity.received(9, has_frames=True, is_open=True)
    assert looked(activity, 15) == ""
    assert looked(activity, 40, read=False) == ""
    assert looked(activity, 45) == ""
    assert looked(activity, 51) == "frame"


def test_silence_is_idle_unless_an_answer_is_worked_on() -> None:
    activity = Activity(0)
    assert looked(activity, 99) == ""
    assert looked(activity, 150, waiting=True) == ""
    assert looked(activity, 240) == ""
    assert looked(activity, 251) == "idle"


def test_answers_that_are_not_read_are_no_activity() -> None:
    activity = Activity(0)
    assert looked(activity, 50, unread=1_000, waiting=True) == ""
    assert not is_stalled(activity)
    assert looked(activity, 60, unread=1_000, waiting=True) == ""
    assert is_stalled(activity)
    assert looked(activity, 70, unread=999) == ""
    assert not is_stalled(activity)
    assert looked(activity, 171, unread=999) == "idle"
