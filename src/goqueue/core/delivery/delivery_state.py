"""The durable state of one view. `apply` is the only way it changes, live and on recovery.

Beside it are indexes that follow from it (counts, timers, what is ready, what waits behind a key). Decisions may tidy
those up; they hold the same whoever asks. That a wait is over is not written down: time tells it again (`wake`).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.appliers import APPLIERS
from goqueue.core.delivery.keys import KeyOrder, may_go
from goqueue.core.delivery.lane import LaneState, Lease, TrackedMessage, row_of
from goqueue.core.delivery.lent import LentRange, LentRanges, rows_of
from goqueue.core.delivery.records import (
    HeldRow,
    LaneRow,
    LeaseGranted,
    LentRow,
    Record,
    ViewId,
    ViewSnapshot,
)
from goqueue.core.delivery.states import MOVES, DeliveryEvent, MessageState, moved
from goqueue.core.delivery.tally import DeliveryCounts

_SWEEP_SIZE_MIN: Final = 1_024
OPENED_WHOLE: Final = 128  # a range of so many messages: to keep what is left of it would cost more


class DeliveryState:
    """Lanes, held messages and their timers."""

    def __init__(self, view: ViewId) -> None:
        self.view = view
        self.base: Offset = 0
        self.lanes: dict[int, LaneState] = {}
        self.held: dict[Offset, TrackedMessage] = {}
        self.lent = LentRanges()  # messages that are in none of the others, and leased
        self.in_flight: dict[str, int] = {}  # by owner
        self.counts = [0] * len(MessageState)
        self.dead: dict[Offset, TrackedMessage] = {}
        self.tally = DeliveryCounts()
        self.task = ""  # the last redrive of these messages, and how many it moved
        self.redriven = 0
        self.lease_ends: list[tuple[Millis, int, Lease]] = []
        self.waits: list[tuple[Millis, Offset]] = []
        self.keys = KeyOrder()
        self.opened = 0  # how often the view began anew, in this life
        self._sequence = 0
        self._sweep_at = _SWEEP_SIZE_MIN

    def lane(self, number: int) -> LaneState:
        book = self.lanes.get(number)
        if book is None:
            book = self.lanes[number] = LaneState(number, self.base)
        return book

    def apply(self, record: Record) -> None:
        APPLIERS[type(record)](self, record)
        self.tally.note(record)

    def by_lane(self, offsets: Iterable[Offset], event: DeliveryEvent) -> dict[int, list[Offset]]:
        """The messages that this is about to happen to; `IllegalMove` if it cannot happen to one of them."""
        found: dict[int, list[Offset]] = {}
        if self.lent:
            offsets = list(offsets)
            self.open_ranges(offsets)
        is_for_leased = (MessageState.LEASED, event) in MOVES
        for offset in offsets:
            held = self.held[offset]
            if not (is_for_leased and held.state is MessageState.LEASED):
                moved(held.state, event)
            found.setdefault(held.lane, []).append(offset)
        return found

    # --- what records do -----------------------------------------------------------------------------------

    def pass_to(self, base: Offset) -> None:
        """Everything below is done, in every lane; not the dead, whose copies are still owed."""
        self.base = max(self.base, base)
        for one in [one for one in self.lent if one.first < base]:
            self.take_out(one, one.first, min(one.last, base - 1))
        for offset in [offset for offset in self.held if offset < base]:
            held = self.held[offset]
            if held.state is not MessageState.DEAD:
                moved(held.state, DeliveryEvent.PASS)
                self.forget(offset, held)
        for lane in self.lanes.values():
            lane.pass_to(base)

    # --- ranges --------------------------------------------------------------------------------------------

    def find(self, offset: Offset) -> TrackedMessage | None:
        """The message, if it was looked at and is not done; opens the range that it is in."""
        held = self.held.get(offset)
        if held is None and self.lent:
            self.open_ranges((offset,))
            held = self.held.get(offset)
        return held

    def open_ranges(self, offsets: Iterable[Offset]) -> None:
        """Something happens to these messages: they leave their ranges, and what is left on both sides stays lent."""
        for first, last in rows_of(offsets) if self.lent else ():
            while first <= last:
                one = None if first in self.held else self.lent.find(first)
                end = first if one is None else min(one.last, last)
                if one is not None and one.count <= OPENED_WHOLE:
                    self.open_part(one, one.first, one.last)
                elif one is not None:
                    self.open_part(one, first, end)
                first = end + 1

    def open_part(self, one: LentRange, first: Offset, last: Offset) -> None:
        """Each of these is tracked by itself from now on."""
        start = self.lent.cut(one, first, last)
        part = LentRange(one.lane, start, first, last, one.first_ms, one.lease)
        for begin, offset in part.cells():
            self.held[offset] = TrackedMessage(
                one.lane, begin, None, MessageState.LEASED, 1, 0, first_ms=one.first_ms, lease=one.lease
            )
        one.lease.offsets.update(range(first, last + 1))
        one.lease.lent -= part.count

    def lend(self, one: LentRange) -> None:
        """Counts a range in."""
        self.lent.add(one)
        self.lane(one.lane).held += one.count
        self.counts[MessageState.LEASED] += one.count
        one.lease.lent += one.count
        self.in_flight[one.lease.owner] = self.in_flight.get(one.lease.owner, 0) + one.count

    def stays_lent(self, one: LentRange, first: Offset, last: Offset) -> bool:
        """Whether what is meant of the range is kept as one: not a small part, for which too little would be saved."""
        return one.count > OPENED_WHOLE or (first <= one.first and one.last <= last)

    def lend_on(self, one: LentRange, first: Offset, last: Offset, lease: Lease) -> None:
        """These are under another lease from now on."""
        start = self.take_out(one, first, last)
        self.lend(LentRange(one.lane, start, first, last, one.first_ms, lease))

    def take_out(self, one: LentRange, first: Offset, last: Offset) -> Offset:
        """These are over, and the rest stays lent; where the cell of the first begins."""
        start, count = self.lent.cut(one, first, last), last - first + 1
        self.lane(one.lane).held -= count
        self.counts[MessageState.LEASED] -= count
        one.lease.lent -= count
        self.count_out(one.lease.owner, count)
        return start

    def count_redriven(self, task: str) -> None:
        self.redriven = self.redriven + 1 if self.task == task else 1
        self.task = task

    def lease(self, record: LeaseGranted, cells: list[tuple[Offset, Offset]]) -> None:
        """Applies the record, whose cells these are."""
        lane = self.lane(record.lane)
        lease = Lease(record.nonce, record.owner, record.until_ms, record.at_ms)
        fresh = moved(MessageState.READY, DeliveryEvent.TAKE)
        for start, offset in cells:
            held = self.held.get(offset)
            if held is None:
                self.held[offset] = TrackedMessage(
                    record.lane, start, None, fresh, 1, 0, first_ms=record.at_ms, lease=lease
                )
                lane.held += 1
                self.counts[fresh] += 1
            else:
                self._lease_again(start, offset, held, lease)
        lease.offsets.update(offset for _, offset in cells)
        lane.cursor = max(lane.cursor, max(lease.offsets) + 1)
        lane.handed += len(cells)
        lane.served_ms = record.at_ms
        self.in_flight[record.owner] = self.in_flight.get(record.owner, 0) + len(cells)
        for (_, offset), key in zip(cells, record.keys, strict=False):
            if key is not None:
                self.held[offset].key = key
                self.keys.lock(key, offset)
        self.watch_lease(lease)

    def _lease_again(self, start: Offset, offset: Offset, held: TrackedMessage, lease: Lease) -> None:
        self._wake(offset, held)
        self.keys.unpark(held)
        self.move(held, DeliveryEvent.TAKE)
        held.start = min(held.start, start)
        held.handed += 1
        held.first_ms = held.first_ms or lease.since_ms
        held.lease = lease

    # --- snapshots -----------------------------------------------------------------------------------------

    def snapshot(self) -> ViewSnapshot:
        rows: dict[int, list[HeldRow]] = {number: [] for number in self.lanes}
        lent: dict[int, list[LentRow]] = {number: [] for number in self.lanes}
        for offset, held in self.held.items():
            rows[held.lane].append(row_of(offset, held))
        for one in self.lent:
            lent[one.lane].append(one.row())
        lanes = tuple(
            LaneRow(
                number,
                lane.floor,
                tuple(lane.done),
                tuple(rows[number]),
                lane.cursor,
                lane.handed,
                lane.finished,
                lane.served_ms,
                tuple(lent[number]),
            )
            for number, lane in self.lanes.items()
        )
        return ViewSnapshot(self.view, self.base, lanes, self.task, self.redriven, self.tally.row())

    def begin_from(self, record: ViewSnapshot) -> None:
        """Of the snapshot all but its lanes and messages."""
        self.dead.clear()
        self.clear(record.base)
        self.task, self.redriven = record.task, record.redriven
        self.tally.restore(record.counts)

    # --- parts ---------------------------------------------------------------------------------------------

    def park(self, lane: LaneState, start: Offset, offset: Offset, key: bytes | None) -> None:
        """A message behind its key waits until that lets it go; any other is ready, unless it is dead from before a
        reset. The dead one's cell grows to the one before it."""
        held = self.hold(lane, start, offset, key)
        if held.state is not MessageState.READY:
            held.start = min(held.start, start)
        elif key is None or may_go(held, offset, self.keys.wall(key, self.held)):
            lane.push_ready(offset)
        else:
            self.keys.park(key, offset, held)

    def hold(self, lane: LaneState, start: Offset, offset: Offset, key: bytes | None) -> TrackedMessage:
        held = self.find(offset)
        if held is None:
            held = self.held[offset] = TrackedMessage(lane.number, start, key)
            self.counts[MessageState.READY] += 1
            lane.held += 1
        else:
            self._wake(offset, held)
        lane.cursor = max(lane.cursor, offset + 1)
        return held

    def _wake(self, offset: Offset, held: TrackedMessage) -> None:
        """That a wait was over is not written down; what was done to the message tells it."""
        if held.state is MessageState.WAITING:
            self.move(held, DeliveryEvent.DUE)
            self.unlock(offset, held)

    def move(self, held: TrackedMessage, event: DeliveryEvent) -> None:
        state = moved(held.state, event)
        self.counts[held.state] -= 1
        self.counts[state] += 1
        held.state = state

    def forget(self, offset: Offset, held: TrackedMessage) -> None:
        self.end_lease(offset, held)
        if held.state in (MessageState.LEASED, MessageState.WAITING):
            self.unlock(offset, held)
        elif held.is_parked:
            self.keys.unpark(held)
        self.counts[held.state] -= 1
        self.lane(held.lane).held -= 1
        del self.held[offset]

    def end_lease(self, offset: Offset, held: TrackedMessage) -> None:
        lease, held.lease = held.lease, None
        if lease is not None:
            lease.offsets.discard(offset)
            self.count_out(lease.owner)

    def count_out(self, owner: str, count: int = 1) -> None:
        left = self.in_flight[owner] - count
        if left:
            self.in_flight[owner] = left
        else:
            del self.in_flight[owner]

    def unlock(self, offset: Offset, held: TrackedMessage) -> None:
        """A message of a key lets go: those behind it are ready, as far as no other holds them up."""
        if held.key is not None:
            for free in self.keys.unlock(held.key, offset):
                behind = self.held.get(free)
                if behind is not None and behind.is_parked:
                    self.keys.unpark(behind)
                    self.lane(behind.lane).push_ready(free)

    def wake(self, now: Millis) -> bool:
        """Waits that are over make their messages ready; not written, as time tells it again after a crash."""
        woken = False
        while self.waits and self.waits[0][0] <= now:
            due_ms, offset = heappop(self.waits)
            held = self.held.get(offset)
            if held is not None and held.state is MessageState.WAITING and held.due_ms == due_ms:
                self.move(held, DeliveryEvent.DUE)
                self.unlock(offset, held)
                self.lane(held.lane).push_ready(offset)
                woken = True
        return woken

    def watch_lease(self, lease: Lease) -> None:
        self._sequence += 1
        heappush(self.lease_ends, (lease.until_ms, self._sequence, lease))
        if len(self.lease_ends) > self._sweep_at:  # leases that were answered early
            self.lease_ends = [one for one in self.lease_ends if one[2].is_live]
            heapify(self.lease_ends)
            self._sweep_at = max(_SWEEP_SIZE_MIN, 2 * len(self.lease_ends))

    def clear(self, base: Offset) -> None:
        """Begins anew from there, with none but the dead, whose copies are still owed."""
        self.base = base
        self.opened += 1
        self.lanes.clear()
        self.held = dict(self.dead)
        self.lent.clear()
        self.in_flight.clear()
        self.counts = [0] * len(MessageState)
        self.counts[MessageState.DEAD] = len(self.dead)
        for held in self.dead.values():
            self.lane(held.lane).held += 1
        self.lease_ends.clear()
        self.waits.clear()
        self.keys.clear()
