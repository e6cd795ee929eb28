"""Decides what of a view may be handed out, or passed over: cells of the log, in order, as far as keys let them go.

Every decision is a list of records, and changes nothing: the driver writes them and applies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.keys import may_go
from goqueue.core.delivery.lane import LaneState
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.questions import Questions
from goqueue.core.delivery.records import (
    DeadLettering,
    Dropped,
    LeaseGranted,
    Opened,
    Parked,
    Passed,
    RangesLeased,
    Record,
    ViewId,
    pack_cells,
)
from goqueue.core.delivery.runs import is_row
from goqueue.core.delivery.states import MessageState

PARKED_MAX: Final = 20_000  # messages behind locked keys, for each view
LENT_MIN: Final = 4  # messages in a row that are kept as a range, when they are handed out one by one
RUN_LOOK_AHEAD: Final = 100  # messages that a poll looks through for more of the key that it begins with

TOO_OLD: Final = "TTL_EXPIRED"

Cell = tuple[Offset, Offset]


class Grant(msgspec.Struct, frozen=True):
    """To whom a lease goes."""

    owner: str
    nonce: str
    until_ms: Millis


class _Cells:
    """Cells of messages that were looked at: those that may go, and those that are passed over, with their keys."""

    __slots__ = ("free", "passed")

    def __init__(self) -> None:
        self.free: list[Cell] = []
        self.passed: list[tuple[Cell, bytes | None]] = []


class Offers(Questions):
    """Everything about messages that nobody holds."""

    def __init__(self, view: ViewId) -> None:
        super().__init__(view)
        self._unpacked: tuple[LeaseGranted | None, list[Cell]] = (None, [])

    # --- handing out ---------------------------------------------------------------------------------------

    def open_at(self, offset: Offset) -> list[Record]:
        """Everything below counts as done, everything else as new."""
        return [Opened(self.view, offset)]

    def pass_to(self, offset: Offset) -> list[Record]:
        """The group says that it is done with everything below."""
        return [Passed(self.view, offset)]

    def ready_again(self, lane: int, limit: int, nonce: str | None = None) -> list[Offset]:
        """The first messages of the lane that were handed out before, or waited for their key, and may go now.

        What the poll `nonce` was handed already holds up no other from it.
        """
        book = self._state.lanes.get(lane)
        if book is None or not book.ready:
            return []
        found: list[Offset] = []
        while book.ready and len(found) < limit:
            offset = book.pop_ready()
            held = self._state.held.get(offset)
            if held is None or held.state is not MessageState.READY or (found and found[-1] == offset):
                continue
            key = held.key
            if key is not None and not may_go(held, offset, self._state.keys.wall(key, self._state.held, nonce)):
                self._state.keys.park(key, offset, held)
            else:
                found.append(offset)
        for offset in found:
            book.push_ready(offset)
        return found

    def lanes_again(self) -> list[int]:
        """Lanes that may have something for `ready_again`."""
        return [number for number, lane in self._state.lanes.items() if lane.ready]

    def has_ready_again(self, lane: int, nonce: str | None = None) -> bool:
        book = self._state.lanes.get(lane)
        return book is not None and bool(book.ready) and bool(self.ready_again(lane, 1, nonce))

    def free_of_keys(
        self, messages: Sequence[tuple[Offset, bytes | None]], nonce: str
    ) -> Sequence[tuple[Offset, bytes | None]]:
        """Those of new messages whose keys let them go, to the poll `nonce`."""
        walls: dict[bytes, Offset | None] = {}
        locks = self._state.keys.locks
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
            walls[key] = self._state.keys.wall(key, self._state.held, nonce)
        return may_go(self._state.held.get(offset), offset, walls[key])

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
        if keys:
            found = self._unlocked_cells(lane, list(zip(offsets, keys, strict=True)), grant.nonce, wanted)
        else:
            found = self._free_cells(lane, offsets)
        cells, records = found.free, self._passed_over(lane, found)
        if not cells:
            return [], records
        taken = [offset for _, offset in cells]
        by_offset = dict(zip(offsets, keys, strict=True)) if keys else {}
        record = LeaseGranted(
            self.view,
            lane,
            grant.nonce,
            grant.owner,
            now,
            grant.until_ms,
            pack_cells(cells),
            tuple(by_offset[offset] for offset in taken) if keys else (),
        )
        self._unpacked = (record, cells)
        return taken, [*records, record]

    def lend_row(self, lane: int, offsets: Sequence[Offset], grant: Grant, now: Millis) -> list[Record]:
        """Hands out messages in a row that are new to the view, as one range; nothing if they are not, or too few to be
        worth one."""
        if len(offsets) < LENT_MIN or offsets[0] < self._lane(lane).cursor:
            return []
        is_whole = is_row(offsets) and self.can_lend(lane)
        return self.lend(lane, [(offsets[0], offsets[-1])], grant, now) if is_whole else []

    def can_lend(self, lane: int) -> bool:
        """Whether everything from `look_from` on is new to the view, and nothing of before goes first."""
        book = self._lane(lane)
        return max(book.done.end, max(self._state.dead, default=-1) + 1) <= book.cursor

    def lend(self, lane: int, ranges: Iterable[Cell], grant: Grant, now: Millis) -> list[Record]:
        """Hands out ranges of messages that are new to the view, in order, each as one."""
        start = end = self._lane(lane).cursor
        steps: list[int] = []
        for first, last in ranges:
            steps += (first - end, last - first)
            end = last + 1
        return [RangesLeased(self.view, lane, grant.nonce, grant.owner, now, grant.until_ms, start, tuple(steps))]

    def apply(self, record: Record) -> None:
        """The only way that durable state changes. The cells of the lease that was decided last are known."""
        last, cells = self._unpacked
        if record is last:
            self._state.lease(last, cells)
        else:
            super().apply(record)

    def _free_cells(self, lane: int, offsets: Iterable[Offset]) -> _Cells:
        """The cells of those that may be handed out."""
        book, held, found = self._lane(lane), self._state.held, _Cells()
        cursor, is_whole = book.cursor, not len(book.done)
        for offset in offsets:
            if is_whole and offset >= cursor and offset not in held:
                found.free.append((cursor, offset))  # the usual case: new, in order
                cursor = offset + 1
            elif (start := self._free_from(book, offset, cursor)) is not None:
                found.free.append((start, offset))
                cursor = max(cursor, offset + 1)
            else:
                cursor = self._pass_dead(book, offset, cursor, found)
        return found

    def _unlocked_cells(
        self,
        lane: int,
        pairs: Sequence[tuple[Offset, bytes | None]],
        nonce: str,
        wanted: Collection[Offset] | None,
    ) -> _Cells:
        """The same where messages of a key go in order: those behind a key that is with somebody else wait for it."""
        walls: dict[bytes, Offset | None] = {}
        book, held, found, locks = self._lane(lane), self._state.held, _Cells(), self._state.keys.locks
        cursor, is_whole = book.cursor, not len(book.done)
        for offset, key in pairs:
            is_new = is_whole and offset >= cursor and offset not in held  # the usual case
            start = cursor if is_new else self._free_from(book, offset, cursor)
            if start is None:
                cursor = self._pass_dead(book, offset, cursor, found)
                continue
            is_free = key is None or key not in locks or self._key_lets_go(offset, key, nonce, walls)
            if is_free and (wanted is None or offset in wanted):
                found.free.append((start, offset))
            elif offset not in held:
                found.passed.append(((start, offset), key))
            cursor = max(cursor, offset + 1)
        return found

    def _free_from(self, book: LaneState, offset: Offset, cursor: Offset) -> Offset | None:
        """The start of the message's cell if it may be handed out; the cell before ends at the cursor."""
        held = self._state.held.get(offset)
        if held is None:
            return None if offset < cursor or book.is_done(offset) else book.done.end_of(cursor)
        if held.state is not MessageState.READY:
            return None
        return held.start if offset < cursor else min(held.start, book.done.end_of(cursor))

    def _pass_dead(self, book: LaneState, offset: Offset, cursor: Offset, found: _Cells) -> Offset:
        """The dead of a view that was opened again below them are passed over; the end of the cell."""
        if offset < cursor or offset not in self._state.held:
            return cursor
        found.passed.append(((book.done.end_of(cursor), offset), None))
        return offset + 1

    def _passed_over(self, lane: int, found: _Cells) -> list[Record]:
        if not found.passed:
            return []
        steps = pack_cells(cell for cell, _ in found.passed)
        return [Parked(self.view, lane, steps, tuple(key for _, key in found.passed))]

    def _lane(self, number: int) -> LaneState:
        return self._state.lanes.get(number) or LaneState(number, self._state.base)

    def drop(self, lane: int, offsets: Iterable[Offset]) -> list[Record]:
        """These are not handed out: their time passed, or the log no longer has them."""
        found = self._free_cells(lane, offsets)
        records = self._passed_over(lane, found)
        return [*records, Dropped(self.view, lane, pack_cells(found.free))] if found.free else records

    def dead_letter_unread(self, lane: int, offsets: Iterable[Offset], policy: Policy, now: Millis) -> list[Record]:
        """Their time passed, and they go to the dead letters."""
        if policy.dead_letter_target is None:
            return self.drop(lane, offsets)
        found = self._free_cells(lane, offsets)
        records = self._passed_over(lane, found)
        if not found.free:
            return records
        return [
            *records,
            DeadLettering(self.view, lane, pack_cells(found.free), TOO_OLD, "", now, False, policy.dead_letter_target),
        ]

    def cut_to(self, end: Offset) -> list[Record]:
        """The log lost its end: other messages will stand where those were that the view knows of."""
        book = self._state
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
                lent=tuple(
                    msgspec.structs.replace(one, last=min(one.last, end - 1)) for one in row.lent if one.first < end
                ),
            )
            for row in whole.lanes
        )
        return [msgspec.structs.replace(whole, base=min(whole.base, end), lanes=lanes)]
