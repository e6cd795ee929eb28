"""The schedule as verbs see it: entries are taken in, looked up and ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.due import BEFORE_ALL, Due, DueKey, Member
from goqueue.core.schedule.machine import ScheduleMachine
from goqueue.core.schedule.records import EntryEnded, ScheduleEntry, ScheduleRecord, State
from goqueue.drive.host import Host
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_log import entry_batches, sync_now
from goqueue.drive.schedule_store import READ_BYTES, ScheduleStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

ScheduleHost: TypeAlias = Host[ScheduleMachine, ScheduleRecord]

_SWEEP: Final = 1_000


class ScheduleEvents:
    """Hears what becomes of delayed messages. Made to be subclassed; everything is optional."""

    def taken(self, offsets: Sequence[Offset], entries: Sequence[ScheduleEntry]) -> None:
        """These wait now."""

    def delivered(self, members: Sequence[Member], end_offset: Offset, late_ms: Sequence[Millis]) -> None:
        """These entered their log, in one batch that ends there, so long after their times."""

    def expired(self, members: Sequence[Member]) -> None:
        """The time to live of these was over before they could be delivered."""


class Schedule:
    """Refuses everything until its host has loaded."""

    def __init__(self, host: ScheduleHost, store: ScheduleStore, events: ScheduleEvents, clock: Clock) -> None:
        self._host = host
        self._store = store
        self._events = events
        self._clock = clock

    @property
    def partition(self) -> Partition:
        return self._store.partition

    @property
    def number(self) -> int:
        """Which of the node's schedules it is: the number of its partition and of its shard."""
        return self._store.number

    # --- take in -------------------------------------------------------------------------------------------

    def accept(self, entries: Sequence[ScheduleEntry]) -> list[Offset | GoQueueError]:
        """Stores entries; not durable before the partition is. One result each, in order."""
        results: list[Offset | GoQueueError] = []
        for batch in entry_batches(entries):
            try:
                offsets = self._append(batch)
                self._events.taken(offsets, batch)
                results += offsets
            except GoQueueError as error:
                results += [error] * len(batch)
        return results

    def _append(self, entries: list[ScheduleEntry]) -> range:
        first = self._host.write(self._host.machine.accept(entries, self._clock.now_ms()).records)
        return range(first, first + len(entries))

    def accept_with(self, entries: Sequence[ScheduleEntry], target: Partition, write: Callable[[], T]) -> T:
        """Stores entries that count only together with a write to their target log, which follows at once.

        Where the node waits for its disk it does so here, on the loop: the next batch of the same producer may be right
        behind, and must find this one in the log.
        """
        offsets: list[Offset] = []
        try:
            for batch in entry_batches(entries):
                offsets += self._append(batch)
            if self._store.fsync == "always":
                sync_now(self.partition)
            written = write()
        except GoQueueError:
            self._host.tell(lambda machine, now: machine.discard(offsets, entries[: len(offsets)], now))
            raise
        self._events.taken(offsets, entries)
        come_with = [offset for offset, entry in zip(offsets, entries, strict=True) if entry.origin]
        self._store.watch(come_with, target, target.end_offset)
        return written

    async def marks(self, start: Offset) -> set[str]:
        """What entries in the log from there on are marked with."""
        return await self._store.marks(start)

    async def marked(self, since_ms: Millis) -> dict[str, tuple[Offset, Millis]]:
        """Entries with a mark that were taken in since then, durably: where they stand, and when they are due."""
        await self._host.wait_durable()
        first = await self.partition.offset_at_time(since_ms)
        return {} if first is None else await self._store.marked(first[0])

    async def keep_up(self) -> None:
        """Holds who publishes back while the index is far behind."""
        if self._host.is_loaded and self._host.machine.is_behind:
            await self._store.flush()

    # --- end -----------------------------------------------------------------------------------------------

    async def cancel(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        """The entry that is cancelled now; or what became of it before; None if it is unknown."""
        async with self._store.lock:
            found = await self._find_locked(topic_id, partition, offset)
            if not isinstance(found, Due):
                return found
            self.end([found], "cancelled")
        await self._host.wait_durable()
        return found

    async def cancel_all(self, topic_id: str) -> int:
        """All of a topic's entries; how many that were."""
        count = 0
        while some := await self._cancel_some(topic_id):
            count += some
        await self._host.wait_durable()
        return count

    def end(self, dues: Sequence[Due], state: State) -> None:
        """Of entries that are pending. Not durable before the partition is."""
        self._host.commit(self._host.machine.end(dues, state, self._clock.now_ms()))

    async def sweep(self, is_there: Callable[[str], bool]) -> None:
        """The entries of topics that are gone go too."""
        try:
            for topic_id in await self._store.look(self._store.index.topic_ids):
                if not is_there(topic_id):
                    while await self._cancel_some(topic_id):
                        pass
        except GoQueueError as error:
            logger.error("a deleted topic's delayed messages wait for the next start", extra={"error": error.message})

    async def _cancel_some(self, topic_id: str) -> int:
        store = self._store
        async with store.lock:
            await store.flush_locked()
            found = await store.ask(lambda: store.index.of_topic(topic_id, _SWEEP, 0))
            left = self._host.machine.visible(found)
            if left:
                self.end(left, "cancelled")
            return len(left)

    # --- look ----------------------------------------------------------------------------------------------

    async def find(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        """An entry at exactly this address, pending or ended."""
        async with self._store.lock:
            return await self._find_locked(topic_id, partition, offset)

    async def _find_locked(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        store, machine = self._store, self._host.machine
        found: Due | EntryEnded | None = None
        while True:
            await store.flush_locked()
            found = machine.near.get(offset)
            if found is None:
                found = await store.ask(lambda: store.index.find(offset))
            if not machine.has_news_of(offset):  # else it was fired or ended while the index was asked
                break
        found = machine.known(offset, found, self._clock.now_ms())
        return None if found is None or (found.topic_id, found.partition) != (topic_id, partition) else found

    async def of_topic(self, topic_id: str, limit: int, skip: int, after: DueKey = BEFORE_ALL) -> list[Due]:
        """Entries of a topic that the index calls pending, by time, of those behind a place."""
        index = self._store.index
        return await self._store.look(lambda: index.of_topic(topic_id, limit, skip, after))

    async def due_counts(self, topic_id: str, step_ms: Millis) -> dict[Millis, int]:
        """How many entries of a topic are due in each step, as the index has it."""
        return await self._store.look(lambda: self._store.index.due_counts(topic_id, step_ms))

    async def due_ends(self, topic_id: str) -> tuple[Millis, Millis] | None:
        """When the first and the last entry of a topic are due, as the index has it."""
        return await self._store.look(lambda: self._store.index.due_ends(topic_id))

    def visible(self, dues: Sequence[Due]) -> list[Due]:
        """Those of them that are pending."""
        return self._host.machine.visible(dues)

    def entering(self, topic_id: str) -> list[Due]:
        """Those whose time has come, and that are not known to be safe in the topic's log."""
        return [due for due in self._host.machine.in_flight.values() if due.topic_id == topic_id]

    async def next_due(self) -> Millis | None:
        return await self._store.look(self._store.index.next_due)

    async def payloads(
        self, offsets: Sequence[Offset], bytes_max: int = READ_BYTES
    ) -> dict[Offset, ScheduleEntry | None]:
        """The entries themselves, until they are many bytes."""
        return await self._store.payloads(offsets, bytes_max)

    @property
    def pending(self) -> dict[str, int]:
        """How many entries wait, by topic id."""
        return self._host.machine.pending if self._host.is_loaded else {}

    @property
    def near_count(self) -> int:
        """Of those that have a timer."""
        return len(self._host.machine.near) if self._host.is_loaded else 0
