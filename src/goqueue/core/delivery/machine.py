"""Decides for one view: what may be handed out, what an answer does, what time does.

Every decision is a list of records; they are applied at once, and the driver makes them durable before it answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop
from typing import Final

import msgspec

from goqueue.base.errors import StaleReceipt
from goqueue.base.ids import Millis, Offset
from goqueue.base.priority import NORMAL
from goqueue.core.delivery.book import REDRIVEN, Book, offsets_by_lane
from goqueue.core.delivery.keys import may_go
from goqueue.core.delivery.lane import Held, LaneBook
from goqueue.core.delivery.policy import Grave, Policy
from goqueue.core.delivery.records import (
    Condemned,
    Done,
    Dropped,
    Extended,
    Interred,
    Leased,
    Opened,
    Parked,
    Passed,
    Record,
    Returned,
    View,
    pack_cells,
)
from goqueue.core.delivery.states import State
from goqueue.core.delivery.tally import EXPIRED, FAILED, REJECTED
from goqueue.core.retry import backoff_ms

PARKED_MAX: Final = 20_000  # messages behind locked keys, for each view
RUN_LOOK_AHEAD: Final = 100  # messages that a poll looks through for more of the key that it begins with

TOO_OLD: Final = "TTL_EXPIRED"

Cell = tuple[Offset, Offset]


class Grant(msgspec.Struct, frozen=True):
    """To whom a lease goes."""

    owner: str
    nonce: str
    until_ms: Millis


class Delivery:
    """One group's delivery of one partition."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.book = Book(view)

    def _write(self, records: list[Record]) -> list[Record]:
        for record in records:
            self.book.apply(record)
        return records

    # --- handing out ---------------------------------------------------------------------------------------

    def open_at(self, offset: Offset) -> list[Record]:
        """Everything below counts as done, everything else as new."""
        return self._write([Opened(self.view, offset)])

    def pass_to(self, offset: Offset) -> list[Record]:
        """The group says that it is done with everything below."""
        return self._write([Passed(self.view, offset)])

    def ready_again(self, lane: int, limit: int, nonce: str | None = None) -> list[Offset]:
        """The first messages of the lane that were handed out before, or waited for their key, and may go now.

        What the poll `nonce` was handed already holds up no other from it.
        """
        book = self.book.lanes.get(lane)
        if book is None or not book.ready:
            return []
        found: list[Offset] = []
        while book.ready and len(found) < limit:
            offset = book.pop_ready()
            held = self.book.held.get(offset)
            if held is None or held.state is not State.READY or (found and found[-1] == offset):
                continue
            key = held.key
            if key is not None and not may_go(held, offset, self.book.keys.wall(key, self.book.held, nonce)):
                self.book.keys.park(key, offset, held)
            else:
                found.append(offset)
        for offset in found:
            book.push_ready(offset)
        return found

    def has_ready_again(self, lane: int, nonce: str | None = None) -> bool:
        book = self.book.lanes.get(lane)
        return book is not None and bool(book.ready) and bool(self.ready_again(lane, 1, nonce))

    def free_of_keys(
        self, messages: Sequence[tuple[Offset, bytes | None]], nonce: str
    ) -> Sequence[tuple[Offset, bytes | None]]:
        """Those of new messages whose keys let them go, to the poll `nonce`."""
        walls: dict[bytes, Offset | None] = {}
        locks = self.book.keys.locks
        if not locks:
            return messages
        return [
            pair
            for pair in messages
            if pair[1] is None or pair[1] not in locks or self._key_lets_go(pair[0], pair[1], nonce, walls)
        ]

    def _key_lets_go(self, offset: Offset, key: bytes, nonce: str, walls: dict[bytes, Offset | None]) -> bool:
        """`walls` are those of the locked keys met so far."""
        if key not in walls:
            walls[key] = self.book.keys.wall(key, self.book.held, nonce)
        return may_go(self.book.held.get(offset), offset, walls[key])

    def lease(
        self,
        lane: int,
        offsets: Sequence[Offset],
        keys: Sequence[bytes | None],
        grant: Grant,
        now: Millis,
        wanted: Collection[Offset] | None = None,
    ) -> tuple[list[Offset], list[Record]]:
        """Hands out what is still free of these, in order. `keys` only where messages of a key go in order; there,
        those that are not `wanted` stay ready."""
        book = self.book.lane(lane)
        parked: list[Record] = []
        if keys:
            cells, parked = self._unlocked_cells(book, list(zip(offsets, keys, strict=True)), grant.nonce, wanted)
        else:
            cells = self._free_cells(book, offsets)
        if not cells:
            return [], parked
        taken = [offset for _, offset in cells]
        by_offset = dict(zip(offsets, keys, strict=True)) if keys else {}
        record = Leased(
            self.view,
            lane,
            grant.nonce,
            grant.owner,
            now,
            grant.until_ms,
            pack_cells(cells),
            tuple(by_offset[offset] for offset in taken) if keys else (),
        )
        self.book.lease(record, cells)
        return taken, [*parked, record]

    def _free_cells(self, book: LaneBook, offsets: Iterable[Offset]) -> list[Cell]:
        """The cells of those that may be handed out."""
        held = self.book.held
        cells: list[Cell] = []
        for offset in offsets:
            if offset not in held and offset >= book.cursor and not len(book.done):
                cells.append((book.cursor, offset))  # the usual case: new, in order
                book.cursor = offset + 1
            elif (start := self._free_from(book, offset)) is not None:
                cells.append((start, offset))
                book.cursor = max(book.cursor, offset + 1)
        return cells

    def _unlocked_cells(
        self,
        book: LaneBook,
        pairs: Sequence[tuple[Offset, bytes | None]],
        nonce: str,
        wanted: Collection[Offset] | None,
    ) -> tuple[list[Cell], list[Record]]:
        """The same where messages of a key go in order: those behind a key that is with somebody else wait for it."""
        walls: dict[bytes, Offset | None] = {}
        locks, held, is_whole = self.book.keys.locks, self.book.held, not len(book.done)
        cells: list[Cell] = []
        parked: list[tuple[Cell, bytes | None]] = []
        for offset, key in pairs:
            is_new = is_whole and offset >= book.cursor and offset not in held  # the usual case
            start = book.cursor if is_new else self._free_from(book, offset)
            if start is None:
                continue
            is_free = key is None or key not in locks or self._key_lets_go(offset, key, nonce, walls)
            if is_free and (wanted is None or offset in wanted):
                cells.append((start, offset))
            elif offset not in held:
                parked.append(((start, offset), key))
            book.cursor = max(book.cursor, offset + 1)
        if not parked:
            return cells, []
        steps = pack_cells(cell for cell, _ in parked)
        return cells, self._write([Parked(self.view, book.number, steps, tuple(key for _, key in parked))])

    def _free_from(self, book: LaneBook, offset: Offset) -> Offset | None:
        """The start of the message's cell if it may be handed out."""
        held = self.book.held.get(offset)
        if held is not None:
            if offset >= book.cursor:
                held.start = min(held.start, book.scan_from())  # the dead of a view that was opened again below them
                book.cursor = max(book.cursor, offset + 1)
            return held.start if held.state is State.READY else None
        if offset < book.cursor or book.is_done(offset):
            return None
        return book.scan_from()

    def drop(self, lane: int, offsets: Iterable[Offset]) -> list[Record]:
        """These are not handed out: their time passed, or the log no longer has them."""
        cells = self._free_cells(self.book.lane(lane), offsets)
        return self._write([Dropped(self.view, lane, pack_cells(cells))]) if cells else []

    def bury_unread(self, lane: int, offsets: Iterable[Offset], policy: Policy, now: Millis) -> list[Record]:
        """Their time passed, and they go to the dead letters."""
        if policy.grave is None:
            return self.drop(lane, offsets)
        cells = self._free_cells(self.book.lane(lane), offsets)
        if not cells:
            return []
        record = Condemned(self.view, lane, pack_cells(cells), TOO_OLD, "", now, False, policy.grave)
        return self._write([record])

    def cut_to(self, end: Offset) -> list[Record]:
        """The log lost its end: other messages will stand where those were that the view knows of."""
        book = self.book
        if max([book.base, *(lane.cursor for lane in book.lanes.values())]) <= end:
            return []
        whole = book.snapshot()
        lanes = tuple(
            msgspec.structs.replace(
                row,
                floor=min(row.floor, end),
                done=tuple((first, min(last, end)) for first, last in row.done if first < end),
                held=tuple(one for one in row.held if one.offset < end),
                cursor=min(row.cursor, end),
            )
            for row in whole.lanes
        )
        return self._write([msgspec.structs.replace(whole, base=min(whole.base, end), lanes=lanes)])

    # --- by hand -------------------------------------------------------------------------------------------

    def is_open(self, offset: Offset) -> bool:
        """Whether a message that is taken out by hand, never handed out, is still there."""
        lane = self.book.lanes.get(NORMAL)
        held = self.book.held.get(offset)
        if held is not None:
            return held.state is State.READY
        return offset >= self.book.base if lane is None else not lane.is_done(offset)

    def pull(self, offsets: Iterable[Offset], grave: Grave, task: str, now: Millis) -> list[Record]:
        """Taken out by hand, in any order: each is a cell of its own."""
        cells = pack_cells((offset, offset) for offset in offsets)
        return self._write([Condemned(self.view, NORMAL, cells, REDRIVEN, task, now, False, grave)])

    def put_back(self, offsets: Iterable[Offset]) -> list[Record]:
        """Copies that were refused: the messages stay."""
        chosen = tuple(offsets)
        return self._write([Returned(self.view, NORMAL, chosen, (0,) * len(chosen), False)]) if chosen else []

    def discard(self, offset: Offset) -> list[Record]:
        return self._write([Dropped(self.view, NORMAL, pack_cells([(offset, offset)]))])

    # --- answers -------------------------------------------------------------------------------------------

    def check(self, offset: Offset, attempt: int, nonce: str) -> Held:
        """The message that a receipt names, if its lease is live."""
        if not self.is_leased(offset, attempt, nonce):
            raise StaleReceipt("The lease of this receipt is over; the message may have gone to another consumer.")
        return self.book.held[offset]

    def is_leased(self, offset: Offset, attempt: int, nonce: str) -> bool:
        held = self.book.held.get(offset)
        return held is not None and held.lease is not None and held.handed == attempt and held.lease.nonce == nonce

    def was_leased(self, offset: Offset, nonce: str) -> Held | None:
        """The message, if the receipt named one of its last leases, that is over now."""
        held = self.book.held.get(offset)
        return held if held is not None and nonce in held.earlier else None

    def ack(self, offsets: Iterable[Offset], is_late: bool = False) -> list[Record]:
        """Done with these; `is_late` whoever has them now, if anybody does."""
        lanes = offsets_by_lane(self.book.held, offsets)
        return self._write([Done(self.view, lane, tuple(found), is_late) for lane, found in lanes.items()])

    def extend(self, offsets: Iterable[Offset], until_ms: Millis) -> list[Record]:
        lanes = offsets_by_lane(self.book.held, offsets)
        return self._write([Extended(self.view, lane, tuple(found), until_ms) for lane, found in lanes.items()])

    def adopt(self, offsets: Iterable[Offset], owner: str, until_ms: Millis) -> list[Record]:
        """Somebody else holds these from now on, under the same receipts."""
        lanes = offsets_by_lane(self.book.held, offsets)
        return self._write([Extended(self.view, lane, tuple(found), until_ms, owner) for lane, found in lanes.items()])

    def release(self, offsets: Iterable[Offset], policy: Policy, now: Millis) -> list[Record]:
        """Given back without a failure, at once ready for another; a limit on deliveries still holds."""
        return self._give_back(offsets, policy, now, is_failure=False, chance=None)

    def nack(
        self, offsets: Iterable[Offset], policy: Policy, now: Millis, chance: float, delay_ms: Millis | None, text: str
    ) -> list[Record]:
        """Failed: again after a wait, or given up."""
        return self._give_back(offsets, policy, now, is_failure=True, chance=chance, delay_ms=delay_ms, text=text)

    def reject(self, offsets: Iterable[Offset], policy: Policy, now: Millis, text: str) -> list[Record]:
        """Given up at once."""
        lanes = offsets_by_lane(self.book.held, offsets)
        return self._write([self._given_up(lane, found, REJECTED, text, policy, now) for lane, found in lanes.items()])

    def _give_back(
        self,
        offsets: Iterable[Offset],
        policy: Policy,
        now: Millis,
        *,
        is_failure: bool,
        chance: float | None,
        delay_ms: Millis | None = None,
        text: str = "",
        reason: str = FAILED,
    ) -> list[Record]:
        records: list[Record] = []
        for lane, found in offsets_by_lane(self.book.held, offsets).items():
            over, again, due_ms = [], [], []
            for offset in found:
                held = self.book.held[offset]
                failures = held.failed + is_failure
                if policy.gives_up(failures if is_failure else 0, held.handed):
                    over.append(offset)
                    continue
                again.append(offset)
                due_ms.append(_due_ms(failures, policy, now, chance, delay_ms))
            if again:
                expired = is_failure and reason == EXPIRED
                records.append(Returned(self.view, lane, tuple(again), tuple(due_ms), is_failure, expired))
            if over:
                records.append(self._given_up(lane, over, reason, text, policy, now, is_failure=is_failure))
        self._write(records)
        self.book.due(now)
        return records

    def _given_up(
        self,
        lane: int,
        offsets: list[Offset],
        reason: str,
        text: str,
        policy: Policy,
        now: Millis,
        *,
        is_failure: bool = True,
    ) -> Record:
        if policy.grave is None:
            return Done(self.view, lane, tuple(offsets))
        cells = pack_cells((self.book.held[offset].start, offset) for offset in offsets)
        return Condemned(self.view, lane, cells, reason, text, now, is_failure, policy.grave)

    def release_owner(self, owner: str, policy: Policy, now: Millis, is_failure: bool) -> list[Record]:
        """The owner is gone: what it held goes to others."""
        if owner not in self.book.in_flight:
            return []
        offsets = sorted(self.held_by(owner))
        return self._give_back(offsets, policy, now, is_failure=is_failure, chance=None, reason=EXPIRED)

    def held_by(self, owner: str) -> list[Offset]:
        leases = {id(lease): lease for _, _, lease in self.book.lease_ends if lease.owner == owner}
        return [offset for lease in leases.values() for offset in lease.offsets]

    def interred(self, offsets: Iterable[Offset]) -> list[Record]:
        """The copies are safe."""
        lanes = offsets_by_lane(self.book.dead, offsets)
        return self._write([Interred(self.view, lane, tuple(found)) for lane, found in lanes.items()])

    # --- time ----------------------------------------------------------------------------------------------

    def recovered(self, now: Millis, policy: Policy) -> list[Record]:
        """Leases that ran out while the node was down are nobody's failure."""
        over = self._over(now)
        return self._give_back(over, policy, now, is_failure=False, chance=None, reason=EXPIRED)

    def tick(self, now: Millis, policy: Policy) -> tuple[list[Record], bool]:
        """Does everything that is due; the flag says that something became ready without a record."""
        woken = self.book.due(now)
        over = self._over(now)
        records = self._give_back(over, policy, now, is_failure=True, chance=None, reason=EXPIRED) if over else []
        return records, woken

    def _over(self, now: Millis) -> list[Offset]:
        ends, over = self.book.lease_ends, list[Offset]()
        while ends and ends[0][0] <= now:
            over += heappop(ends)[2].offsets
        return sorted(over)

    def next_deadline(self) -> Millis | None:
        """When to tick next. It may be early, never late."""
        ends, waits = self.book.lease_ends, self.book.waits
        while ends and not ends[0][2].offsets:
            heappop(ends)
        first = [heap[0][0] for heap in (ends, waits) if heap]
        return min(first, default=None)


def _due_ms(failures: int, policy: Policy, now: Millis, chance: float | None, delay_ms: Millis | None) -> Millis:
    """When it may come again; now, if its lease was its wait."""
    if delay_ms is not None:
        return now + delay_ms
    if chance is None:
        return now
    return now + backoff_ms(failures, policy.retry_ms, policy.retry_ms_max, chance)
