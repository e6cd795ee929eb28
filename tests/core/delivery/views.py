"""One view over a log that is a list, without a broker: hands out as the queue does, and keeps every record."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.core.delivery.delivery_state import DeliveryState
from goqueue.core.delivery.keys import choose_runs
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.offers import Grant
from goqueue.core.delivery.policy import DeadLetterTarget, Policy
from goqueue.core.delivery.records import Record, ViewId, decode_record, encode_record
from goqueue.core.delivery.states import MessageState

VIEW = ViewId("g", "t", 0)
GRAVE = DeadLetterTarget("t.dlq", 0, 0)
NORMAL = 2
LOOK_AHEAD = 8  # for more of a key; a poll of a node looks further
POLICY = Policy(dead_letter_target=GRAVE)
ORDERED = Policy(dead_letter_target=GRAVE, ordered=True)


class Entry(NamedTuple):
    offset: int
    lane: int = NORMAL
    key: bytes | None = None


class Given(NamedTuple):
    """What a consumer got."""

    offset: int
    attempt: int
    nonce: str


class Queue:
    """A view, its log, its clock and its records."""

    def __init__(self, policy: Policy = POLICY, runs: bool = False) -> None:
        self.policy = policy
        self.runs = runs
        self.delivery = Delivery(VIEW)
        self.log: list[Entry] = []
        self.end = 0
        self.now = 1_000
        self.records: list[Record] = []
        self._nonces = 0
        self.kept(self.delivery.open_at(0))

    @property
    def book(self) -> DeliveryState:
        return self.delivery._state

    def kept(self, records: list[Record]) -> list[Record]:
        """Written and applied, as the driver does it."""
        self.records += records
        for record in records:
            self.delivery.apply(record)
        self.delivery.wake(self.now)
        return records

    def publish(self, count: int = 1, lane: int = NORMAL, key: bytes | None = None, gap: int = 0) -> list[int]:
        """`gap` offsets before each hold nothing."""
        made = []
        for _ in range(count):
            self.log.append(Entry(self.end + gap, lane, key))
            made.append(self.end + gap)
            self.end += gap + 1
        return made

    def take(self, limit: int = 100, lane: int = NORMAL, owner: str = "me", lease_ms: int | None = None) -> list[Given]:
        lease_ms = self.policy.lease_ms if lease_ms is None else lease_ms
        self._nonces += 1
        nonce = f"n{self._nonces}"
        ahead = max(limit, LOOK_AHEAD) if self.policy.ordered and self.runs else limit
        again = self.delivery.ready_again(lane, ahead)
        begin = self.delivery.look_from(lane)
        known = [one.offset for one in self.log if one.offset >= begin and one.lane == lane]
        fresh = [offset for offset in known if not self.delivery.is_done(lane, offset)]  # a poll passes over those
        keys = {one.offset: one.key for one in self.log}
        offsets = again + self._first(fresh, max(0, limit - len(again)))
        wanted = None
        if self.policy.ordered and self.runs:  # as a poll does it: those between are looked at and stay ready
            fresh = self._first(fresh, ahead - len(again))  # none, unless all that come again are known
            free = self.delivery.free_of_keys([(offset, keys[offset]) for offset in fresh], nonce)
            wanted = choose_runs([*((offset, keys[offset]) for offset in again), *free], limit)
            offsets = sorted({*again}.intersection(wanted))
            offsets += [offset for offset in fresh if offset <= max(wanted, default=-1)]
        leased, records = self.delivery.lease(
            lane,
            offsets,
            [keys[offset] for offset in offsets] if self.policy.ordered else (),
            Grant(owner, nonce, self.now + lease_ms),
            self.now,
            wanted,
        )
        self.kept(records)
        return [Given(offset, self.book.held[offset].handed, nonce) for offset in leased]

    def _first(self, offsets: list[int], count: int) -> list[int]:
        """So many that nobody looked at, with the dead between them: a poll that finds only those looks on."""
        new = [place for place, offset in enumerate(offsets) if offset not in self.book.held]
        return offsets[: new[count]] if count < len(new) else offsets

    def ack(self, *offsets: int) -> None:
        self.kept(self.delivery.ack(offsets))

    def ack_late(self, offset: int) -> None:
        self.kept(self.delivery.ack([offset], is_late=True))

    def nack(self, *offsets: int, chance: float = 0.0, delay_ms: int | None = None) -> None:
        self.kept(self.delivery.nack(offsets, self.policy, self.now, chance, delay_ms, "why"))

    def reject(self, *offsets: int) -> None:
        self.kept(self.delivery.reject(offsets, self.policy, self.now, "bad"))

    def release(self, *offsets: int) -> None:
        self.kept(self.delivery.release(offsets, self.policy, self.now))

    def extend(self, *offsets: int, until_ms: int) -> None:
        self.kept(self.delivery.extend(offsets, until_ms))

    def wait(self, ms: int) -> bool:
        self.now += ms
        records, woken = self.delivery.tick(self.now, self.policy)
        self.kept(records)
        return woken or bool(records)

    def bury(self) -> list[int]:
        dead = list(self.book.dead)
        self.kept(self.delivery.interred(dead))
        return dead

    def state(self, offset: int) -> MessageState | None:
        held = self.book.held.get(offset)
        return None if held is None else held.state

    # --- restarts --------------------------------------------------------------------------------------------

    def replayed(self) -> Delivery:
        """A fresh view of the records, through their bytes."""
        fresh = Delivery(VIEW)
        for record in self.records:
            decoded = decode_record(encode_record(record))
            assert decoded == record
            fresh.apply(decoded)
        return fresh

    def restart(self) -> None:
        """As a node does it: replay, then what was missed."""
        self.delivery = self.replayed()
        self.kept(self.delivery.recovered(self.now, self.policy))

    def checkpoint(self) -> None:
        self.records = [self.book.snapshot()]


def look(book: DeliveryState, now: int) -> dict[str, object]:
    """All that a view knows and has to know after a restart. Waits that are over count as over."""
    held = {}
    for offset, one in book.held.items():
        state = MessageState.READY if one.state is MessageState.WAITING and one.due_ms <= now else one.state
        due = one.due_ms if state in (MessageState.WAITING, MessageState.DEAD) else None
        told = one.lease
        lease = None if told is None else (told.owner, told.nonce, told.until_ms, told.since_ms, one.earlier)
        start = None if state is MessageState.DEAD else one.start
        held[offset] = (one.lane, start, state, one.handed, one.failed, one.first_ms, due, lease, one.key)
    locks: dict[bytes, int] = {}
    for one in book.held.values():
        over = one.state is MessageState.WAITING and one.due_ms <= now
        if one.key is not None and one.state in (MessageState.LEASED, MessageState.WAITING) and not over:
            locks[one.key] = locks.get(one.key, 0) + 1
    return {
        "base": book.base,
        "held": held,
        "dead": {offset: (one.reason, one.text, one.dead_letter_target) for offset, one in book.dead.items()},
        "in flight": dict(book.in_flight),
        "floors": {n: lane.floor for n, lane in book.lanes.items() if lane.floor != book.base or lane.held},
        "done": {n: list(lane.done) for n, lane in book.lanes.items() if len(lane.done)},
        "locks": locks,
    }
