"""Decides what of a view may be handed out, or passed over: cells of the log, in order, as far as keys let them go.

Every decision is a list of records; they are applied at once, and the driver makes them durable before it answers.
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
    Record,
    pack_cells,
)
from goqueue.core.delivery.states import MessageState

PARKED_MAX: Final = 20_000  # messages behind locked keys, for each view
RUN_LOOK_AHEAD: Final = 100  # messages that a poll looks through for more of the key that it begins with

TOO_OLD: Final = "TTL_EXPIRED"

Cell = tuple[Offset, Offset]


class Grant(msgspec.Struct, frozen=True):
    """To whom a lease goes."""

    owner: str
    nonce: str
    until_ms: Millis


class Offers(Questions):
    """Everything about messages that nobody holds."""

    def _write(self, records: list[Record]) -> list[Record]:
        for record in records:
            self._state.apply(record)
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
        book = self._state.lane(lane)
        parked: list[Record] = []
        if keys:
            cells, parked = self._unlocked_cells(book, list(zip(offsets, keys, strict=True)), grant.nonce, wanted)
        else:
            cells = self._free_cells(book, offsets)
        if not cells:
            return [], parked
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
        self._state.lease(record, cells)
        return taken, [*parked, record]

    def _free_cells(self, book: LaneState, offsets: Iterable[Offset]) -> list[Cell]:
        """The cells of those that may be handed out."""
        held = self._state.held
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
        book: LaneState,
        pairs: Sequence[tuple[Offset, bytes | None]],
        nonce: str,
        wanted: Collection[Offset] | None,
    ) -> tuple[list[Cell], list[Record]]:
        """The same where messages of a key go in order: those behind a key that is with somebody else wait for it."""
        walls: dict[bytes, Offset | None] = {}
        locks, held, is_whole = self._state.keys.locks, self._state.held, not len(book.done)
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

    def _free_from(self, book: LaneState, offset: Offset) -> Offset | None:
        """The start of the message's cell if it may be handed out."""
        held = self._state.held.get(offset)
        if held is not None:
            if offset >= book.cursor:
                held.start = min(held.start, book.scan_from())  # the dead of a view that was opened again below them
                book.cursor = max(book.cursor, offset + 1)
            return held.start if held.state is MessageState.READY else None
        if offset < book.cursor or book.is_done(offset):
            return None
        return book.scan_from()

    def drop(self, lane: int, offsets: Iterable[Offset]) -> list[Record]:
        """These are not handed out: their time passed, or the log no longer has them."""
        cells = self._free_cells(self._state.lane(lane), offsets)
        return self._write([Dropped(self.view, lane, pack_cells(cells))]) if cells else []

    def dead_letter_unread(self, lane: int, offsets: Iterable[Offset], policy: Policy, now: Millis) -> list[Record]:
        """Their time passed, and they go to the dead letters."""
        if policy.dead_letter_target is None:
            return self.drop(lane, offsets)
        cells = self._free_cells(self._state.lane(lane), offsets)
        if not cells:
            return []
        record = DeadLettering(self.view, lane, pack_cells(cells), TOO_OLD, "", now, False, policy.dead_letter_target)
        return self._write([record])

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
            )
            for row in whole.lanes
        )
        return self._write([msgspec.structs.replace(whole, base=min(whole.base, end), lanes=lanes)])
