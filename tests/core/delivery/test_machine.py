"""Stories of one view: what is handed out, what answers do, what time does."""

from __future__ import annotations

import pytest

from goqueue.base.errors import StaleReceipt
from goqueue.core.delivery.offers import TOO_OLD, Grant
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import Acked, DeadLettering, Dropped, decode_record, pack_cells, unpack_cells
from goqueue.core.delivery.states import IllegalMove, MessageState
from goqueue.core.delivery.tally import EXPIRED, FAILED, REJECTED
from goqueue.core.retry import JITTER, backoff_ms
from tests.core.delivery.views import GRAVE, NORMAL, POLICY, Queue, look

# --- leases ------------------------------------------------------------------------------------------------


def test_messages_are_handed_out_once_in_order() -> None:
    queue = Queue()
    queue.publish(5)
    assert [one.offset for one in queue.take(2)] == [0, 1]
    assert [one.offset for one in queue.take(2, owner="you")] == [2, 3]
    assert [one.offset for one in queue.take()] == [4]
    assert queue.take() == []
    assert queue.book.in_flight == {"me": 3, "you": 2}
    assert queue.book.counts[MessageState.LEASED] == 5


def test_a_receipt_is_good_for_one_lease() -> None:
    queue = Queue()
    queue.publish()
    (first,) = queue.take()
    queue.delivery.check(*first)
    for wrong in (first._replace(attempt=2), first._replace(nonce="x"), first._replace(offset=1)):
        with pytest.raises(StaleReceipt):
            queue.delivery.check(*wrong)
    queue.release(0)
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*first)
    (second,) = queue.take()
    assert second.attempt == 2
    queue.delivery.check(*second)
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*first)
    queue.ack(0)
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*second)


def test_acks_in_any_order_move_the_floor_and_leave_nothing_behind() -> None:
    queue = Queue()
    queue.publish(6, gap=3)
    offsets = [one.offset for one in queue.take()]
    lane = queue.book.lane(NORMAL)
    for offset in (offsets[4], offsets[2], offsets[3]):
        queue.ack(offset)
    assert lane.floor == 0 and len(lane.done) == 1
    queue.ack(offsets[0])
    assert lane.floor == offsets[0] + 1
    queue.ack(offsets[1])
    assert lane.floor == offsets[4] + 1 and len(lane.done) == 0
    queue.ack(offsets[5])
    assert lane.floor == queue.end and not queue.book.held and not queue.book.in_flight and lane.is_clear


def test_an_ack_of_what_is_not_leased_is_an_illegal_move() -> None:
    queue = Queue()
    queue.publish()
    queue.take()
    queue.nack(0)
    with pytest.raises(IllegalMove):
        queue.delivery.ack([0])


def test_a_lease_ends_at_its_time_and_not_before() -> None:
    queue = Queue()
    queue.publish()
    queue.take(lease_ms=100)
    assert queue.delivery.next_deadline() == queue.now + 100
    assert not queue.wait(99)
    assert queue.take() == []
    assert queue.wait(1)
    (again,) = queue.take()
    assert again.attempt == 2 and queue.book.held[0].failed == 1, "an expired lease is a failure"


def test_extending_moves_the_end_and_keeps_the_receipt() -> None:
    queue = Queue()
    queue.publish(2)
    first, second = queue.take(lease_ms=100)
    queue.extend(0, until_ms=queue.now + 500)
    assert queue.wait(100)
    assert queue.state(0) is MessageState.LEASED and queue.state(1) is MessageState.READY
    queue.delivery.check(*first)
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*second)
    assert queue.delivery.next_deadline() == queue.now + 400
    queue.extend(0, until_ms=queue.now + 10)  # a lease can be made shorter as well
    assert queue.wait(10) and queue.state(0) is MessageState.READY


def test_giving_back_is_no_failure_and_at_once() -> None:
    queue = Queue()
    queue.publish()
    for attempt in range(1, 20):
        (one,) = queue.take()
        assert one.attempt == attempt
        queue.release(0)
    assert queue.book.held[0].failed == 0


def test_what_an_owner_held_goes_to_others() -> None:
    queue = Queue()
    queue.publish(3)
    queue.take(2, owner="gone")
    queue.take(1, owner="you")
    queue.kept(queue.delivery.release_owner("gone", queue.policy, queue.now, is_failure=True))
    assert queue.book.in_flight == {"you": 1}
    assert [(one.offset, one.attempt) for one in queue.take()] == [(0, 2), (1, 2)]
    assert queue.delivery.release_owner("nobody", queue.policy, queue.now, is_failure=True) == []


# --- failures ----------------------------------------------------------------------------------------------


def test_the_back_off_doubles_up_to_a_bound_with_jitter_below() -> None:
    for failures in range(1, 60):
        full = min(1_000 * 2 ** (failures - 1), 60_000)
        assert backoff_ms(failures, 1_000, 60_000, 0.0) == full
        assert backoff_ms(failures, 1_000, 60_000, 1.0) == pytest.approx(full * (1 - JITTER), abs=1)
        assert full * (1 - JITTER) - 1 <= backoff_ms(failures, 1_000, 60_000, 0.5) <= full
    assert backoff_ms(5, 0, 60_000, 0.0) == 0
    assert backoff_ms(1, 5_000, 100, 0.0) == 100


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_a_nack_waits_and_the_last_one_kills(chance: float) -> None:
    queue = Queue()
    queue.publish()
    for failures, wait in ((1, 1_000), (2, 2_000)):
        queue.take()
        queue.nack(0, chance=chance)
        assert queue.state(0) is MessageState.WAITING and queue.take() == []
        due = queue.book.held[0].due_ms - queue.now
        assert wait * (1 - JITTER) - 1 <= due <= wait and queue.delivery.next_deadline() == queue.now + due
        assert not queue.wait(due - 1) and queue.wait(1)
        assert queue.book.held[0].failed == failures
    queue.take()
    queue.nack(0)
    assert queue.state(0) is MessageState.DEAD and queue.take() == []
    held = queue.book.dead[0]
    assert (held.reason, held.text, held.handed, held.failed, held.dead_letter_target) == (FAILED, "why", 3, 3, GRAVE)
    assert queue.book.lane(NORMAL).floor == 0, "its copy is not safe yet"
    assert queue.bury() == [0]
    assert queue.book.lane(NORMAL).floor == 1 and not queue.book.held and not queue.book.dead


def test_a_nack_with_a_delay_waits_just_that() -> None:
    queue = Queue()
    queue.publish(2)
    queue.take()
    queue.nack(0, delay_ms=7)
    queue.nack(1, delay_ms=0)
    assert queue.state(1) is MessageState.READY
    assert queue.wait(7) and queue.state(0) is MessageState.READY


def test_rejected_means_dead_at_once() -> None:
    queue = Queue()
    queue.publish()
    queue.take()
    queue.reject(0)
    held = queue.book.dead[0]
    assert (held.reason, held.text, held.failed) == (REJECTED, "bad", 1)


def test_leases_that_run_out_kill_as_nacks_do() -> None:
    queue = Queue()
    queue.publish()
    for _ in range(3):
        assert queue.take(lease_ms=10)
        queue.wait(10)
    assert queue.book.dead[0].reason == EXPIRED and queue.take() == []


def test_no_limit_on_failures() -> None:
    queue = Queue(Policy(failures_max=0, dead_letter_target=GRAVE))
    queue.publish()
    for attempt in range(1, 100):
        assert queue.take()[0].attempt == attempt
        queue.nack(0, delay_ms=0)


@pytest.mark.parametrize("how", ["release", "nack", "expire", "restart"])
def test_a_limit_on_deliveries_holds_however_a_message_comes_back(how: str) -> None:
    queue = Queue(Policy(failures_max=0, deliveries_max=2, dead_letter_target=GRAVE))
    queue.publish()
    for attempt in (1, 2):
        assert queue.state(0) is not MessageState.DEAD
        assert queue.take(lease_ms=10)[0].attempt == attempt
        if how == "release":
            queue.release(0)
        elif how == "nack":
            queue.nack(0, delay_ms=0)
        elif how == "expire":
            queue.wait(10)
        else:
            queue.now += 10
            queue.restart()
    assert queue.state(0) is MessageState.DEAD and queue.take() == []


def test_without_a_grave_what_is_given_up_is_done() -> None:
    queue = Queue(Policy(failures_max=1))
    queue.publish(3)
    queue.take(lease_ms=10)
    queue.nack(0)
    queue.reject(1)
    queue.wait(10)
    assert not queue.book.held and queue.book.lane(NORMAL).floor == 3
    assert sum(isinstance(one, Acked) for one in queue.records) == 3


# --- time to live ------------------------------------------------------------------------------------------


def test_what_is_too_old_is_passed_over_or_buried() -> None:
    queue = Queue()
    queue.publish(3)
    queue.kept(queue.delivery.drop(NORMAL, [0]))
    assert [one.offset for one in queue.take(1)] == [1]
    queue.kept(queue.delivery.dead_letter_unread(NORMAL, [2], queue.policy, queue.now))
    assert queue.book.dead[2].reason == TOO_OLD and queue.book.dead[2].handed == 0
    assert queue.take() == []
    queue.ack(1)
    queue.bury()
    assert queue.book.lane(NORMAL).floor == 3 and not queue.book.held


def test_without_a_grave_what_is_too_old_is_dropped() -> None:
    queue = Queue(Policy())
    queue.publish()
    (record,) = queue.delivery.dead_letter_unread(NORMAL, [0], queue.policy, queue.now)
    assert isinstance(record, Dropped)


def test_a_message_that_came_back_can_be_too_old() -> None:
    queue = Queue()
    queue.publish(2)
    queue.take()
    queue.release(0, 1)
    queue.kept(queue.delivery.drop(NORMAL, [0]))
    queue.kept(queue.delivery.dead_letter_unread(NORMAL, [1], queue.policy, queue.now))
    assert queue.take() == [] and list(queue.book.dead) == [1]
    assert look(queue.replayed()._state, queue.now) == look(queue.book, queue.now)


def test_what_somebody_holds_is_never_dropped() -> None:
    queue = Queue()
    queue.publish(2)
    queue.take(1)
    assert queue.delivery.drop(NORMAL, [0]) == []
    assert queue.delivery.dead_letter_unread(NORMAL, [0], POLICY, queue.now) == []
    assert queue.state(0) is MessageState.LEASED


# --- the group's position ----------------------------------------------------------------------------------


def test_a_position_beyond_messages_ends_them() -> None:
    queue = Queue()
    queue.publish(10)
    given = queue.take(6)
    queue.nack(1)
    queue.ack(4)
    queue.kept(queue.delivery.pass_to(4))
    assert sorted(queue.book.held) == [5] and queue.book.lane(NORMAL).floor == 5
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*given[0])
    assert [one.offset for one in queue.take()] == [6, 7, 8, 9]
    queue.kept(queue.delivery.pass_to(20))
    assert not queue.book.held and not queue.book.in_flight
    assert not queue.wait(1_000_000) and queue.delivery.next_deadline() is None


def test_the_dead_are_owed_even_if_the_group_moves() -> None:
    queue = Queue()
    queue.publish(3)
    queue.take()
    queue.reject(1)
    queue.kept(queue.delivery.pass_to(3))
    assert list(queue.book.held) == [1] == list(queue.book.dead)
    queue.kept(queue.delivery.open_at(0))
    assert list(queue.book.dead) == [1]
    assert [one.offset for one in queue.take()] == [0, 2], "not to be handed out and copied both"
    queue.ack(0, 2)
    queue.bury()
    assert queue.book.lane(NORMAL).floor == 3


def test_opening_again_makes_all_new() -> None:
    queue = Queue()
    queue.publish(3)
    (first, *_) = queue.take()
    queue.ack(1)
    queue.kept(queue.delivery.open_at(0))
    with pytest.raises(StaleReceipt):
        queue.delivery.check(*first)
    assert [(one.offset, one.attempt) for one in queue.take()] == [(0, 1), (1, 1), (2, 1)]


def test_the_dead_do_not_stop_the_floor_of_a_view_that_was_opened_below_them() -> None:
    queue = Queue()
    queue.publish(1)
    queue.publish(1, lane=0)
    queue.publish(1)
    queue.kept(queue.delivery.open_at(2))
    queue.take()
    queue.reject(2)
    queue.kept(queue.delivery.open_at(0))
    assert [one.offset for one in queue.take()] == [0]
    queue.ack(0)
    queue.bury()
    assert queue.book.lane(NORMAL).floor == 3, "nothing of the lane is open"


# --- small things ------------------------------------------------------------------------------------------


def test_leases_that_ran_out_while_the_node_was_down_are_nobodys_failure() -> None:
    queue = Queue()
    queue.publish(2)
    queue.take(1, lease_ms=10)
    queue.take(1, lease_ms=10_000)
    queue.now += 5_000
    queue.restart()
    assert queue.state(0) is MessageState.READY and queue.book.held[0].failed == 0
    assert queue.state(1) is MessageState.LEASED
    assert [(one.offset, one.attempt) for one in queue.take()] == [(0, 2)]


def test_a_dead_message_from_before_a_reset_does_not_hold_up_the_position_after_a_restart() -> None:
    queue = Queue()
    first, second, third = queue.publish(3, gap=1)
    queue.kept(queue.delivery.open_at(second))
    queue.take(1)
    queue.reject(second)
    queue.kept(queue.delivery.open_at(0))
    assert [one.offset for one in queue.take()] == [first, third], "its copy is owed: it is passed over"
    assert look(queue.replayed()._state, queue.now) == look(queue.book, queue.now)
    queue.restart()
    queue.ack(first, third)
    assert queue.bury() == [second]
    assert queue.book.lane(NORMAL).floor == queue.end and len(queue.book.lane(NORMAL).done) == 0


def test_a_decision_that_is_not_written_changes_nothing() -> None:
    queue = Queue()
    queue.publish(4)
    queue.take(2, lease_ms=50)
    queue.nack(1, delay_ms=500)
    queue.now += 100
    delivery, before = queue.delivery, look(queue.book, queue.now)
    deadline = delivery.next_deadline()
    leased, records = delivery.lease(NORMAL, [2, 3], (), Grant("you", "n", queue.now + 10), queue.now)
    assert leased == [2, 3] and records
    assert delivery.drop(NORMAL, [2]) and delivery.dead_letter_unread(NORMAL, [2, 3], POLICY, queue.now)
    assert (
        delivery.ack([0])
        and delivery.nack([0], POLICY, queue.now, 0.5, None, "")
        and delivery.reject([0], POLICY, 0, "")
    )
    assert delivery.tick(queue.now, POLICY)[0] and delivery.recovered(queue.now, POLICY)
    assert delivery.pass_to(4) and delivery.open_at(3) and delivery.cut_to(1)
    assert look(queue.book, queue.now) == before and delivery.next_deadline() == deadline
    assert delivery.look_from(NORMAL) == 2 and queue.wait(0), "the lease that ran out is still found"
    assert queue.state(0) is MessageState.READY


def test_cells_pack_into_steps_and_back() -> None:
    cells = [(0, 0), (1, 1), (2, 9), (15, 15), (3, 4)]
    assert unpack_cells(pack_cells(cells)) == cells
    assert pack_cells((n, n) for n in range(5)) == (0,) * 10


def test_a_record_of_a_later_version_is_passed_over() -> None:
    assert decode_record(b"") is None
    assert decode_record(b"\x92\x63\x01") is None


def test_a_hundred_thousand_leases_leave_nothing_behind() -> None:
    queue = Queue()
    queue.publish(10_000)
    for _ in range(100):
        offsets = [one.offset for one in queue.take(100)]
        queue.ack(*reversed(offsets))
    assert not queue.book.held and len(queue.book.lane(NORMAL).done) == 0
    assert len(queue.book.lease_ends) <= 1_100 and len(queue.book.lane(NORMAL).ready) == 0
    assert not any(isinstance(one, DeadLettering) for one in queue.records)


def test_coming_and_going_does_not_pile_up() -> None:
    queue = Queue(Policy(failures_max=0, dead_letter_target=GRAVE))
    queue.publish(3)
    for _ in range(5_000):
        queue.take()
        queue.release(0, 1)
        queue.nack(2, delay_ms=0)
    assert len(queue.book.lane(NORMAL).ready) < 100
    assert len(queue.book.lease_ends) < 2_100 and len(queue.book.waits) < 100
