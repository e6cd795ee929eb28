"""The checker itself: good histories pass, and each kind of bad one is named."""

from __future__ import annotations

from tests.txn.checker import Kind, check, kinds
from tests.txn.history import FINAL, History, Outcome


def good() -> History:
    """Three transactions over two partitions: a is committed, b aborted, of c nothing is known and it is there."""
    history = History()
    for txn, outcome in (("a", Outcome.COMMITTED), ("b", Outcome.ABORTED), ("c", Outcome.UNKNOWN)):
        history.wrote(txn, 0, f"{txn}0")
        history.wrote(txn, 1, f"{txn}1")
        history.ended(txn, outcome)
    history.polled("r", [(0, 0, "a0"), (1, 0, "a1")])
    history.polled("r", [(0, 4, "c0"), (1, 4, "c1")])
    history.polled(FINAL, [(0, 0, "a0"), (0, 4, "c0"), (1, 0, "a1"), (1, 4, "c1")])
    return history


def test_a_good_history_passes() -> None:
    assert check(good()) == []


def test_an_unknown_transaction_may_be_wholly_missing() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.wrote("d", 1, "d1")
    assert check(history) == []


def test_reading_again_from_an_earlier_place_is_fine() -> None:
    history = good()
    history.polled("r", [(0, 0, "a0"), (0, 4, "c0")])
    assert check(history) == []


def test_a_producer_without_a_transaction_is_a_transaction_a_write() -> None:
    history = good()
    history.wrote("alone", 0, "x", 6)
    history.ended("alone", Outcome.COMMITTED)
    history.polled(FINAL, [(0, 6, "x")])
    assert check(history) == []


def test_an_aborted_read() -> None:
    history = good()
    history.polled("r", [(0, 2, "b0")])
    assert Kind.ABORTED_READ in kinds(history)


def test_an_aborted_read_in_the_end_of_the_whole_transaction() -> None:
    history = good()
    history.polled(FINAL, [(0, 2, "b0"), (1, 2, "b1")])
    assert {Kind.ABORTED_READ} <= kinds(history) <= {Kind.ABORTED_READ, Kind.SKIP}


def test_a_lost_write() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.ended("d", Outcome.COMMITTED)
    assert kinds(history) == {Kind.LOST}


def test_a_write_that_was_seen_and_is_gone_is_lost_too() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.polled("r", [(0, 6, "d0")])
    assert kinds(history) == {Kind.LOST}


def test_a_write_in_the_wrong_partition_is_lost() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.ended("d", Outcome.COMMITTED)
    history.polled(FINAL, [(1, 6, "d0")])
    assert Kind.LOST in kinds(history)


def test_a_doubled_write() -> None:
    history = good()
    history.polled(FINAL, [(0, 9, "a0")])
    assert kinds(history) == {Kind.DOUBLED}


def test_a_torn_transaction_of_unknown_outcome() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.wrote("d", 1, "d1")
    history.polled(FINAL, [(0, 6, "d0")])
    assert kinds(history) == {Kind.TORN}


def test_a_torn_transaction_that_was_committed() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.wrote("d", 1, "d1")
    history.ended("d", Outcome.COMMITTED)
    history.polled(FINAL, [(0, 6, "d0")])
    assert kinds(history) == {Kind.TORN, Kind.LOST}


def test_one_offset_with_two_values_for_two_readers() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.polled("r", [(0, 4, "d0")])
    assert Kind.TWO_VALUES in kinds(history)


def test_one_offset_with_two_values_for_producer_and_reader() -> None:
    history = good()
    history.wrote("d", 0, "d0", 4)
    history.ended("d", Outcome.COMMITTED)
    history.polled(FINAL, [(0, 7, "d0")])
    assert kinds(history) == {Kind.TWO_VALUES}


def test_a_skip_within_a_poll() -> None:
    history = good()
    history.wrote("d", 0, "d0")
    history.ended("d", Outcome.COMMITTED)
    history.polled(FINAL, [(0, 6, "d0")])
    history.polled("r", [(0, 0, "a0"), (0, 6, "d0")])
    assert kinds(history) == {Kind.SKIP}


def test_a_reversal_within_a_poll() -> None:
    history = good()
    history.polled("r", [(0, 4, "c0"), (0, 0, "a0")])
    assert kinds(history) == {Kind.REVERSAL}


def test_the_same_message_twice_within_a_poll_is_a_reversal() -> None:
    history = good()
    history.polled("r", [(0, 4, "c0"), (0, 4, "c0")])
    assert kinds(history) == {Kind.REVERSAL}


def test_a_value_that_nobody_wrote() -> None:
    history = good()
    history.polled(FINAL, [(0, 9, "who?")])
    assert kinds(history) == {Kind.UNWRITTEN}
