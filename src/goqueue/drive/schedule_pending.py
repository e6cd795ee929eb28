"""The pending entries: all of them in the index, the near ones also in memory, with a timer each.

Near is what is due within the next minutes, and at most so many. Everything below the horizon has its timer; what lies
beyond is loaded from the index before its time comes.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.errors import Overloaded
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import MIB, NEAR_ENTRIES_MAX
from goqueue.core.schedule.records import EntryEnded, ScheduleEntry, ScheduleRecord
from goqueue.core.wheel import Wheel
from goqueue.drive.offload import Offload
from goqueue.drive.schedule_index import Due, ScheduleIndex

logger = logging.getLogger(__name__)

WINDOW_MS: Final = 300_000
LEAD_MS: Final = 2_000  # payloads are fetched so long before they are needed
_HELD_BYTES_MAX: Final = 64 * MIB
_UNWRITTEN_MAX: Final = 200_000
_UNWRITTEN_HIGH: Final = 20_000
_SOON_MS: Final = 10_000

T = TypeVar("T")


class Pending:
    """Changed on the loop. The lock keeps those apart who look into the index and act on what they saw."""

    def __init__(self, index: ScheduleIndex, offload: Offload, clock: Clock) -> None:
        self.index = index
        self.wheel: Wheel[Offset] = Wheel()
        self.near: dict[Offset, Due] = {}
        self.counts: dict[str, int] = {}  # by topic id
        self.lock = asyncio.Lock()
        self.refused: set[Offset] = set()  # in the log, but never to be delivered
        self.catch_up: Callable[[], None] = lambda: None  # opens the index and brings it up to its log; blocks
        self._offload = offload
        self._clock = clock
        self._horizon: Millis = 0
        self._payloads: dict[Offset, ScheduleEntry] = {}
        self._held_bytes = 0
        self._unwritten: list[tuple[Offset, ScheduleRecord]] = []
        self._noted_to: Offset = 0
        self._left_while_loading: set[Offset] | None = None

    # --- changes -------------------------------------------------------------------------------------------

    def note(self, offset: Offset, record: ScheduleRecord) -> None:
        """A record is in the log; the index learns of it a little later."""
        if isinstance(record, ScheduleEntry):
            record = msgspec.structs.replace(record, key=None, value=None, headers=())
        self._unwritten.append((offset, record))
        self._noted_to = offset + 1

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def counted(self, topic_id: str, by: int) -> None:
        """So many more entries of a topic are pending, or fewer."""
        left = self.counts.get(topic_id, 0) + by
        if left > 0:
            self.counts[topic_id] = left
        else:
            self.counts.pop(topic_id, None)

    def check_room(self) -> None:
        """`Overloaded` while the index cannot keep up."""
        if len(self._unwritten) >= _UNWRITTEN_MAX:
            raise Overloaded("The schedule cannot keep up; try again in a moment.")

    @property
    def is_behind(self) -> bool:
        return len(self._unwritten) >= _UNWRITTEN_HIGH

    def accept(self, offset: Offset, entry: ScheduleEntry) -> None:
        """A new entry, noted already."""
        self.counted(entry.topic_id, 1)
        due = Due(offset, entry.due_ms, entry.topic_id, entry.partition)
        if self.place(due) and entry.due_ms - self._clock.now_ms() <= LEAD_MS:
            self.hold(offset, entry)

    def place(self, due: Due) -> bool:
        """Sets its timer if it is near."""
        if due.due_ms >= self._horizon:
            return False
        now = self._clock.now_ms()
        if len(self.near) >= NEAR_ENTRIES_MAX and due.due_ms > now + _SOON_MS:
            self._horizon = due.due_ms  # it and all behind it that have no timer are loaded before that
            return False
        self._set_timer(due, now)
        return True

    def _forget(self, offset: Offset) -> Due | None:
        self.wheel.cancel(offset)
        if (held := self._payloads.pop(offset, None)) is not None:
            self._held_bytes -= held.size
        return self.near.pop(offset, None)

    def _set_timer(self, due: Due, now: Millis) -> None:
        self.near[due.offset] = due
        due.is_ahead = due.due_ms - now > LEAD_MS
        self.wheel.add(due.offset, due.due_ms - LEAD_MS if due.is_ahead else due.due_ms)

    def set_timers(self) -> None:
        """Of all that are near, by the time it is now."""
        now = self._clock.now_ms()
        for due in self.near.values():
            if due.offset in self.wheel:
                self._set_timer(due, now)

    def correct(self, due: Due, entry: ScheduleEntry) -> None:
        """What its log says of an entry that is due; one whose time has not come gets its timer back."""
        due.topic_id, due.partition = entry.topic_id, entry.partition
        if entry.repeat is None:
            due.due_ms = entry.due_ms
        if due.due_ms > self._clock.now_ms():
            self._set_timer(due, self._clock.now_ms())

    def leave(self, offset: Offset) -> Due | None:
        """It is no longer pending, or not at that time."""
        if self._left_while_loading is not None:
            self._left_while_loading.add(offset)
        return self._forget(offset)

    # --- payloads ------------------------------------------------------------------------------------------

    def hold(self, offset: Offset, entry: ScheduleEntry) -> bool:
        """Keeps a payload until it is used; False if there is no room."""
        if offset not in self.near or offset in self._payloads:
            return True
        if self._held_bytes + entry.size > _HELD_BYTES_MAX:
            return False
        self._payloads[offset] = entry
        self._held_bytes += entry.size
        return True

    def held(self, offset: Offset) -> ScheduleEntry | None:
        return self._payloads.get(offset)

    # --- the index -----------------------------------------------------------------------------------------

    async def flush(self) -> None:
        async with self.lock:
            await self.flush_locked()

    async def flush_locked(self) -> None:
        """The index knows everything that was noted so far. Call it with the lock."""
        records, self._unwritten = self._unwritten, []
        if not records and self.index.is_open:
            return
        applied = self._noted_to
        try:
            await self.ask(lambda: self._write(records, applied))
        except BaseException:
            self._unwritten = records + self._unwritten
            raise

    def _write(self, records: Sequence[tuple[Offset, ScheduleRecord]], applied: Offset) -> None:
        """After a failure the index learns from the log itself, which has all that was noted."""
        if self.index.is_open:
            self.index.apply(records, applied)
        else:
            self.catch_up()

    async def ask(self, question: Callable[[], T]) -> T:
        """Lets the index work, off the loop. Call it with the lock. `Overloaded` if it fails; a flush reopens it."""
        try:
            return await self._offload(question)
        except sqlite3.Error as error:
            self.index.close()
            logger.error("the schedule's index failed", extra={"error": str(error)})
            raise Overloaded("The schedule's index cannot be used; check the disk and try again.") from error

    async def doubt(self) -> None:
        """The index said what the log does not: it is made anew."""
        async with self.lock:
            await self._offload(self.index.discard)
            await self.flush_locked()

    def load_at(self) -> Millis:
        """When the next window is wanted: half a window ahead; if many are near, only just in time."""
        if len(self.near) > NEAR_ENTRIES_MAX // 2:
            return self._horizon - _SOON_MS
        return self._horizon - WINDOW_MS // 2

    async def load(self) -> None:
        """Sets the timers of the next window."""
        async with self.lock:
            await self.flush_locked()
            room = max(NEAR_ENTRIES_MAX - len(self.near), NEAR_ENTRIES_MAX // 2)
            start, end = self._horizon, self._clock.now_ms() + WINDOW_MS
            if end <= start:
                return
            self._horizon = end
            self._left_while_loading = set()
            try:
                found = await self.ask(lambda: self.index.window(start, end, room))
            except Overloaded:
                self._horizon = min(self._horizon, start)
                raise
            finally:
                left, self._left_while_loading = self._left_while_loading, None
            if len(found) >= room:
                self._horizon = min(self._horizon, found[-1].due_ms + 1)
            self._take_in(found, left)

    def _take_in(self, found: Sequence[Due], left: set[Offset]) -> None:
        now = self._clock.now_ms()
        for due in found:
            if due.offset not in self.near and due.offset not in left and due.offset not in self.refused:
                self._set_timer(due, now)

    async def find(self, offset: Offset) -> Due | EntryEnded | None:
        """Call it with the lock, and act before it is released."""
        await self.flush_locked()
        near = self.near.get(offset)
        return near if near is not None else await self.ask(lambda: self.index.find(offset))
