"""The index of the schedule, asked and written off the loop, one call at a time; it learns what the machine applied."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from goqueue.base.errors import NotLoaded, Overloaded
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import MIB
from goqueue.base.log_settings import Fsync
from goqueue.core.schedule.due import Due
from goqueue.core.schedule.machine import Indexed, ScheduleMachine
from goqueue.core.schedule.near import DueWindow
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.drive.carry_on import to_its_end
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_index import ScheduleIndex
from goqueue.drive.schedule_log import read_entries, records_from

logger = logging.getLogger(__name__)

T = TypeVar("T")

_APPLIED_AT_ONCE: Final = 5_000
READ_BYTES: Final = 8 * MIB  # payloads held by one read


class ScheduleStore:
    """Empty until `open`. The lock keeps those apart who look into the index and act on what they saw."""

    def __init__(self, index: ScheduleIndex, offload: Offload, fsync: Fsync) -> None:
        self.index = index
        self.fsync = fsync
        self.lock = asyncio.Lock()
        self._using = threading.RLock()  # SQLite brings the process down if a connection is closed while it is used
        self._offload = offload
        self._machine: ScheduleMachine | None = None
        self._partition: Partition | None = None
        self._log_id = ""
        self._unconfirmed: list[tuple[Offset, Partition, Offset]] = []

    def open(self, machine: ScheduleMachine, partition: Partition, log_id: str) -> Offset:
        """Brings the index up to the log, and returns how far that goes. Blocks, and goes on to its end also if nobody
        waits for it any more: the shard may be another node's by then, and `close` be called."""
        with self._using:
            self._machine, self._partition, self._log_id = None, partition, log_id
            self.index.close()
            end_offset = partition.log.end_offset
            try:
                self._catch_up(partition)
                machine.recount(self.index.pending_counts())
            except sqlite3.Error as error:
                self.index.close()
                raise _failed(error) from error
            self._machine = machine
            return end_offset

    def _catch_up(self, partition: Partition) -> None:
        """The log may grow meanwhile: what comes then is noted by the machine. Blocks."""
        end_offset = partition.log.end_offset
        records: list[Indexed] = []
        for offset, record in records_from(partition, self.index.open(self._log_id, end_offset)):
            records.append((offset, record))
            if len(records) >= _APPLIED_AT_ONCE:
                self.index.apply(records, offset + 1)
                records = []
        self.index.apply(records, end_offset)
        self.index.forget_old_ends()

    @property
    def partition(self) -> Partition:
        if self._partition is None:
            raise _not_loaded()
        return self._partition

    @property
    def number(self) -> int:
        """Which of the node's schedules it is: the number of its partition and of its shard."""
        return self.partition.at.partition

    # --- the index -----------------------------------------------------------------------------------------

    async def flush(self) -> None:
        async with self.lock:
            await self.flush_locked()

    async def flush_locked(self) -> None:
        """The index knows everything that was applied so far. Call it with the lock."""
        machine = self._machine
        if machine is None:
            return
        records = machine.take_unindexed()
        if not records and self.index.is_open:
            return
        try:
            await self.ask(lambda: self._write(records))
        except BaseException:
            machine.not_indexed(records)
            raise

    def _write(self, records: Sequence[Indexed]) -> None:
        """After a failure the index learns from the log itself, which has all that was applied."""
        if self.index.is_open:
            self.index.apply(records, records[-1][0] + 1)
        else:
            self._catch_up(self.partition)

    async def ask(self, question: Callable[[], T]) -> T:
        """Lets the index work, off the loop. Call it with the lock. `Overloaded` if it fails; a flush reopens it."""
        if self._machine is None:
            raise _not_loaded()
        try:
            return await to_its_end(self._alone(question))
        except sqlite3.Error as error:
            raise _failed(error) from error

    async def look(self, question: Callable[[], T]) -> T:
        """Asks the index about everything up to now."""
        async with self.lock:
            await self.flush_locked()
            return await self.ask(question)

    async def window(self, window: DueWindow) -> list[Due]:
        return await self.look(lambda: self.index.window(window.start, window.end, window.limit))

    async def rebuild(self) -> dict[str, int]:
        """The index said what the log does not: it is made anew. What it counts as pending then."""
        async with self.lock:
            await self._alone(self.index.discard)
            await self.flush_locked()
            return await self.ask(self.index.pending_counts)

    async def close(self) -> None:
        await self._alone(self.index.close)

    async def _alone(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._using:
                try:
                    return work()
                except sqlite3.Error:
                    self.index.close()
                    raise

        return await self._offload(alone)

    # --- entries that came with a producer's batch -------------------------------------------------------------

    def watch(self, offsets: Iterable[Offset], partition: Partition, end_offset: Offset) -> None:
        """These count only if their target's log reaches so far: a start has to look until that is durable."""
        self._unconfirmed += [(offset, partition, end_offset) for offset in offsets]

    async def confirm(self) -> None:
        """The index forgets whose target is durable."""
        done = {offset for offset, partition, end in self._unconfirmed if self.is_durable(partition, end)}
        if done:
            await self.look(lambda: self.index.sure(sorted(done)))
            self._unconfirmed = [one for one in self._unconfirmed if one[0] not in done]

    def is_durable(self, partition: Partition, end_offset: Offset) -> bool:
        """Also if the log is gone, or the node leaves syncs to the system."""
        return partition.is_closed or self.fsync == "never" or partition.log.synced_offset >= end_offset

    # --- payloads ------------------------------------------------------------------------------------------

    async def payloads(
        self, offsets: Sequence[Offset], bytes_max: int = READ_BYTES
    ) -> dict[Offset, ScheduleEntry | None]:
        """The entries themselves, until they are many bytes."""
        return await self._offload(lambda: read_entries(self.partition, offsets, bytes_max))

    async def marks(self, start: Offset) -> set[str]:
        """What entries in the log from there on are marked with."""
        return set(await self.marked(start))

    async def marked(self, start: Offset) -> dict[str, tuple[Offset, Millis]]:
        """The same, with their offsets, and when they are due."""
        found = records_from(self.partition, start)
        return await self._offload(
            lambda: {one.mark: (at, one.due_ms) for at, one in found if isinstance(one, ScheduleEntry) and one.mark}
        )


def _failed(error: sqlite3.Error) -> Overloaded:
    logger.error("the schedule's index failed", extra={"error": str(error)})
    return Overloaded("The schedule's index cannot be used; check the disk and try again.")


def _not_loaded() -> NotLoaded:
    return NotLoaded("The delayed messages are not loaded; try again in a moment.")
