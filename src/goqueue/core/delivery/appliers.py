"""What each record does to the state of a view: one applier a record."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING, Any, Final

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.lane import LaneState, Lease, TrackedMessage
from goqueue.core.delivery.lent import LentRange, rows_of
from goqueue.core.delivery.records import (
    Acked,
    DeadLettered,
    DeadLettering,
    Dropped,
    Extended,
    HeldRow,
    LeaseGranted,
    Opened,
    Parked,
    Passed,
    RangesAcked,
    RangesLeased,
    Returned,
    ViewSnapshot,
    unpack_cells,
)
from goqueue.core.delivery.states import DeliveryEvent, MessageState, moved

if TYPE_CHECKING:
    from goqueue.core.delivery.delivery_state import DeliveryState

REDRIVEN: Final = "REDRIVEN"  # taken out of the dead letters; the text is the task's id
_EARLIER_MAX: Final = 8  # leases that are over, of which a message remembers the receipts


def _opened(state: DeliveryState, record: Opened) -> None:
    state.clear(record.offset)


def _passed(state: DeliveryState, record: Passed) -> None:
    state.pass_to(record.offset)


def _leased(state: DeliveryState, record: LeaseGranted) -> None:
    state.lease(record, unpack_cells(record.cells))


def _ranges_leased(state: DeliveryState, record: RangesLeased) -> None:
    lane, end = state.lane(record.lane), record.start
    lease = Lease(record.nonce, record.owner, record.until_ms, record.at_ms)
    for at in range(0, len(record.steps), 2):
        first = end + record.steps[at]
        last = first + record.steps[at + 1]
        state.lend(LentRange(record.lane, end, first, last, record.at_ms, lease))
        lane.handed += last - first + 1
        end = last + 1
    lane.cursor = max(lane.cursor, end)
    lane.served_ms = record.at_ms
    state.watch_lease(lease)


def _ranges_acked(state: DeliveryState, record: RangesAcked) -> None:
    for at in range(0, len(record.ends), 2):
        offset, last = record.ends[at : at + 2]
        while offset <= last:
            offset = _ack_from(state, offset, last) + 1


def _ack_from(state: DeliveryState, offset: Offset, last: Offset) -> Offset:
    """The message there, or as much of its range as is meant; its last one."""
    one = state.lent.find(offset)
    if one is None:
        held = state.held[offset]
        moved(held.state, DeliveryEvent.ACK)
        state.forget(offset, held)
        state.lane(held.lane).finish_range(held.start, offset, offset)
        return offset
    last = min(last, one.last)
    start = state.take_out(one, offset, last)
    state.lane(one.lane).finish_range(start, offset, last)
    return last


def _parked(state: DeliveryState, record: Parked) -> None:
    lane = state.lane(record.lane)
    for (start, offset), key in zip(unpack_cells(record.cells), record.keys, strict=True):
        state.park(lane, start, offset, key)


def _extended(state: DeliveryState, record: Extended) -> None:
    """What is in a range stays in one, under the new lease."""
    leases: dict[Lease, Lease] = {}

    def renewed(before: Lease) -> Lease:
        if (lease := leases.get(before)) is None:
            owner = before.owner if record.owner is None else record.owner
            lease = leases[before] = Lease(before.nonce, owner, record.until_ms, before.since_ms)
        return lease

    for first, last in rows_of(record.offsets):
        offset = first
        while offset <= last:
            one = state.lent.find(offset)
            if one is not None and state.stays_lent(one, offset, last):
                end = min(one.last, last)
                state.lend_on(one, offset, end, renewed(one.lease))
            else:
                end = offset
                _extend_one(state, offset, renewed)
            offset = end + 1
    for lease in leases.values():
        state.watch_lease(lease)


def _extend_one(state: DeliveryState, offset: Offset, renewed: Callable[[Lease], Lease]) -> None:
    state.open_ranges((offset,))
    held = state.held[offset]
    state.move(held, DeliveryEvent.EXTEND)
    before = held.lease
    assert before is not None
    lease = held.lease = renewed(before)
    state.count_out(before.owner)
    state.in_flight[lease.owner] = state.in_flight.get(lease.owner, 0) + 1
    before.offsets.discard(offset)
    lease.offsets.add(offset)


def _done(state: DeliveryState, record: Acked) -> None:
    cells: list[tuple[Offset, Offset]] = []
    state.open_ranges(record.offsets)
    for offset in record.offsets:
        held = state.held[offset]
        if held.state is not MessageState.LEASED:
            moved(held.state, DeliveryEvent.LATE_ACK if record.is_late else DeliveryEvent.ACK)
        state.forget(offset, held)
        cells.append((held.start, offset))
    state.lane(record.lane).finish(cells)


def _returned(state: DeliveryState, record: Returned) -> None:
    lane = state.lane(record.lane)
    event = DeliveryEvent.RETURN if record.is_failure else DeliveryEvent.RELEASE
    state.open_ranges(record.offsets)
    for offset, due_ms in zip(record.offsets, record.due_ms, strict=True):
        held = state.held[offset]
        if held.lease is not None:
            held.earlier = (*held.earlier[1 - _EARLIER_MAX :], held.lease.nonce)
        state.end_lease(offset, held)
        state.dead.pop(offset, None)
        state.move(held, event)
        held.failed += record.is_failure
        if record.is_unsent:
            held.handed = max(1, held.handed - 1)  # it stays one that was handed out before
        if held.state is MessageState.READY:
            state.unlock(offset, held)
            lane.push_ready(offset)
        else:
            held.due_ms = due_ms
            heappush(state.waits, (due_ms, offset))


def _condemned(state: DeliveryState, record: DeadLettering) -> None:
    lane = state.lane(record.lane)
    for start, offset in unpack_cells(record.cells):
        held = state.hold(lane, start, offset, None)
        if held.state is MessageState.LEASED:
            state.end_lease(offset, held)
            held.failed += record.is_failure
            state.unlock(offset, held)
        state.keys.unpark(held)
        state.move(held, DeliveryEvent.CONDEMN)
        held.reason, held.text, held.due_ms, held.dead_letter_target = (
            record.reason,
            record.text,
            record.at_ms,
            record.dead_letter_target,
        )
        state.dead[offset] = held


def _interred(state: DeliveryState, record: DeadLettered) -> None:
    lane = state.lane(record.lane)
    for offset in record.offsets:
        held = state.dead.pop(offset)
        moved(held.state, DeliveryEvent.INTER)
        if held.reason == REDRIVEN:
            state.count_redriven(held.text)
        state.forget(offset, held)
        lane.finish([(held.start, offset)])


def _dropped(state: DeliveryState, record: Dropped) -> None:
    lane = state.lane(record.lane)
    for start, offset in unpack_cells(record.cells):
        held = state.hold(lane, start, offset, None)
        moved(held.state, DeliveryEvent.PASS)
        state.forget(offset, held)
        lane.finish([(start, offset)])


def _restored(state: DeliveryState, record: ViewSnapshot) -> None:
    state.begin_from(record)
    for row in record.lanes:
        lane = state.lanes[row.lane] = LaneState(row.lane, row.floor)
        lane.handed, lane.finished, lane.served_ms = row.handed, row.finished, row.served_ms
        for start, end in row.done:
            lane.done.add(start, end)
        leases: dict[tuple[str, Millis], Lease] = {}
        for one in row.held:
            _restore(state, lane, one, leases)
        for lent in row.lent:
            fresh = Lease(lent.nonce, lent.owner, lent.until_ms, lent.since_ms)
            lease = leases.setdefault((lent.nonce, lent.until_ms), fresh)
            state.lend(LentRange(row.lane, lent.start, lent.first, lent.last, lent.first_ms, lease))
        lane.cursor = row.cursor
        for lease in leases.values():
            state.watch_lease(lease)


def _restore(state: DeliveryState, lane: LaneState, row: HeldRow, leases: dict[tuple[str, Millis], Lease]) -> None:
    held = state.held[row.offset] = TrackedMessage(lane.number, row.start, row.key)
    held.state = MessageState(row.state)
    held.handed, held.failed, held.first_ms, held.earlier = row.handed, row.failed, row.first_ms, row.earlier
    state.counts[held.state] += 1
    lane.held += 1
    if row.key is not None and held.state in (MessageState.LEASED, MessageState.WAITING):
        state.keys.lock(row.key, row.offset)
    match held.state:
        case MessageState.LEASED:
            fresh = Lease(row.nonce, row.owner, row.until_ms, row.since_ms)
            lease = leases.setdefault((row.nonce, row.until_ms), fresh)
            lease.offsets.add(row.offset)
            held.lease = lease
            state.in_flight[row.owner] = state.in_flight.get(row.owner, 0) + 1
        case MessageState.WAITING:
            held.due_ms = row.until_ms
            heappush(state.waits, (row.until_ms, row.offset))
        case MessageState.READY:
            lane.push_ready(row.offset)
        case MessageState.DEAD:
            held.reason, held.text, held.due_ms, held.dead_letter_target = (
                row.reason,
                row.text,
                row.until_ms,
                row.dead_letter_target,
            )
            state.dead[row.offset] = held
        case MessageState.DONE:
            pass


APPLIERS: Final[dict[type, Callable[[DeliveryState, Any], None]]] = {
    Opened: _opened,
    Passed: _passed,
    LeaseGranted: _leased,
    Parked: _parked,
    Extended: _extended,
    Acked: _done,
    Returned: _returned,
    DeadLettering: _condemned,
    DeadLettered: _interred,
    Dropped: _dropped,
    ViewSnapshot: _restored,
    RangesLeased: _ranges_leased,
    RangesAcked: _ranges_acked,
}
