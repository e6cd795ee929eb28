"""Ranges that are handed out as one are, in all that can be asked, the same messages handed out one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from goqueue.core.delivery import delivery_state
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.offers import Grant
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import HeldRow, RangesAcked, Record, ViewSnapshot, decode_record, encode_record
from goqueue.core.delivery.states import MessageState
from tests.core.delivery.views import GRAVE, NORMAL, VIEW

POLICY = Policy(dead_letter_target=GRAVE, deliveries_max=3, failures_max=0)
LEASE_MS = 1_000


class Twin:
    """One view, and everything that was written of it."""

    def __init__(self, as_ranges: bool) -> None:
        self.as_ranges = as_ranges
        self.delivery = Delivery(VIEW)
        self.records: list[Record] = []
        self.keep(self.delivery.open_at(0), 0)

    def keep(self, records: list[Record], now: int) -> None:
        self.records += records
        for record in records:
            self.delivery.apply(record)
        self.delivery.wake(now)

    def hand_out(self, ranges: list[tuple[int, int]], owner: str, nonce: str, now: int) -> None:
        grant = Grant(owner, nonce, now + LEASE_MS)
        if self.as_ranges:
            assert self.delivery.can_lend(NORMAL)
            self.keep(self.delivery.lend(NORMAL, ranges, grant, now), now)
        else:
            offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
            self.keep(self.delivery.lease(NORMAL, offsets, (), grant, now)[1], now)

    def hand_out_again(self, limit: int, owner: str, nonce: str, now: int) -> list[int]:
        again = self.delivery.ready_again(NORMAL, limit)
        if again:
            self.keep(self.delivery.lease(NORMAL, again, (), Grant(owner, nonce, now + LEASE_MS), now)[1], now)
        return again

    def ack(self, first: int, last: int, now: int) -> None:
        ranged = self.delivery.ack_ranges([(first, last)])
        self.keep(ranged if self.as_ranges else self.delivery.ack(range(first, last + 1)), now)


def replayed(records: list[Record]) -> Delivery:
    delivery = Delivery(VIEW)
    for record in records:
        stored = decode_record(encode_record(record))
        assert stored is not None
        delivery.apply(stored)
    return delivery


def flat(delivery: Delivery) -> Any:
    """All that is known, message by message."""
    snapshot = delivery.snapshot()
    lanes = []
    for row in snapshot.lanes:
        held = list(row.held)
        for lent in row.lent:
            for offset in range(lent.first, lent.last + 1):
                start = lent.start if offset == lent.first else offset
                held.append(HeldRow(
                    start, offset, MessageState.LEASED, 1, 0, lent.first_ms, lent.until_ms, lent.owner, lent.nonce,
                    since_ms=lent.since_ms,
                ))  # fmt: skip
        told = sorted(fields_of(one) for one in held)
        lanes.append((row.lane, row.floor, row.done, told, row.cursor, row.handed, row.finished, row.served_ms))
    counts = [delivery.count(state) for state in MessageState]
    owners = {owner: delivery.in_flight_of(owner) for owner in ("a", "b")}
    return snapshot.base, lanes, snapshot.counts, counts, owners, delivery.lane_counts(), delivery.tracks_nothing


def fields_of(one: HeldRow) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in one.__struct_fields__)


def owned(delivery: Delivery, owner: str, low: int, high: int) -> list[tuple[int, int]]:
    """Runs of what the owner holds between the two."""
    runs: list[tuple[int, int]] = []
    for offset in range(low, high):
        if delivery.holds(owner, offset, offset):
            if runs and runs[-1][1] + 1 == offset:
                runs[-1] = (runs[-1][0], offset)
            else:
                runs.append((offset, offset))
    return runs


class Pair:
    """Both views, to which the same happens."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.ranges, self.single = Twin(True), Twin(False)
        self.now, self.end, self.nonces = 1_000, 0, 0

    def step(self) -> None:
        move = self.choose.choice(
            [self.hand_out, self.hand_out, self.again, self.ack, self.ack, self.ack, self.give_back, self.reject,
             self.extend, self.time, self.passed, self.leave, self.cut, self.ask, self.inter]
        )  # fmt: skip
        move()
        self.now += self.choose.randrange(50)
        assert flat(self.ranges.delivery) == flat(self.single.delivery), move.__name__

    def both(self) -> tuple[Twin, Twin]:
        return self.ranges, self.single

    def hand_out(self) -> None:
        if not self.ranges.delivery.can_lend(NORMAL):
            return
        ranges: list[tuple[int, int]] = []
        at = self.end = max(self.end, self.ranges.delivery.look_from(NORMAL))
        for _ in range(self.choose.randrange(1, 4)):
            first = at + self.choose.choice([0, 0, 0, 3])
            at = first + self.choose.randrange(1, 12)
            ranges.append((first, at - 1))
        self.nonces += 1
        owner = self.choose.choice("ab")
        for twin in self.both():
            twin.hand_out(ranges, owner, f"n{self.nonces}", self.now)
        self.end = at

    def again(self) -> None:
        self.nonces += 1
        limit, owner = self.choose.randrange(1, 6), self.choose.choice("ab")
        found = [twin.hand_out_again(limit, owner, f"n{self.nonces}", self.now) for twin in self.both()]
        assert found[0] == found[1]

    def some(self) -> tuple[int, int] | None:
        """A part of what an owner holds."""
        runs = owned(self.single.delivery, self.choose.choice("ab"), 0, self.end)
        if not runs:
            return None
        first, last = self.choose.choice(runs)
        if self.choose.random() < 0.5:
            return first, last
        cut = sorted(self.choose.choices(range(first, last + 1), k=2))
        return cut[0], cut[1]

    def ack(self) -> None:
        if (chosen := self.some()) is not None:
            for twin in self.both():
                twin.ack(*chosen, self.now)

    def offsets(self) -> list[int]:
        chosen = self.some()
        return [] if chosen is None else list(range(chosen[0], chosen[1] + 1))

    def give_back(self) -> None:
        offsets = self.offsets()
        for twin in self.both():
            twin.keep(twin.delivery.release(offsets, POLICY, self.now), self.now)

    def reject(self) -> None:
        offsets = self.offsets()[:2]
        for twin in self.both():
            twin.keep(twin.delivery.reject(offsets, POLICY, self.now, "bad"), self.now)

    def inter(self) -> None:
        """What is dead is moved, and so done."""
        for twin in self.both():
            if twin.delivery.has_dead:
                twin.keep(twin.delivery.interred(twin.delivery.next_dead(100)[1]), self.now)

    def extend(self) -> None:
        offsets = self.offsets()
        for twin in self.both():
            twin.keep(twin.delivery.extend(offsets, self.now + LEASE_MS), self.now)

    def time(self) -> None:
        self.now += self.choose.choice([100, LEASE_MS])
        for twin in self.both():
            twin.keep(twin.delivery.tick(self.now, POLICY)[0], self.now)
        assert self.ranges.delivery.next_deadline() == self.single.delivery.next_deadline()

    def passed(self) -> None:
        to = self.single.delivery.base + self.choose.randrange(0, 8)
        for twin in self.both():
            twin.keep(twin.delivery.pass_to(to), self.now)

    def leave(self) -> None:
        owner, is_failure = self.choose.choice("ab"), self.choose.random() < 0.5
        for twin in self.both():
            twin.keep(twin.delivery.release_owner(owner, POLICY, self.now, is_failure), self.now)

    def cut(self) -> None:
        """The log lost its end."""
        if self.choose.random() < 0.2:
            end = max(0, self.end - self.choose.randrange(10))
            for twin in self.both():
                twin.keep(twin.delivery.cut_to(end), self.now)

    def ask(self) -> None:
        """A question may open a range, and changes nothing."""
        offset = self.choose.randrange(self.end + 1)
        one, other = self.ranges.delivery, self.single.delivery
        assert one.is_in_flight(offset) == other.is_in_flight(offset)
        assert one.is_done(NORMAL, offset) == other.is_done(NORMAL, offset)
        if self.choose.random() < 0.3:
            assert (one.find(offset) is None) == (other.find(offset) is None)


@pytest.mark.parametrize("seed", range(150))
def test_ranges_are_the_same_as_messages_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a range is opened whole or in part."""
    monkeypatch.setattr(delivery_state, "OPENED_WHOLE", (0, 0, 6, delivery_state.OPENED_WHOLE)[seed % 4])
    pair = Pair(seed)
    for _ in range(60):
        pair.step()
    assert flat(replayed(pair.ranges.records)) == flat(replayed(pair.single.records))
    whole, single = (replayed([twin.delivery.snapshot()]) for twin in pair.both())
    assert flat(whole) == flat(single)


def test_a_range_is_one_entry_and_its_answer_one_record_however_many_messages() -> None:
    twin = Twin(True)
    twin.hand_out([(0, 9_999)], "a", "n", 0)
    leased = twin.records[-1]
    assert len(encode_record(leased)) < 100
    (row,) = twin.delivery.snapshot().lanes
    assert len(row.lent) == 1
    assert not row.held
    twin.ack(0, 9_999, 0)
    assert isinstance(twin.records[-1], RangesAcked)
    assert len(encode_record(twin.records[-1])) < 50
    assert twin.delivery.tracks_nothing
    assert twin.delivery.tally.acked == 10_000
    assert twin.delivery.lane_position(NORMAL) == 10_000


def test_a_part_of_a_range_is_answered_for_and_the_rest_stays_one() -> None:
    twin = Twin(True)
    twin.hand_out([(0, 99)], "a", "n", 0)
    twin.ack(40, 59, 0)
    (row,) = twin.delivery.snapshot().lanes
    assert [(one.first, one.last) for one in row.lent] == [(0, 39), (60, 99)]
    assert twin.delivery.holds("a", 0, 39)
    assert not twin.delivery.holds("a", 30, 40)
    assert not twin.delivery.holds("b", 0, 0)
    assert twin.delivery.in_flight_of("a") == 80


def test_what_is_given_back_or_rejected_leaves_its_range_and_the_rest_stays_lent() -> None:
    twin = Twin(True)
    twin.hand_out([(0, 999)], "a", "n", 0)
    twin.keep(twin.delivery.release(range(300, 310), POLICY, 0), 0)
    twin.keep(twin.delivery.reject([700], POLICY, 0, "no"), 0)
    (lane,) = twin.delivery.snapshot().lanes
    assert [(one.first, one.last) for one in lane.lent] == [(0, 299), (310, 699), (701, 999)]
    assert sorted(one.offset for one in lane.held) == [*range(300, 310), 700]
    assert twin.delivery.in_flight_of("a") == 989
    assert twin.hand_out_again(100, "b", "m", 0) == list(range(300, 310))
    assert flat(replayed(twin.records)) == flat(twin.delivery)


def test_what_is_renewed_stays_a_range_and_only_what_times_out_leaves() -> None:
    twin = Twin(True)
    twin.hand_out([(0, 999)], "a", "n", 0)
    twin.keep(twin.delivery.extend(range(200, 900), 5 * LEASE_MS), 0)
    (lane,) = twin.delivery.snapshot().lanes
    assert [(one.first, one.last, one.until_ms) for one in lane.lent] == [
        (0, 199, LEASE_MS),
        (200, 899, 5 * LEASE_MS),
        (900, 999, LEASE_MS),
    ]
    twin.keep(twin.delivery.tick(LEASE_MS, POLICY)[0], LEASE_MS)
    (lane,) = twin.delivery.snapshot().lanes
    assert [(one.first, one.last) for one in lane.lent] == [(200, 899)]
    assert sorted(one.offset for one in lane.held) == [*range(200), *range(900, 1_000)]
    assert twin.delivery.in_flight_of("a") == 700
    again = replayed(twin.records)
    again.wake(LEASE_MS)
    assert flat(again) == flat(twin.delivery)
    twin.ack(200, 899, LEASE_MS)
    assert twin.delivery.in_flight_of("a") == 0


def test_a_snapshot_of_before_ranges_were_known_still_loads() -> None:
    twin = Twin(False)
    twin.hand_out([(0, 2)], "a", "n", 0)
    snapshot = twin.delivery.snapshot()
    stored = decode_record(encode_record(snapshot))
    assert isinstance(stored, ViewSnapshot)
    assert all(not row.lent for row in stored.lanes)
    assert flat(replayed([stored])) == flat(twin.delivery)
