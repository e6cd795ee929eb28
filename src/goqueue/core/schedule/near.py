"""The near entries: those due within the next minutes, at most so many, with a timer each and some with their payload.

Everything below the horizon has its timer; what lies beyond is loaded from the index before its time comes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import NEAR_ENTRIES_MAX, NEAR_PAYLOAD_BYTES_MAX
from goqueue.core.schedule.due import Due
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.wheel import Wheel

WINDOW_MS: Final = 300_000
LEAD_MS: Final = 2_000  # payloads are fetched so long before they are needed
RETRY_MS: Final = 1_000
_SOON_MS: Final = 10_000


class DueWindow(msgspec.Struct, frozen=True):
    """A stretch of time whose entries are to be loaded from the index, and at most how many."""

    start: Millis
    end: Millis
    limit: int


class NearEntries:
    """A cache: what it holds follows from the log and the index. The schedules of a node share its memory evenly."""

    def __init__(self, schedules: int = 1) -> None:
        self._entries_max = NEAR_ENTRIES_MAX // schedules
        self._payload_bytes_max = NEAR_PAYLOAD_BYTES_MAX // schedules
        self._dues: dict[Offset, Due] = {}
        self._wheel: Wheel[Offset] = Wheel()
        self._horizon: Millis = 0
        self._payloads: dict[Offset, ScheduleEntry] = {}
        self._payload_bytes = 0
        self._loading: DueWindow | None = None
        self._load_after: Millis = 0  # the index could not be asked before
        self._left_while_loading: set[Offset] = set()

    def __len__(self) -> int:
        return len(self._dues)

    def get(self, offset: Offset) -> Due | None:
        return self._dues.get(offset)

    # --- timers --------------------------------------------------------------------------------------------

    def place(self, due: Due, now: Millis) -> bool:
        """Sets its timer if it is near."""
        if due.due_ms >= self._horizon:
            return False
        if len(self._dues) >= self._entries_max and due.due_ms > now + _SOON_MS:
            self._horizon = due.due_ms  # it and all behind it that have no timer are loaded before that
            return False
        self._set_timer(due, now)
        return True

    def _set_timer(self, due: Due, now: Millis) -> None:
        self._dues[due.offset] = due
        due.is_ahead = due.due_ms - now > LEAD_MS
        self._wheel.add(due.offset, due.due_ms - LEAD_MS if due.is_ahead else due.due_ms)

    def accept(self, offset: Offset, entry: ScheduleEntry, now: Millis) -> None:
        """A new entry; its payload is kept if it is due soon."""
        if entry.due_ms >= self._horizon:
            return
        due = Due(offset, entry.due_ms, entry.topic_id, entry.partition)
        if self.place(due, now) and not due.is_ahead:
            self.hold(offset, entry)

    def leave(self, offset: Offset) -> Due | None:
        """It is no longer pending, or not at that time."""
        if self._loading is not None:
            self._left_while_loading.add(offset)
        self._wheel.cancel(offset)
        if (held := self._payloads.pop(offset, None)) is not None:
            self._payload_bytes -= held.size
        return self._dues.pop(offset, None)

    def retry(self, offsets: Iterable[Offset], now: Millis) -> None:
        """Those that could not go now are due again in a second."""
        for offset in offsets:
            if offset in self._dues and offset not in self._wheel:
                self._wheel.add(offset, now + RETRY_MS)

    def correct(self, due: Due, entry: ScheduleEntry, now: Millis) -> None:
        """The index was wrong: the log says when and where."""
        due.topic_id, due.partition = entry.topic_id, entry.partition
        if entry.repeat is None:
            due.due_ms = entry.due_ms
        self._set_timer(due, now)

    def advance(self, now: Millis) -> tuple[list[Due], list[Offset]]:
        """Who is due, and whose payload is wanted soon; the latter get their timers for the time itself."""
        due: list[Due] = []
        ahead: list[Offset] = []
        for offset in self._wheel.advance(now):
            one = self._dues[offset]
            if one.is_ahead and one.due_ms > now:
                one.is_ahead = False
                self._wheel.add(offset, one.due_ms)
                ahead.append(offset)
            else:
                due.append(one)
        return due, ahead

    def set_timers(self, now: Millis) -> None:
        """All of them, by the time it is now."""
        self._load_after = 0
        for due in self._dues.values():
            if due.offset in self._wheel:
                self._set_timer(due, now)

    def next_deadline(self) -> Millis | None:
        """Of the timers and of the next window."""
        timer = self._wheel.next_deadline()
        if self._loading is not None:
            return timer
        return self._load_at() if timer is None else min(timer, self._load_at())

    # --- payloads ------------------------------------------------------------------------------------------

    def hold(self, offset: Offset, entry: ScheduleEntry) -> None:
        """Keeps a payload until it is used, if there is room."""
        is_wanted = offset in self._dues and offset not in self._payloads
        if is_wanted and self._payload_bytes + entry.size <= self._payload_bytes_max:
            self._payloads[offset] = entry
            self._payload_bytes += entry.size

    def held(self, offset: Offset) -> ScheduleEntry | None:
        return self._payloads.get(offset)

    # --- windows -------------------------------------------------------------------------------------------

    def _load_at(self) -> Millis:
        """When the next window is wanted: half a window ahead; if many are near, only just in time."""
        is_crowded = len(self._dues) > self._entries_max // 2
        return max(self._load_after, self._horizon - (_SOON_MS if is_crowded else WINDOW_MS // 2))

    def begin_window(self, now: Millis) -> DueWindow | None:
        """The stretch to load now, if one is wanted and none is being loaded."""
        if self._loading is not None or now < self._load_at():
            return None
        room = max(self._entries_max - len(self._dues), self._entries_max // 2)
        self._loading = DueWindow(self._horizon, now + WINDOW_MS, room)
        self._horizon = self._loading.end
        self._left_while_loading = set()
        return self._loading

    def end_window(self, found: list[Due] | None, hidden: Container[Offset], now: Millis) -> None:
        """What the index said of the stretch; None if it could not say anything: it is asked again."""
        window = self._loading
        assert window is not None, "begin first"
        self._loading = None
        if found is None:
            self._horizon = min(self._horizon, window.start)
            self._load_after = now + RETRY_MS
            return
        if len(found) >= window.limit:
            self._horizon = min(self._horizon, found[-1].due_ms + 1)
        for due in found:
            is_gone = due.offset in self._left_while_loading or due.offset in hidden
            if due.offset not in self._dues and not is_gone:
                self._set_timer(due, now)
