"""Runs the schedule: one timer for all entries. It fires who is due, fetches payloads ahead, keeps the index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.base.settings import Fsync
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_entries import Entries
from goqueue.drive.schedule_firing import RETRY_MS, Deliver, Member
from goqueue.drive.schedule_index import Due, ScheduleIndex
from goqueue.drive.schedule_log import ScheduleLog
from goqueue.drive.schedule_recovery import catch_up
from goqueue.drive.schedule_resume import discard_unconfirmed, find_duplicates, resume_firings
from goqueue.drive.topic_table import TopicTable

logger = logging.getLogger(__name__)

_CHUNK: Final = 500
_AHEAD_CHUNK: Final = 200
_GATHER_S: Final = 0.5
_PAUSE_MS_MAX: Final = 60_000
_INDEX_S: Final = 0.2


class ScheduleRunner:
    """Made empty; `start` gives it its log. Doors and verbs talk to its `entries`."""

    def __init__(
        self,
        index: ScheduleIndex,
        table: TopicTable,
        deliver: Deliver,
        clock: SteadyClock,
        offload: Offload,
        fsync: Fsync,
    ) -> None:
        self.entries = Entries(index, table, deliver, clock, offload, fsync)
        self.entries.on_due = self._earlier
        self._pending, self._firings = self.entries.pending, self.entries.firings
        self._index = index
        self._table = table
        self._clock = clock
        self._offload = offload
        self._fsync = fsync
        self._wake = asyncio.Event()
        self._planned: Millis = 0  # when the loop looks again
        self._ahead: asyncio.Queue[list[Due]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None

    # --- start and stop ------------------------------------------------------------------------------------

    async def start(self, partition: Partition) -> None:
        """Finishes what the last run left, then fires what is due."""
        topic = self._table.get(partition.at.topic)
        assert topic is not None
        log = ScheduleLog(partition, self._clock)
        log_id = topic.record.id
        self._pending.catch_up = lambda: catch_up(self._index, log, log_id)
        await self._pending.flush()
        self._pending.counts = await self._offload(self._index.pending_counts)
        self.entries.begin(log)
        await discard_unconfirmed(self.entries, self._offload)
        now = self._clock.now_ms()
        await resume_firings(self.entries, self._table, now, self._offload)
        if self._fsync != "always":
            await find_duplicates(self.entries, now, self._offload)
        await self._pending.load()
        for work in (self._run(), self._firings.wait_durable_for_ever(), self._keep_index(), self._fetch_ahead()):
            self._spawn(work)
        self._spawn(self.entries.sweep())

    async def stop(self) -> None:
        """What is pending stays on disk."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            try:
                await self._pending.flush()
            except GoQueueError:
                logger.warning("the schedule's index is behind; the next start reads more of the log")
        await self._offload(self._index.close)

    def topic_deleted(self) -> None:
        """Its entries go with it."""
        if self._tasks:
            self._spawn(self.entries.sweep())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("the schedule stopped", exc_info=error)

    # --- the timer -----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        retry_at = 0
        while True:
            now = self._clock.agreed_ms()  # while the wall clock is behind, nothing comes too early by it
            due = self._due(now)
            try:
                await self._fire(due)
            except Exception:
                logger.exception("firing failed; it is tried again")
                self._firings.put_back(due, now)
            if self._firings.has_stuck and self._clock.monotonic_ms() >= retry_at:
                self._firings.retry_stuck()
                retry_at = self._clock.monotonic_ms() + RETRY_MS
            if self._clock.now_ms() >= self._pending.load_at() and (self._loading is None or self._loading.done()):
                self._loading = self._spawn(self._load())
            await self._pause()

    async def _load(self) -> None:
        try:
            await self._pending.load()
        except GoQueueError:
            await asyncio.sleep(RETRY_MS / 1000)  # the index cannot be written; near entries go on meanwhile
        self._wake.set()

    def _due(self, now: Millis) -> list[Due]:
        """Who is due now; who is due soon gets the payload fetched and the timer set to its time."""
        due: list[Due] = []
        ahead: list[Due] = []
        for token in self._pending.wheel.advance(now):
            one = self._pending.near[token]
            if one.is_ahead and one.due_ms > now:
                one.is_ahead = False
                self._pending.wheel.add(token, one.due_ms)
                ahead.append(one)
            else:
                due.append(one)
        if ahead:
            self._ahead.put_nowait(ahead)
        return due

    async def _fire(self, due: list[Due]) -> None:
        """In stretches, so that others get their turn and memory stays bounded."""
        while due:
            members = await self._members(due[:_CHUNK])
            due = due[max(1, len(members)) :]
            members = await self._believe_the_log(members)
            near = self._pending.near
            self._drop([one for one, entry in members if entry is None and one.offset in near])
            ready: list[Member] = [(one, entry) for one, entry in members if entry is not None and one.offset in near]
            if ready:
                await self._firings.fire(ready)
                self.entries.changed.set()
            if due:
                await asyncio.sleep(0)

    async def _believe_the_log(
        self, members: list[tuple[Due, ScheduleEntry | None]]
    ) -> list[tuple[Due, ScheduleEntry | None]]:
        """Where the index says of an entry what the log does not, the log is right, and the index is made anew."""
        wrong = [(due, entry) for due, entry in members if entry is not None and _differs(due, entry)]
        if not wrong:
            return members
        logger.error("the schedule's index differs from its log; it is made anew", extra={"count": len(wrong)})
        for due, entry in wrong:
            self._pending.correct(due, entry)
        await self._pending.doubt()
        self._pending.counts = await self._offload(self._index.pending_counts)
        return [member for member in members if member[0].offset not in self._pending.wheel]

    def _drop(self, unreadable: list[Due]) -> None:
        if unreadable:
            logger.error("scheduled messages cannot be read and are dropped", extra={"count": len(unreadable)})
            try:
                self.entries.end(unreadable, "expired")
            except GoQueueError:
                self._firings.put_back(unreadable, self._clock.now_ms())

    async def _members(self, dues: Sequence[Due]) -> list[tuple[Due, ScheduleEntry | None]]:
        """The dues with their payloads, as many as fit."""
        wanted = [due.offset for due in dues if self._pending.held(due.offset) is None]
        read: dict[Offset, ScheduleEntry | None] = {}
        if wanted:
            read = await self.entries.payloads(wanted)
        members: list[tuple[Due, ScheduleEntry | None]] = []
        for due in dues:
            entry = self._pending.held(due.offset)
            if entry is None and due.offset not in read:
                break
            members.append((due, entry if entry is not None else read[due.offset]))
        return members

    async def _fetch_ahead(self) -> None:
        """Reads what is due soon, in the order of the log: neighbours there are read together."""
        while True:
            dues = await self._ahead.get()
            await asyncio.sleep(_GATHER_S)
            while not self._ahead.empty():
                dues += self._ahead.get_nowait()
            offsets = sorted(due.offset for due in dues if due.offset in self._pending.near)
            for at in range(0, len(offsets), _AHEAD_CHUNK):
                for offset, entry in (await self.entries.payloads(offsets[at : at + _AHEAD_CHUNK])).items():
                    if entry is not None:
                        self._pending.hold(offset, entry)

    async def _pause(self) -> None:
        """Until the next timer, the next window, or a new entry that is due before."""
        now = self._clock.now_ms()
        is_unsure = self._firings.has_stuck or self._clock.agreed_ms() + RETRY_MS < now
        times = [now + (RETRY_MS if is_unsure else _PAUSE_MS_MAX), self._pending.wheel.next_deadline()]
        if self._loading is None or self._loading.done():  # one that is under way wakes the loop itself
            times.append(self._pending.load_at())
        self._planned = min(one for one in times if one is not None)
        pause_s = max(self._least_pause_s(now), (self._planned - now) / 1000)
        timer = asyncio.get_running_loop().call_later(pause_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    def _least_pause_s(self, now: Millis) -> float:
        """What is due by one clock only is due when the other agrees."""
        return min(RETRY_MS, max(0, now - self._clock.agreed_ms())) / 1000

    def look_again(self) -> None:
        """Wakes the loop if its time has come."""
        if self._tasks and self._planned <= self._clock.now_ms():
            self._wake.set()

    def clock_moved(self, by_ms: Millis) -> None:
        """Messages come when the clock says so; only what is tried again in a second moves with it."""
        self._pending.set_timers()
        self._wake.set()

    def _earlier(self, due_ms: Millis) -> None:
        if due_ms < self._planned:
            self._wake.set()

    async def _keep_index(self) -> None:
        while True:
            await self.entries.changed.wait()
            self.entries.changed.clear()
            await asyncio.sleep(_INDEX_S)
            try:
                self.entries.take_back()
                await self._pending.flush()
                await self.entries.note_what_came()
                is_done = not self._pending.refused
            except GoQueueError:
                is_done = False
            if not is_done:
                await asyncio.sleep(RETRY_MS / 1000)
                self.entries.changed.set()


def _differs(due: Due, entry: ScheduleEntry) -> bool:
    is_moved = due.due_ms != entry.due_ms and entry.repeat is None
    return is_moved or (due.topic_id, due.partition) != (entry.topic_id, entry.partition)
