"""The schedule's entries: taken in, looked up, ended. Memory and index follow what the log says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import MIB
from goqueue.base.settings import Fsync
from goqueue.core.schedule.records import EntryEnded, ScheduleEntry, ScheduleRecord, State, next_tombstone
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_firing import Deliver, Firings
from goqueue.drive.schedule_index import Due, ScheduleIndex
from goqueue.drive.schedule_log import ScheduleLog
from goqueue.drive.schedule_pending import Pending
from goqueue.drive.topic_table import TopicTable

logger = logging.getLogger(__name__)

T = TypeVar("T")

READ_BYTES: Final = 8 * MIB  # payloads held by one read
_ACCEPT: Final = 16
_SWEEP: Final = 1_000


class Entries:
    """Made empty; `begin` gives it its log."""

    def __init__(
        self,
        index: ScheduleIndex,
        table: TopicTable,
        deliver: Deliver,
        clock: Clock,
        offload: Offload,
        fsync: Fsync,
    ) -> None:
        self.index = index
        self.pending = Pending(index, offload, clock)
        self.firings = Firings(self.pending, table, deliver, clock, fsync)
        self.changed = asyncio.Event()  # the index has something to learn
        self.on_due: Callable[[Millis], None] = lambda due_ms: None  # told when a new entry is due
        self.on_taken: Callable[[Sequence[Offset], Sequence[ScheduleEntry]], None] | None = None  # told what is traced
        self._table = table
        self._clock = clock
        self._offload = offload
        self._waits_for_sync = fsync == "always"
        self._syncs = fsync != "never"
        self._log: ScheduleLog | None = None
        self._unsure: list[tuple[Offset, Partition, Offset]] = []
        self._refused: list[EntryEnded] = []

    def begin(self, log: ScheduleLog) -> None:
        self._log = log
        self.firings.begin(log)

    @property
    def log(self) -> ScheduleLog:
        if self._log is None:
            raise ShuttingDown("The schedule is not loaded yet; try again in a moment.")
        return self._log

    # --- take in -------------------------------------------------------------------------------------------

    def accept(self, entries: Sequence[ScheduleEntry]) -> list[Offset | GoQueueError]:
        """Stores entries; not safe before `settle`. One result each, in order."""
        results: list[Offset | GoQueueError] = []
        for at in range(0, len(entries), _ACCEPT):
            some = entries[at : at + _ACCEPT]
            try:
                self.pending.check_room()
                offsets, error = self.log.append_entries(some)
            except GoQueueError as refused:
                offsets, error = [], refused
            self.took(offsets, some[: len(offsets)])
            results += offsets
            if error is not None:
                results += [error] * (len(some) - len(offsets))
        return results

    def took(self, offsets: Sequence[Offset], entries: Sequence[ScheduleEntry]) -> None:
        """Entries are in the log: from now on they count."""
        for offset, entry in zip(offsets, entries, strict=True):
            self.pending.note(offset, entry)
            self.pending.accept(offset, entry)
            self.on_due(entry.due_ms)
        if self.on_taken is not None:
            self.on_taken(offsets, entries)
        self.firings.tally.scheduled += len(entries)
        self.changed.set()

    def accept_with(self, entries: Sequence[ScheduleEntry], target: Partition, write: Callable[[], T]) -> T:
        """Stores entries that count only together with a write to their target log, which follows at once.

        Where the node waits for its disk it does so here, on the loop: the next batch of the same producer may be right
        behind, and must find this one in the log.
        """
        self.pending.check_room()
        offsets, error = self.log.append_entries(entries)
        try:
            if error is not None:
                raise error
            if self._waits_for_sync:
                self.log.sync_now()
            written = write()
        except GoQueueError:
            self._void(offsets, entries)
            raise
        self.took(offsets, entries)
        self.watch([at for at, one in zip(offsets, entries, strict=True) if one.origin], target, target.log.end_offset)
        return written

    def _void(self, offsets: Sequence[Offset], entries: Sequence[ScheduleEntry]) -> None:
        """Those that are stored never counted; a start that makes the index anew must know it."""
        if not offsets:
            return
        now = self._clock.now_ms()
        self._refused += [
            EntryEnded(offset, entry.topic_id, entry.partition, entry.due_ms, "cancelled", now)
            for offset, entry in zip(offsets, entries, strict=False)
        ]
        self.pending.refused.update(offsets)
        self.take_back()
        self.changed.set()

    def take_back(self) -> None:
        """Ends what was stored and then refused. On a full disk that has to wait; until then nobody sees it."""
        try:
            self.note(*self._refused)
        except GoQueueError as error:
            logger.error("refused entries wait to be taken back", extra={"error": error.message})
            return
        self.pending.refused.difference_update(one.offset for one in self._refused)
        self._refused = []

    async def marks(self, start: Offset) -> set[str]:
        """What entries in the log from there on are marked with."""
        found = self.log.records(start)
        return await self._offload(
            lambda: {record.mark for _, record in found if isinstance(record, ScheduleEntry) and record.mark}
        )

    async def keep_up(self) -> None:
        """Holds who publishes back while the index is far behind."""
        if self.pending.is_behind:
            await self.pending.flush()

    # --- end -----------------------------------------------------------------------------------------------

    async def cancel(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        """The entry that is cancelled now; or what became of it before; None if it is unknown."""
        async with self.pending.lock:
            found = await self.find_locked(topic_id, partition, offset)
            if not isinstance(found, Due):
                return found
            self.end([found], "cancelled")
        await self.log.partition.wait_durable()
        return found

    async def cancel_all(self, topic_id: str) -> int:
        """All of a topic's entries; how many that were."""
        count = 0
        while some := await self._sweep_some(topic_id):
            count += some
        await self.log.partition.wait_durable()
        return count

    async def find(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        async with self.pending.lock:
            return await self.find_locked(topic_id, partition, offset)

    async def find_locked(self, topic_id: str, partition: int, offset: Offset) -> Due | EntryEnded | None:
        """An entry at exactly this address. One that is being fired counts as delivered."""
        found: Due | EntryEnded | None = await self.pending.find(offset)
        if (fired := self.firings.under_way.get(offset)) is not None:
            now = self._clock.now_ms()
            found = EntryEnded(offset, fired.topic_id, fired.partition, fired.due_ms, "delivered", now)
        if offset in self.pending.refused:
            return None
        if found is None or (found.topic_id, found.partition) != (topic_id, partition):
            return None
        return found

    def end(self, dues: Sequence[Due], state: State) -> None:
        now = self._clock.now_ms()
        ended = [EntryEnded(due.offset, due.topic_id, due.partition, due.due_ms, state, now) for due in dues]
        repeated = [next_tombstone(due.offset) for due in dues if due.count]
        for offset, record in zip(self.log.append(ended, repeated), ended, strict=True):
            self.pending.note(offset, record)
            self.firings.ended(record)
        self.changed.set()

    async def sweep(self) -> None:
        """The entries of topics that are gone go too."""
        try:
            for topic_id in await self._look(self.index.topic_ids):
                if self._table.name_of(topic_id) is None:
                    while await self._sweep_some(topic_id):
                        pass
        except GoQueueError as error:
            logger.error("a deleted topic's delayed messages wait for the next start", extra={"error": error.message})

    async def _sweep_some(self, topic_id: str) -> int:
        async with self.pending.lock:
            await self.pending.flush_locked()
            found = await self.pending.ask(lambda: self.index.of_topic(topic_id, _SWEEP, 0))
            left = [due for due in found if due.offset not in self.firings.under_way]
            if left:
                self.end(left, "cancelled")
            return len(left)

    async def _look(self, question: Callable[[], T]) -> T:
        """Asks the index about everything up to now."""
        async with self.pending.lock:
            await self.pending.flush_locked()
            return await self.pending.ask(question)

    async def of_topic(self, topic_id: str, limit: int, skip: int) -> list[Due]:
        """Pending entries of a topic, by time."""
        found = await self._look(lambda: self.index.of_topic(topic_id, limit, skip))
        return [due for due in found if due.offset not in self.pending.refused]

    async def next_due(self) -> Millis | None:
        return await self._look(self.index.next_due)

    async def payloads(self, offsets: Sequence[Offset]) -> dict[Offset, ScheduleEntry | None]:
        """The entries themselves, until they are many bytes."""
        return await self._offload(lambda: self.log.read_entries(offsets, READ_BYTES))

    # --- a batch that is in two places --------------------------------------------------------------------

    def watch(self, offsets: Sequence[Offset], partition: Partition, end_offset: Offset) -> None:
        """Entries that count only if their target log reaches so far: a start has to look until that is safe."""
        self._unsure += [(offset, partition, end_offset) for offset in offsets]

    async def note_what_came(self) -> None:
        came, left = [], []
        for one in self._unsure:
            offset, target, end_offset = one
            safe = target.log.synced_offset >= end_offset or not self._syncs or target.is_closed
            came.append(offset) if safe else left.append(one)
        if came:
            async with self.pending.lock:
                await self.pending.flush_locked()
                await self.pending.ask(lambda: self.index.sure(came))
            self._unsure = [one for one in self._unsure if one[0] not in set(came)]

    def note(self, *records: ScheduleRecord) -> None:
        if not records:
            return
        for offset, record in zip(self.log.append(records), records, strict=True):
            self.pending.note(offset, record)
        self.changed.set()

    def partition_of(self, topic_id: str, number: int) -> Partition | None:
        topic = self._table.get(self._table.name_of(topic_id) or "")
        return None if topic is None or number >= len(topic.partitions) else topic.partitions[number]
