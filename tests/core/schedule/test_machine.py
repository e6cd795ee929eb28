"""The schedule's machine, without clock, log or index: what is due, what is written, what becomes of it."""

from __future__ import annotations

import pytest

from goqueue.base.commands import Repeat
from goqueue.base.errors import Overloaded
from goqueue.core.schedule import machine, near
from goqueue.core.schedule.due import Due, DueBatch, Target
from goqueue.core.schedule.effects import (
    EndDiscarded,
    Expired,
    FetchAhead,
    FireDue,
    LoadWindow,
    RebuildIndex,
    Recover,
    ScheduleCounts,
)
from goqueue.core.schedule.machine import ScheduleMachine
from goqueue.core.schedule.records import EntryEnded, Fired, Firing, NextDue, NextEnded
from tests.core.schedule.log import TARGET, Log, entry, values


def test_an_entry_is_fired_when_it_is_due_and_not_before() -> None:
    log = Log()
    due = log.now + 500
    log.accept(entry(due))
    deadline = log.machine.next_deadline()
    assert deadline is not None and due <= deadline < due + 5
    assert log.tick(499) == []
    assert log.tick(deadline - log.now) == [FireDue()]
    (batch,) = log.fire()
    assert log.records[1] == Firing("t", 0, 70, [(0, 0)], True)
    assert (batch.offset, [one.offset for one in batch.ends]) == (1, [0])
    assert log.machine.pending == {}


def test_entries_go_to_their_logs_in_one_batch_each_by_time() -> None:
    log = Log()
    log.accept(*(entry(log.now + n, topic, b"%d" % n) for n, topic in ((30, "t"), (10, "u"), (20, "t"), (40, "u"))))
    log.tick(50)
    assert values(log.fire()) == [[b"10", b"40"], [b"20", b"30"]]


def test_a_batch_is_no_larger_than_its_log_takes() -> None:
    log = Log()
    log.targets["t", 0] = Target(0, 1_000, is_writable=True)
    log.accept(*(entry(log.now + n, value=b"x" * 400) for n in range(1, 4)))
    log.tick(10)
    assert [len(batch.members) for batch in log.fire()] == [1, 1, 1]


def test_delivered_messages_end_when_they_are_durable() -> None:
    log = Log()
    log.accept(entry(log.now + 1))
    log.tick(10)
    (batch,) = log.fire()
    log.deliver(batch)
    assert log.counts.delivered == 1 and batch.members == []
    told = log.machine.known(0, None, log.now)
    assert isinstance(told, EntryEnded) and told.state == "delivered", "nobody can cancel it any more"
    log.do(log.machine.confirm([batch], log.now))
    assert log.records[2:] == [EntryEnded(0, "t", 0, log.now - 9, "delivered", log.now), Fired(1)]
    assert log.machine.known(0, None, log.now) is None
    assert log.pending() == []


def test_what_a_target_refuses_is_delivered_again_in_a_second() -> None:
    log = Log()
    log.accept(entry(log.now + 1))
    log.tick(10)
    (batch,) = log.fire()
    log.do(log.machine.refused(batch, log.now))
    assert log.machine.next_deadline() == log.now + 1_000
    assert log.tick(999) == []
    assert log.tick(1) == [batch]
    log.deliver(batch)
    assert log.tick(5_000) == []


def test_a_log_that_takes_no_writes_keeps_its_entries_pending() -> None:
    log = Log()
    log.targets["t", 0] = Target(0, 1_000, is_writable=False)
    log.accept(entry(log.now + 1))
    log.tick(10)
    assert log.fire() == [] and len(log.records) == 1
    assert log.tick(900) == []
    del log.targets["t", 0]
    assert log.tick(110) == [FireDue()]
    assert values(log.fire()) == [[b"v"]]


def test_a_firing_that_cannot_be_written_changes_nothing_and_is_tried_again() -> None:
    log = Log()
    log.accept(entry(log.now + 1), entry(log.now + 2, ttl_ms=1), entry(log.now + 3))
    log.tick(10)
    decision = log.decide_fire()
    assert decision is not None and decision.records
    log.machine.revert(decision.records, log.now)
    log.do(log.machine.fire_failed(log.now))
    assert log.machine.next_due() == []
    assert (len(log.records), log.machine.pending) == (3, {"t": 3})
    assert log.tick(999) == []
    assert log.tick(10) == [FireDue()]
    assert values(log.fire()) == [[b"v", b"v"]]
    assert log.counts.expired == 1


def test_a_repeating_entry_gets_its_next_time_with_its_firing() -> None:
    log = Log()
    began = log.now
    log.accept(entry(log.now + 100, repeat=Repeat(every_ms=100, times=2)))
    log.tick(105)
    (first,) = log.fire()
    assert log.records[2] == NextDue(0, "t", 0, began + 200, 1)
    assert first.ends == [] and log.machine.pending == {"t": 1}
    log.deliver(first)
    log.do(log.machine.confirm([first], log.now))
    assert log.records[3:] == [Fired(1)]
    log.tick(100)
    (second,) = log.fire()
    assert [(due.offset, due.count) for due, _ in second.members] == [(0, 1)]
    log.deliver(second)
    log.do(log.machine.confirm([second], log.now))
    assert log.records[5:] == [EntryEnded(0, "t", 0, began + 200, "delivered", log.now), NextEnded(0), Fired(4)]
    assert log.machine.pending == {}


def test_an_entry_whose_time_to_live_is_over_expires() -> None:
    log = Log()
    log.accept(entry(log.now + 10, ttl_ms=5), entry(log.now + 11, value=b"lasts", ttl_ms=50))
    log.tick(20)
    assert values(log.fire()) == [[b"lasts"]]
    assert log.counts.expired == 1
    (told,) = [one for one in log.effects if isinstance(one, Expired)]
    assert [due.offset for due, _ in told.members] == [0]


def test_the_entries_of_a_deleted_topic_are_cancelled() -> None:
    log = Log()
    log.targets["t", 0] = None
    log.accept(entry(log.now + 10))
    log.tick(20)
    assert log.fire() == []
    assert (log.counts.cancelled, log.machine.pending) == (1, {})


def test_a_cancelled_entry_is_never_fired_also_if_it_is_due() -> None:
    log = Log()
    log.accept(entry(log.now + 10), entry(log.now + 10))
    log.tick(20)
    due = log.machine.known(0, None, log.now)
    assert isinstance(due, Due)
    log.do(log.machine.end([due], "cancelled", log.now))
    assert [one.offset for one in log.machine.next_due()] == [1]
    due = log.machine.known(1, None, log.now)
    assert isinstance(due, Due)
    log.do(log.machine.end([due], "cancelled", log.now))
    payload = log.payload(1)
    assert log.machine.fire({1: payload}, {("t", 0): TARGET}, log.now).records == [], "cancelled while it was read"
    assert log.counts.cancelled == 2 and log.machine.pending == {}


def test_payloads_of_what_is_due_soon_are_fetched_ahead() -> None:
    log = Log()
    log.accept(entry(log.now + 60_000))
    assert log.tick(58_000) == [FetchAhead([0])]
    assert log.machine.near.held(0) is None
    payload = log.payload(0)
    assert payload is not None
    log.machine.near.hold(0, payload)
    assert log.tick(2_005) == [FireDue()]
    log.machine.next_due()
    decision = log.machine.fire({}, {("t", 0): TARGET}, log.now)
    assert isinstance(decision.records[0], Firing), "it needs no read"


def test_what_was_not_read_in_one_round_is_fired_in_the_next() -> None:
    log = Log()
    log.machine.near.hold = lambda offset, entry: None  # type: ignore[method-assign]
    log.accept(*(entry(log.now + n) for n in range(1, 5)))
    log.tick(10)
    log.machine.next_due()
    read = {offset: log.payload(offset) for offset in (0, 1)}
    (first,) = log.do(log.machine.fire(read, {("t", 0): TARGET}, log.now))
    assert isinstance(first, DueBatch) and len(first.members) == 2
    assert [due.offset for due in log.machine.next_due()] == [2, 3]


def test_an_entry_that_cannot_be_read_ends() -> None:
    log = Log()
    log.accept(entry(log.now + 60_000))
    log.tick(60_005)
    log.machine.next_due()
    log.do(log.machine.fire({0: None}, {("t", 0): TARGET}, log.now))
    assert isinstance(log.records[1], EntryEnded) and log.counts.expired == 1


def test_many_are_fired_in_stretches() -> None:
    log = Log()
    log.accept(*(entry(log.now + 1) for _ in range(1_200)))
    log.tick(10)
    sizes = []
    while (decision := log.decide_fire()) is not None:
        log.do(decision)
        sizes.append(sum(len(one.members) for one in decision.effects if isinstance(one, DueBatch)))
    assert sizes == [500, 500, 200]


def test_where_the_index_is_wrong_the_log_is_right() -> None:
    log = Log()
    log.accept(entry(log.now + 600_000))
    log.tick(400_000)
    log.effects.clear()
    wrong = Due(0, log.now, "elsewhere", 3)
    log.do(log.machine.window_loaded([wrong], log.now))
    assert log.effects == [FireDue()]
    dues = log.machine.next_due()
    targets = {due.place: TARGET for due in dues}
    decision = log.machine.fire({0: log.payload(0)}, targets, log.now)
    assert (decision.records, decision.effects) == ([], [RebuildIndex()])
    assert log.machine.next_due() == []
    log.tick(200_005)
    assert values(log.fire()) == [[b"v"]]


def test_what_lies_beyond_the_horizon_is_loaded_before_its_time() -> None:
    log = Log()
    log.accept(entry(log.now + 400_000))
    assert len(log.machine.near) == 0
    deadline = log.machine.next_deadline()
    assert deadline is not None and deadline < log.now + 300_000
    (asked,) = log.tick(deadline - log.now)
    assert isinstance(asked, LoadWindow)
    log.load_window()
    assert len(log.machine.near) == 1


def test_a_window_that_could_not_be_loaded_is_asked_for_again() -> None:
    log = Log()
    log.accept(entry(log.now + 400_000))
    log.tick(200_000)
    log.effects.clear()
    assert log.do(log.machine.window_loaded(None, log.now)) == []
    assert log.machine.next_deadline() == log.now + near.RETRY_MS
    assert isinstance(log.tick(near.RETRY_MS)[0], LoadWindow)
    log.load_window()
    assert len(log.machine.near) == 1


def test_what_ended_while_its_window_was_loaded_has_no_timer() -> None:
    log = Log()
    log.accept(entry(log.now + 400_000))
    log.tick(200_000)
    found = log.pending()
    log.do(log.machine.end(found, "cancelled", log.now))
    log.do(log.machine.window_loaded(found, log.now))
    assert len(log.machine.near) == 0


def test_only_so_many_have_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "NEAR_ENTRIES_MAX", 4)
    log = Log()
    log.accept(*(entry(log.now + 60_000 + 20_000 * n) for n in range(10)))
    assert len(log.machine.near) == 4
    log.accept(entry(log.now + 5_000))
    assert len(log.machine.near) == 5, "what is due within seconds always has one"
    fired: list[bytes | None] = []
    for _ in range(600):
        log.tick(500)
        if any(isinstance(one, LoadWindow) for one in log.effects):
            log.load_window()
        fired += [value for batch in values(log.fire()) for value in batch]
        assert len(log.machine.near) <= 8
    assert len(fired) == 11


def test_nothing_is_taken_while_the_index_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "UNINDEXED_MAX", 3)
    log = Log()
    log.accept(*(entry(log.now + n) for n in range(3)))
    with pytest.raises(Overloaded):
        log.machine.accept([entry(log.now)], log.now)
    taken = log.machine.take_unindexed()
    assert [offset for offset, _ in taken] == [0, 1, 2]
    log.accept(entry(log.now + 9))
    log.machine.not_indexed(taken)
    assert [offset for offset, _ in log.machine.take_unindexed()] == [0, 1, 2, 3], "in the order of the log"


def test_the_index_is_told_no_payloads() -> None:
    log = Log()
    log.accept(entry(log.now + 10, value=b"x" * 1_000, headers=(("h", b"y"),)))
    ((_, told),) = log.machine.take_unindexed()
    assert told == entry(log.now + 10, value=None, headers=())  # type: ignore[arg-type]


def test_discarded_entries_are_seen_by_nobody_and_their_end_is_written_until_it_is_stored() -> None:
    log = Log()
    stored = [entry(log.now + 10), entry(log.now + 20)]
    offsets = log.accept(*stored)
    refused = log.machine.discard(offsets, stored, log.now)
    assert len(refused.records) == 2
    assert (log.machine.pending, log.counts.scheduled) == ({}, 0)
    assert log.machine.known(0, Due(0, 1, "t", 0), log.now) is None
    assert log.machine.visible([Due(1, 1, "t", 0)]) == []
    assert log.tick(1_000) == [EndDiscarded()]
    log.do(log.machine.end_discarded())
    assert log.tick(5_000) == [] and log.pending() == []
    assert (log.counts.cancelled, log.machine.pending) == (0, {})


def test_nothing_is_due_before_the_last_runs_work_is_finished() -> None:
    fresh = ScheduleMachine(ScheduleCounts())
    assert fresh.loaded(1_000).effects == [Recover()]
    fresh.apply(entry(1_001), 0)
    assert fresh.next_deadline() is None and fresh.tick(5_000).effects == []
    (asked,) = fresh.recovered(5_000).effects
    assert isinstance(asked, LoadWindow) and asked.window.start == 0


def test_a_start_delivers_only_what_is_missing_of_a_firing() -> None:
    log = Log()
    log.append([entry(5, value=b"there"), entry(6, value=b"missing"), entry(7, repeat=Repeat(every_ms=100))])
    firing = Firing("t", 0, 70, [(0, 0), (1, 0), (2, 0), (9, 0)], True)
    left = {0: (entry(5, value=b"there"), False), 1: (entry(6, value=b"missing"), False), 2: (entry(7), True)}
    (batch,) = log.do(log.machine.resume(33, firing, left, {(1, 0)}))
    assert isinstance(batch, DueBatch)
    assert values([batch]) == [[b"missing"]]
    assert (batch.offset, [due.offset for due in batch.ends]) == (33, [0, 1]), "what repeats is pending again"
    log.deliver(batch)
    log.do(log.machine.confirm([batch], log.now))
    assert log.records[-1] == Fired(33)


def test_a_firing_whose_topic_is_gone_ends_with_its_entries() -> None:
    log = Log()
    log.do(log.machine.resume_without_target(33, Firing("gone", 0, 70, [(5, 0)]), log.now))
    assert log.records == [EntryEnded(5, "gone", 0, log.now, "cancelled", log.now), Fired(33)]
    assert log.machine.pending == {} and log.counts.cancelled == 0


def test_what_waits_for_a_time_of_day_does_not_move_with_the_clock() -> None:
    log = Log()
    due = log.now + 60_000
    log.accept(entry(due))
    log.now += 3_600_000
    assert log.do(log.machine.shift(3_600_000, log.now))[-1] == FireDue()
    assert values(log.fire()) == [[b"v"]]


def test_what_is_tried_again_in_a_second_moves_with_the_clock() -> None:
    log = Log()
    log.accept(entry(log.now + 1))
    log.tick(10)
    (batch,) = log.fire()
    log.do(log.machine.refused(batch, log.now))
    log.now -= 3_600_000
    log.do(log.machine.shift(-3_600_000, log.now))
    assert batch in log.tick(1_000)


def test_replaying_the_records_gives_the_same_state() -> None:
    log = Log()
    log.accept(entry(log.now + 10), entry(log.now + 20, repeat=Repeat(every_ms=50)), entry(log.now + 70_000))
    log.tick(30)
    (batch,) = log.fire()
    log.deliver(batch)
    log.do(log.machine.confirm([batch], log.now))
    again = ScheduleMachine(ScheduleCounts())
    for offset, record in enumerate(log.records):
        again.apply(record, offset)
    assert again.pending == log.machine.pending == {"t": 2}
