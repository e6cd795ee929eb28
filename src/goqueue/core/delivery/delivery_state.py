"""The durable state of one view. `apply` is the only way it changes, live and on recovery.

Beside it are indexes that follow from it (counts, timers, what is ready, what waits behind a key). Decisions may tidy
those up; they hold the same whoever asks. That a wait is over is not written down: time tells it again (`wake`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.keys import KeyOrder, may_go
from goqueue.core.delivery.lane import LaneState, Lease, TrackedMessage, row_of
from goqueue.core.delivery.records import (
    Acked,
    DeadLettered,
    DeadLettering,
    Dropped,
    Extended,
    HeldRow,
    LaneRow,
    LeaseGranted,
    Opened,
    Parked,
    Passed,
    Record,
    Returned,
    ViewId,
    ViewSnapshot,
    unpack_cells,
)
from goqueue.core.delivery.states import MOVES, DeliveryEvent, MessageState, moved
from goqueue.core.delivery.tally import DeliveryCounts

REDRIVEN: Final = "REDRIVEN"  # taken out of the dead letters; the text is the task's id
_SWEEP_SIZE_MIN: Final = 1_024
_EARLIER_MAX: Final = 8  # leases that are over, of which a message remembers the receipts


class DeliveryState:
    """Lanes, held messages and their timers."""

    def __init__(self, view: ViewId) -> None:
        self.view = view
        self.base: Offset = 0
        self.lanes: dict[int, LaneState] = {}
        self.held: dict[Offset, TrackedMessage] = {}
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
        self._appliers: dict[type, Callable[[Any], None]] = {
            Opened: self._opened,
            Passed: self._passed,
            LeaseGranted: self._leased,
            Parked: self._parked,
            Extended: self._extended,
            Acked: self._done,
            Returned: self._returned,
            DeadLettering: self._condemned,
            DeadLettered: self._interred,
            Dropped: self._dropped,
            ViewSnapshot: self._restored,
        }

    def lane(self, number: int) -> LaneState:
        book = self.lanes.get(number)
        if book is None:
            book = self.lanes[number] = LaneState(number, self.base)
        return book

    def apply(self, record: Record) -> None:
        self._appliers[type(record)](record)
        self.tally.note(record)

    def by_lane(self, offsets: Iterable[Offset], event: DeliveryEvent) -> dict[int, list[Offset]]:
        """The messages that this is about to happen to; `IllegalMove` if it cannot happen to one of them."""
        found: dict[int, list[Offset]] = {}
        is_for_leased = (MessageState.LEASED, event) in MOVES
        for offset in offsets:
            held = self.held[offset]
            if not (is_for_leased and held.state is MessageState.LEASED):
                moved(held.state, event)
            found.setdefault(held.lane, []).append(offset)
        return found

    # --- one applier a record ------------------------------------------------------------------------------

    def _opened(self, record: Opened) -> None:
        self.base = record.offset
        self._clear()

    def _passed(self, record: Passed) -> None:
        self.base = max(self.base, record.offset)
        for offset in [offset for offset in self.held if offset < record.offset]:
            held = self.held[offset]
            if held.state is not MessageState.DEAD:  # its copy is still owed
                moved(held.state, DeliveryEvent.PASS)
                self._forget(offset, held)
        for lane in self.lanes.values():
            lane.pass_to(record.offset)

    def _leased(self, record: LeaseGranted) -> None:
        self.lease(record, unpack_cells(record.cells))

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
        self._watch_lease(lease)

    def _parked(self, record: Parked) -> None:
        lane = self.lane(record.lane)
        for (start, offset), key in zip(unpack_cells(record.cells), record.keys, strict=True):
            self._park(lane, start, offset, key)

    def _lease_again(self, start: Offset, offset: Offset, held: TrackedMessage, lease: Lease) -> None:
        self._wake(offset, held)
        self.keys.unpark(held)
        self._move(held, DeliveryEvent.TAKE)
        held.start = min(held.start, start)
        held.handed += 1
        held.first_ms = held.first_ms or lease.since_ms
        held.lease = lease

    def _extended(self, record: Extended) -> None:
        leases: dict[Lease, Lease] = {}
        for offset in record.offsets:
            held = self.held[offset]
            self._move(held, DeliveryEvent.EXTEND)
            before = held.lease
            assert before is not None
            lease = leases.get(before)
            if lease is None:
                owner = before.owner if record.owner is None else record.owner
                lease = leases[before] = Lease(before.nonce, owner, record.until_ms, before.since_ms)
            self._count_out(before.owner)
            self.in_flight[lease.owner] = self.in_flight.get(lease.owner, 0) + 1
            before.offsets.discard(offset)
            lease.offsets.add(offset)
            held.lease = lease
        for lease in leases.values():
            self._watch_lease(lease)

    def _done(self, record: Acked) -> None:
        cells: list[tuple[Offset, Offset]] = []
        for offset in record.offsets:
            held = self.held[offset]
            if held.state is not MessageState.LEASED:
                moved(held.state, DeliveryEvent.LATE_ACK if record.is_late else DeliveryEvent.ACK)
            self._forget(offset, held)
            cells.append((held.start, offset))
        self.lane(record.lane).finish(cells)

    def _returned(self, record: Returned) -> None:
        lane = self.lane(record.lane)
        event = DeliveryEvent.RETURN if record.is_failure else DeliveryEvent.RELEASE
        for offset, due_ms in zip(record.offsets, record.due_ms, strict=True):
            held = self.held[offset]
            if held.lease is not None:
                held.earlier = (*held.earlier[1 - _EARLIER_MAX :], held.lease.nonce)
            self._end_lease(offset, held)
            self.dead.pop(offset, None)
            self._move(held, event)
            held.failed += record.is_failure
            if held.state is MessageState.READY:
                self._unlock(offset, held)
                lane.push_ready(offset)
            else:
                held.due_ms = due_ms
                heappush(self.waits, (due_ms, offset))

    def _condemned(self, record: DeadLettering) -> None:
        lane = self.lane(record.lane)
        for start, offset in unpack_cells(record.cells):
            held = self._hold(lane, start, offset, None)
            if held.state is MessageState.LEASED:
                self._end_lease(offset, held)
                held.failed += record.is_failure
                self._unlock(offset, held)
            self.keys.unpark(held)
            self._move(held, DeliveryEvent.CONDEMN)
            held.reason, held.text, held.due_ms, held.dead_letter_target = (
                record.reason,
                record.text,
                record.at_ms,
                record.dead_letter_target,
            )
            self.dead[offset] = held

    def _interred(self, record: DeadLettered) -> None:
        lane = self.lane(record.lane)
        for offset in record.offsets:
            held = self.dead.pop(offset)
            moved(held.state, DeliveryEvent.INTER)
            if held.reason == REDRIVEN:
                self.redriven = self.redriven + 1 if self.task == held.text else 1
                self.task = held.text
            self._forget(offset, held)
            lane.finish([(held.start, offset)])

    def _dropped(self, record: Dropped) -> None:
        lane = self.lane(record.lane)
        for start, offset in unpack_cells(record.cells):
            held = self._hold(lane, start, offset, None)
            moved(held.state, DeliveryEvent.PASS)
            self._forget(offset, held)
            lane.finish([(start, offset)])

    # --- snapshots -----------------------------------------------------------------------------------------

    def snapshot(self) -> ViewSnapshot:
        rows: dict[int, list[HeldRow]] = {number: [] for number in self.lanes}
        for offset, held in self.held.items():
            rows[held.lane].append(row_of(offset, held))
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
            )
            for number, lane in self.lanes.items()
        )
        return ViewSnapshot(self.view, self.base, lanes, self.task, self.redriven, self.tally.row())

    def _restored(self, record: ViewSnapshot) -> None:
        self.dead.clear()
        self._clear()
        self.base = record.base
        self.task, self.redriven = record.task, record.redriven
        self.tally.restore(record.counts)
        for row in record.lanes:
            lane = self.lanes[row.lane] = LaneState(row.lane, row.floor)
            lane.handed, lane.finished, lane.served_ms = row.handed, row.finished, row.served_ms
            for start, end in row.done:
                lane.done.add(start, end)
            leases: dict[tuple[str, Millis], Lease] = {}
            for one in row.held:
                self._restore(lane, one, leases)
            lane.cursor = row.cursor
            for lease in leases.values():
                self._watch_lease(lease)

    def _restore(self, lane: LaneState, row: HeldRow, leases: dict[tuple[str, Millis], Lease]) -> None:
        held = self.held[row.offset] = TrackedMessage(lane.number, row.start, row.key)
        held.state = MessageState(row.state)
        held.handed, held.failed, held.first_ms, held.earlier = row.handed, row.failed, row.first_ms, row.earlier
        self.counts[held.state] += 1
        lane.held += 1
        if row.key is not None and held.state in (MessageState.LEASED, MessageState.WAITING):
            self.keys.lock(row.key, row.offset)
        match held.state:
            case MessageState.LEASED:
                fresh = Lease(row.nonce, row.owner, row.until_ms, row.since_ms)
                lease = leases.setdefault((row.nonce, row.until_ms), fresh)
                lease.offsets.add(row.offset)
                held.lease = lease
                self.in_flight[row.owner] = self.in_flight.get(row.owner, 0) + 1
            case MessageState.WAITING:
                held.due_ms = row.until_ms
                heappush(self.waits, (row.until_ms, row.offset))
            case MessageState.READY:
                lane.push_ready(row.offset)
            case MessageState.DEAD:
                held.reason, held.text, held.due_ms, held.dead_letter_target = (
                    row.reason,
                    row.text,
                    row.until_ms,
                    row.dead_letter_target,
                )
                self.dead[row.offset] = held
            case MessageState.DONE:
                pass

    # --- parts ---------------------------------------------------------------------------------------------

    def _park(self, lane: LaneState, start: Offset, offset: Offset, key: bytes | None) -> None:
        """A message behind its key waits until that lets it go; any other is ready, unless it is dead from before a
        reset. The dead one's cell grows to the one before it."""
        held = self._hold(lane, start, offset, key)
        if held.state is not MessageState.READY:
            held.start = min(held.start, start)
        elif key is None or may_go(held, offset, self.keys.wall(key, self.held)):
            lane.push_ready(offset)
        else:
            self.keys.park(key, offset, held)

    def _hold(self, lane: LaneState, start: Offset, offset: Offset, key: bytes | None) -> TrackedMessage:
        held = self.held.get(offset)
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
            self._move(held, DeliveryEvent.DUE)
            self._unlock(offset, held)

    def _move(self, held: TrackedMessage, event: DeliveryEvent) -> None:
        state = moved(held.state, event)
        self.counts[held.state] -= 1
        self.counts[state] += 1
        held.state = state

    def _forget(self, offset: Offset, held: TrackedMessage) -> None:
        self._end_lease(offset, held)
        if held.state in (MessageState.LEASED, MessageState.WAITING):
            self._unlock(offset, held)
        elif held.is_parked:
            self.keys.unpark(held)
        self.counts[held.state] -= 1
        self.lane(held.lane).held -= 1
        del self.held[offset]

    def _end_lease(self, offset: Offset, held: TrackedMessage) -> None:
        lease, held.lease = held.lease, None
        if lease is not None:
            lease.offsets.discard(offset)
            self._count_out(lease.owner)

    def _count_out(self, owner: str) -> None:
        left = self.in_flight[owner] - 1
        if left:
            self.in_flight[owner] = left
        else:
            del self.in_flight[owner]

    def _unlock(self, offset: Offset, held: TrackedMessage) -> None:
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
                self._move(held, DeliveryEvent.DUE)
                self._unlock(offset, held)
                self.lane(held.lane).push_ready(offset)
                woken = True
        return woken

    def _watch_lease(self, lease: Lease) -> None:
        self._sequence += 1
        heappush(self.lease_ends, (lease.until_ms, self._sequence, lease))
        if len(self.lease_ends) > self._sweep_at:  # leases that were answered early
            self.lease_ends = [one for one in self.lease_ends if one[2].offsets]
            heapify(self.lease_ends)
            self._sweep_at = max(_SWEEP_SIZE_MIN, 2 * len(self.lease_ends))

    def _clear(self) -> None:
        """All but the dead, whose copies are still owed."""
        self.opened += 1
        self.lanes.clear()
        self.held = dict(self.dead)
        self.in_flight.clear()
        self.counts = [0] * len(MessageState)
        self.counts[MessageState.DEAD] = len(self.dead)
        for held in self.dead.values():
            self.lane(held.lane).held += 1
        self.lease_ends.clear()
        self.waits.clear()
        self.keys.clear()
