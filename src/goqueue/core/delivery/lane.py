"""One lane of a view: how far it was handed out, and what is done of that.

Each message looked at owns a cell, from the end of the cell before it to itself. Cells tile the log, so that gaps
(compaction, markers, other lanes) cost nothing and done neighbours become one range.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.policy import DeadLetterTarget
from goqueue.core.delivery.ranges import RangeSet
from goqueue.core.delivery.records import HeldRow
from goqueue.core.delivery.states import MessageState


class Lease:
    """What one poll was handed of one lane, at `since_ms`. Messages leave it one by one, or a part of a range."""

    __slots__ = ("lent", "nonce", "offsets", "owner", "since_ms", "until_ms")

    def __init__(self, nonce: str, owner: str, until_ms: Millis, since_ms: Millis) -> None:
        self.nonce = nonce
        self.owner = owner
        self.until_ms = until_ms
        self.since_ms = since_ms
        self.offsets: set[Offset] = set()
        self.lent = 0  # how many more are in ranges

    @property
    def is_live(self) -> bool:
        """Whether somebody still holds something of it."""
        return bool(self.offsets or self.lent)


class TrackedMessage(msgspec.Struct, gc=False):
    """One message that was looked at and is not done. `earlier` are the nonces of its last leases that are over."""

    lane: int
    start: Offset
    key: bytes | None = None
    state: MessageState = MessageState.READY
    handed: int = 0
    failed: int = 0
    first_ms: Millis = 0
    due_ms: Millis = 0
    lease: Lease | None = None
    reason: str = ""
    text: str = ""
    dead_letter_target: DeadLetterTarget | None = None
    earlier: tuple[str, ...] = ()
    is_parked: bool = False  # behind its key


class LaneState:
    """Everything below `floor` is done; nothing at or above `cursor` was looked at."""

    __slots__ = (
        "cursor",
        "done",
        "finished",
        "floor",
        "handed",
        "held",
        "number",
        "ready",
        "served_ms",
    )

    def __init__(self, number: int, floor: Offset) -> None:
        self.number = number
        self.floor = floor
        self.cursor = floor
        self.done = RangeSet()
        self.held = 0
        self.ready: list[Offset] = []  # a heap, derived; what is no longer ready is passed over
        self.handed = 0
        self.finished = 0
        self.served_ms: Millis | None = None

    def scan_from(self) -> Offset:
        """Where the next cell begins."""
        return self.done.end_of(self.cursor)

    @property
    def is_clear(self) -> bool:
        return self.floor == self.cursor and not self.held and not len(self.done)

    def finish(self, cells: Iterable[tuple[Offset, Offset]]) -> None:
        """The cells are done; neighbours in a row are joined first."""
        first = end = -1
        for start, offset in cells:
            if start != end:
                self._finish_run(first, end)
                first = start
            end = offset + 1
            self.finished += 1
        self._finish_run(first, end)

    def finish_range(self, start: Offset, first: Offset, last: Offset) -> None:
        """Messages in a row are done; the cell of the first begins at `start`."""
        self.finished += last - first + 1
        self._finish_run(start, last + 1)

    def _finish_run(self, start: Offset, end: Offset) -> None:
        if start > self.floor:
            self.done.add(start, end)
        elif end > self.floor:
            self.floor = end
            if len(self.done):
                self.floor = self.done.end_of(end)
                self.done.cut_below(self.floor)
            self.cursor = max(self.cursor, self.floor)

    def pass_to(self, offset: Offset) -> None:
        """Everything below is done."""
        if offset > self.floor:
            self.floor = self.done.end_of(offset)
            self.done.cut_below(self.floor)
            self.cursor = max(self.cursor, self.floor)

    def is_done(self, offset: Offset) -> bool:
        return offset < self.floor or offset in self.done

    def push_ready(self, offset: Offset) -> None:
        heappush(self.ready, offset)

    def pop_ready(self) -> Offset:
        return heappop(self.ready)


def row_of(offset: Offset, held: TrackedMessage) -> HeldRow:
    """How a snapshot keeps it."""
    lease = held.lease
    until_ms = held.due_ms if lease is None else lease.until_ms
    return HeldRow(
        held.start,
        offset,
        held.state,
        held.handed,
        held.failed,
        held.first_ms,
        until_ms,
        lease.owner if lease else "",
        lease.nonce if lease else "",
        held.key,
        held.reason,
        held.text,
        held.dead_letter_target,
        held.earlier,
        lease.since_ms if lease else 0,
    )
