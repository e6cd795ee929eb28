"""Questions about many messages at once, and answers for them in any order, do not depend on how they were lent."""

from __future__ import annotations

import pytest

from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.offers import LENT_MIN, Grant
from goqueue.core.delivery.records import Acked, RangesAcked, RangesLeased
from goqueue.core.delivery.runs import is_row
from tests.core.delivery.test_lent import LEASE_MS, Pair, Twin, flat
from tests.core.delivery.views import NORMAL


class AnyOrder(Pair):
    """Beside everything else, messages are acked by lists of offsets, and asked about."""

    def step(self) -> None:
        super().step()
        for move in self.choose.sample([self.ack_some, self.ack_late, self.ask_runs], 2):
            move()
            assert flat(self.ranges.delivery) == flat(self.single.delivery), move.__name__

    def any_of(self, live: bool) -> list[int]:
        known = self.ranges.delivery.snapshot().lanes
        lent = [offset for row in known for one in row.lent for offset in range(one.first, one.last + 1)]
        held = [one.offset for row in known for one in row.held if one.owner or (not live and one.state in (0, 2))]
        found = sorted([*lent, *held])
        begin = self.choose.randrange(len(found) + 1)
        found = found[begin : begin + self.choose.randrange(1, 12)]
        if self.choose.random() < 0.4:
            self.choose.shuffle(found)
        return found

    def ack_some(self) -> None:
        offsets = self.any_of(live=True)
        for twin in self.both():
            twin.keep(twin.delivery.ack(offsets), self.now)

    def ack_late(self) -> None:
        offsets = self.any_of(live=False)
        for twin in self.both():
            twin.keep(twin.delivery.ack(offsets, is_late=True), self.now)

    def ask_runs(self) -> None:
        """The view of single messages is asked in the same words: it has no ranges that could help it."""
        offsets = self.any_of(live=True)
        told = [twin.delivery.histories(offsets) for twin in self.both()]
        assert told[0] == told[1] and sum(count for count, _ in told[0]) == len(offsets)
        nonce, attempt = f"n{self.choose.randrange(self.nonces + 1)}", self.choose.choice([1, 1, 2])
        owners = [twin.delivery.owners_of(offsets, attempt, nonce) for twin in self.both()]
        assert owners[0] == owners[1]
        for offset in offsets[:3]:
            held = self.single.delivery.tracked(offset)
            assert held.lease is not None
            named = self.ranges.delivery.owners_of([offset], held.handed, held.lease.nonce)
            assert named == {held.lease.owner}


@pytest.mark.parametrize("seed", range(60))
def test_answers_in_any_order_do_the_same_to_ranges_and_to_messages(seed: int) -> None:
    pair = AnyOrder(seed)
    for _ in range(60):
        pair.step()


def lent(count: int) -> Delivery:
    twin = Twin(True)
    records = twin.delivery.lend_row(NORMAL, list(range(count)), Grant("a", "n", LEASE_MS), 0)
    twin.keep(records, 0)
    return twin.delivery


def test_a_row_of_new_messages_is_one_entry_and_its_ack_another() -> None:
    twin = Twin(True)
    grant = Grant("a", "n", LEASE_MS)
    (leased,) = records = twin.delivery.lend_row(NORMAL, list(range(100)), grant, 0)
    assert isinstance(leased, RangesLeased) and len(leased.steps) == 2
    twin.keep(records, 0)
    (acked,) = twin.delivery.ack(range(100))
    assert isinstance(acked, RangesAcked) and acked.ends == (0, 99)
    twin.keep([acked], 0)
    assert twin.delivery.tracks_nothing and twin.delivery.look_from(NORMAL) == 100


def test_what_is_no_row_of_new_messages_is_not_lent() -> None:
    grant, twin = Grant("a", "n", LEASE_MS), Twin(True)
    assert twin.delivery.lend_row(NORMAL, [0, 1, 2, 3, 5], grant, 0) == []
    assert twin.delivery.lend_row(NORMAL, [3, 2, 1, 0], grant, 0) == []
    assert twin.delivery.lend_row(NORMAL, list(range(LENT_MIN - 1)), grant, 0) == []
    assert twin.delivery.lend_row(NORMAL, [], grant, 0) == []
    twin.keep(twin.delivery.lend_row(NORMAL, list(range(10)), grant, 0), 0)
    assert twin.delivery.lend_row(NORMAL, list(range(9, 20)), grant, 0) == [], "the first is with somebody"
    assert twin.delivery.lend_row(NORMAL, list(range(10, 20)), grant, 0)


def test_one_that_is_acked_out_of_the_middle_leaves_the_others_lent() -> None:
    delivery = lent(10)
    (record,) = delivery.ack([4])
    assert isinstance(record, RangesAcked)
    delivery.apply(record)
    assert [(one.first, one.last) for row in delivery.snapshot().lanes for one in row.lent] == [(0, 3), (5, 9)]
    assert delivery.owners_of([3, 4, 5], 1, "n") is None
    assert delivery.owners_of([3, 5], 1, "n") == {"a"}


def test_an_ack_of_lent_and_of_single_messages_is_two_records() -> None:
    delivery = lent(8)
    delivery.apply(delivery.lease(NORMAL, [8, 9], (), Grant("b", "m", LEASE_MS), 0)[1][0])
    ranged, single = delivery.ack([8, 0, 1, 9, 2])
    assert isinstance(ranged, RangesAcked) and ranged.ends == (0, 2)
    assert isinstance(single, Acked) and single.offsets == (8, 9)


@pytest.mark.parametrize(("offsets", "is_one"), [([], False), ([7], True), ([7, 8], True), ([8, 7], False)])
def test_a_row(offsets: list[int], is_one: bool) -> None:
    assert is_row(offsets) is is_one
