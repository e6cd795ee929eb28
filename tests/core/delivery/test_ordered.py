"""Messages of one key go out in order, to one consumer at a time."""

from __future__ import annotations

import pytest

from goqueue.core.delivery.keys import choose_runs
from goqueue.core.delivery.offers import Grant
from goqueue.core.delivery.states import MessageState
from tests.core.delivery.views import NORMAL, ORDERED, Queue, look


def offsets(queue: Queue, limit: int = 100, lane: int = NORMAL, owner: str = "me", **options: int) -> list[int]:
    return [one.offset for one in queue.take(limit, lane, owner, **options)]


def test_a_key_that_somebody_holds_waits_and_others_go_on() -> None:
    queue = Queue(ORDERED)
    for key in (b"a", b"a", b"b", b"a", b"b", b"c"):
        queue.publish(key=key)
    assert offsets(queue, 1) == [0]
    assert offsets(queue, owner="you") == [2, 4, 5], "a poll may be handed several of one key"
    assert offsets(queue, owner="third") == []
    queue.ack(0)
    assert offsets(queue, 1, owner="third") == [1]
    assert offsets(queue, owner="fourth") == []
    queue.ack(1)
    assert offsets(queue) == [3]


def test_messages_without_a_key_are_free() -> None:
    queue = Queue(ORDERED)
    queue.publish(4)
    assert [offsets(queue, 1) for _ in range(4)] == [[0], [1], [2], [3]]


def test_a_failure_keeps_its_key_while_it_waits() -> None:
    queue = Queue(ORDERED)
    queue.publish(3, key=b"a")
    assert offsets(queue, 1) == [0]
    queue.nack(0, delay_ms=50)
    assert offsets(queue) == []
    queue.wait(50)
    assert offsets(queue, 1) == [0] and offsets(queue) == []
    queue.reject(0)
    assert offsets(queue) == [1, 2], "the dead hold nothing up"


def test_expiry_and_release_let_go_of_the_key() -> None:
    queue = Queue(ORDERED)
    queue.publish(2, key=b"a")
    assert offsets(queue, 1, lease_ms=10) == [0]
    assert offsets(queue) == []
    queue.wait(10)
    assert offsets(queue, 1) == [0]
    queue.release(0)
    assert offsets(queue) == [0, 1]


def test_a_key_that_waits_does_not_hide_others_from_small_polls() -> None:
    queue = Queue(ORDERED)
    queue.publish(3, key=b"a")
    queue.publish(1, key=b"b")
    assert offsets(queue, 2) == [0, 1]
    assert offsets(queue, owner="you", limit=1) in ([], [3])
    queue.release(0, 1)
    assert offsets(queue, 1) == [0]
    found = [offset for _ in range(3) for offset in offsets(queue, 1, owner="you")]
    assert found == [3], "the first that is ready is not always one that may go"


def test_polls_in_vain_do_not_pile_up() -> None:
    queue = Queue(ORDERED)
    queue.publish(3, key=b"a")
    assert offsets(queue) == [0, 1, 2]
    queue.release(0, 1, 2)
    assert offsets(queue, 1) == [0]
    for _ in range(1_000):
        assert offsets(queue, owner="you") == []
    assert queue.book.keys.parked_count <= 2 and len(queue.book.lane(NORMAL).ready) <= 3
    assert not queue.delivery.has_ready_again(NORMAL), "nothing may go"
    queue.ack(0)
    assert offsets(queue) == [1, 2]
    assert queue.book.keys.parked_count == 0


def test_a_key_has_one_order_over_all_lanes_and_everybody_comes() -> None:
    queue = Queue(ORDERED)
    queue.publish(1, lane=2, key=b"a")
    queue.publish(1, lane=2, key=b"b")
    queue.publish(1, lane=0, key=b"a")
    queue.publish(1, lane=2, key=b"c")
    assert offsets(queue, 1) == [0]
    assert offsets(queue, lane=0) == [], "its key is taken"
    queue.ack(0)
    assert offsets(queue, 1) == [1], "what waited in another lane is not this lane's"
    assert offsets(queue, lane=0) == [2]
    assert offsets(queue) == [3]
    queue.ack(1, 2, 3)
    assert queue.book.lane(0).floor == 3 and queue.book.lane(2).floor == 4 and not queue.book.held
    assert look(queue.replayed()._state, queue.now) == look(queue.book, queue.now)


@pytest.mark.parametrize("snapshots", [False, True])
def test_what_waits_behind_a_key_is_not_lost_by_a_restart(snapshots: bool) -> None:
    queue = Queue(ORDERED)
    queue.publish(2, key=b"a")
    queue.publish(2, key=b"b")
    assert offsets(queue, 1) == [0]
    assert offsets(queue, 2) == [2], "parks 1"
    if snapshots:
        queue.checkpoint()
    assert offsets(queue) == []
    queue.restart()
    assert offsets(queue) == [], "both keys are taken"
    queue.ack(0)
    queue.restart()
    assert offsets(queue) == [1]
    queue.ack(1, 2)
    queue.restart()
    assert offsets(queue) == [3]
    queue.ack(3)
    assert queue.book.lane(NORMAL).floor == 4 and not queue.book.held


def test_a_restart_from_a_snapshot_hands_nothing_out_twice() -> None:
    queue = Queue()
    queue.publish(6)
    queue.take(5)
    queue.release(1, 3)
    queue.ack(2)
    queue.checkpoint()
    queue.restart()
    assert offsets(queue) == [1, 3, 5]


def test_a_position_beyond_the_holder_frees_its_key() -> None:
    queue = Queue(ORDERED)
    queue.publish(4, key=b"a")
    assert offsets(queue, 1) == [0]
    assert offsets(queue) == []
    queue.kept(queue.delivery.pass_to(2))
    assert not queue.book.keys.locks and offsets(queue) == [2, 3]
    assert queue.book.keys.parked_count == 0


def test_a_position_that_passes_those_who_wait_forgets_them() -> None:
    queue = Queue(ORDERED)
    queue.publish(2, key=b"a")
    queue.publish(2, key=b"b")
    assert offsets(queue, 1) == [0]
    assert offsets(queue, 2) in ([], [2])
    queue.kept(queue.delivery.pass_to(4))
    assert not queue.book.held and not queue.book.keys.locks and offsets(queue) == []
    queue.publish(1, key=b"a")
    assert offsets(queue) == [4]


def test_opening_again_forgets_all_keys() -> None:
    queue = Queue(ORDERED)
    queue.publish(3, key=b"a")
    assert offsets(queue, 1) == [0]
    assert offsets(queue) == []
    queue.kept(queue.delivery.open_at(0))
    assert not queue.book.keys.locks and not queue.book.keys.parked
    assert offsets(queue, 1) == [0] and offsets(queue) == []
    assert queue.state(1) is MessageState.READY


def test_one_that_comes_back_goes_although_those_behind_it_are_out() -> None:
    queue = Queue(ORDERED)
    queue.publish(4, key=b"a")
    assert offsets(queue, 3) == [0, 1, 2]
    queue.release(0)
    assert offsets(queue, owner="you") == [0], "and nothing new of the key"
    queue.ack(0, 1, 2)
    assert offsets(queue, owner="you") == [3]


@pytest.mark.parametrize(("kept", "free"), [(0, []), (1, [0]), (2, [0, 1])])
def test_what_lies_behind_one_that_is_out_waits(kept: int, free: list[int]) -> None:
    queue = Queue(ORDERED)
    queue.publish(4, key=b"a")
    assert offsets(queue, 3, lease_ms=10) == [0, 1, 2]
    queue.extend(kept, until_ms=queue.now + 1_000)
    queue.wait(10)
    assert offsets(queue, owner="you") == free
    queue.ack(kept, *free)
    assert offsets(queue, owner="you") == [offset for offset in range(4) if offset not in (kept, *free)]


def test_a_failure_in_the_middle_of_a_run_holds_up_what_comes_back_behind_it() -> None:
    queue = Queue(ORDERED)
    queue.publish(4, key=b"a")
    assert offsets(queue, 3) == [0, 1, 2]
    queue.ack(0)
    queue.nack(1, delay_ms=50)
    queue.release(2)
    assert offsets(queue, owner="you") == []
    queue.wait(50)
    assert offsets(queue, 1, owner="you") == [1]
    assert offsets(queue, owner="third") == []
    queue.ack(1)
    assert offsets(queue) == [2, 3]


def test_a_poll_takes_the_run_of_one_key_before_it_takes_another() -> None:
    queue = Queue(ORDERED, runs=True)
    for key in (b"a", b"b", b"a", b"c", b"a", None, b"a"):
        queue.publish(key=key)
    assert offsets(queue, 3) == [0, 2, 4]
    assert offsets(queue, 2, owner="you") == [1, 3]
    queue.restart()
    assert offsets(queue, owner="third") == [5]
    queue.ack(0, 2, 4)
    assert offsets(queue) == [6]
    assert queue.book.keys.parked_count == 0


def test_runs_are_chosen_key_by_key() -> None:
    messages = [(1, b"a"), (2, b"b"), (3, None), (4, b"a"), (5, b"b"), (6, None)]
    assert choose_runs(messages, 10) == [1, 4, 2, 5, 3, 6]
    assert choose_runs(messages, 3) == [1, 4, 2]
    assert choose_runs([], 3) == []


@pytest.mark.parametrize("snapshots", [False, True])
def test_receipts_of_leases_that_are_over_are_remembered(snapshots: bool) -> None:
    queue = Queue()
    queue.publish()
    nonces = []
    for _ in range(10):
        (given,) = queue.take()
        nonces.append(given.nonce)
        queue.release(0)
    if snapshots:
        queue.checkpoint()
    queue.restart()
    assert [queue.delivery.was_leased(0, nonce) is not None for nonce in nonces] == [False] * 2 + [True] * 8
    assert queue.delivery.was_leased(0, "other") is None and queue.delivery.was_leased(1, nonces[-1]) is None
    queue.ack_late(0)
    assert queue.delivery.was_leased(0, nonces[-1]) is None and offsets(queue) == []


def test_a_poll_that_looks_twice_keeps_the_order_of_a_key() -> None:
    """It left messages of a key behind those that it took, and finds more of the key further on."""
    queue = Queue(ORDERED)
    queue.publish(4, key=b"a")
    delivery, grant = queue.delivery, Grant("me", "poll", queue.now + 1_000)
    queue.kept(delivery.lease(NORMAL, [0], [b"a"], grant, queue.now)[1])
    leased, records = delivery.lease(NORMAL, [1, 2], [b"a"] * 2, grant, queue.now, wanted=set())
    queue.kept(records)
    assert leased == [] and delivery.parked_count == 2
    assert delivery.free_of_keys([(3, b"a")], "poll") == []
    leased, records = delivery.lease(NORMAL, [3], [b"a"], grant, queue.now)
    queue.kept(records)
    assert leased == [], "1 and 2 come first"
    queue.ack(0)
    assert delivery.ready_again(NORMAL, 10) == [1, 2, 3]
