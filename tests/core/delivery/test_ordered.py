"""Messages of one key go out in order, to one consumer at a time."""

from __future__ import annotations

import pytest

from goqueue.core.delivery.states import State
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
    assert queue.book.parked_count <= 2 and len(queue.book.lane(NORMAL).ready) <= 3
    assert not queue.delivery.has_ready_again(NORMAL), "nothing may go"
    queue.ack(0)
    assert offsets(queue) == [1, 2]
    assert queue.book.parked_count == 0


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
    assert look(queue.replayed().book, queue.now) == look(queue.book, queue.now)


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
    assert not queue.book.locks and offsets(queue) == [2, 3]
    assert queue.book.parked_count == 0


def test_a_position_that_passes_those_who_wait_forgets_them() -> None:
    queue = Queue(ORDERED)
    queue.publish(2, key=b"a")
    queue.publish(2, key=b"b")
    assert offsets(queue, 1) == [0]
    assert offsets(queue, 2) in ([], [2])
    queue.kept(queue.delivery.pass_to(4))
    assert not queue.book.held and not queue.book.locks and offsets(queue) == []
    queue.publish(1, key=b"a")
    assert offsets(queue) == [4]


def test_opening_again_forgets_all_keys() -> None:
    queue = Queue(ORDERED)
    queue.publish(3, key=b"a")
    assert offsets(queue, 1) == [0]
    assert offsets(queue) == []
    queue.kept(queue.delivery.open_at(0))
    assert not queue.book.locks and not queue.book.parked
    assert offsets(queue, 1) == [0] and offsets(queue) == []
    assert queue.state(1) is State.READY
