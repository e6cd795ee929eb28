"""What a start has to finish before anything is due: writes in two places of which the last run made only one.

Here the questions are asked, of the index and of the logs, off the loop; the machine decides what follows from them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.due import Due, Place
from goqueue.core.schedule.records import Firing, ScheduleEntry
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.schedule import Schedule, ScheduleHost
from goqueue.drive.schedule_store import ScheduleStore
from goqueue.drive.schedule_targets import DueTargets, already_in, is_there, missing_of

_OVERDUE: Final = 1_000


class ScheduleRecovery:
    """Each step can be done again."""

    def __init__(
        self, schedule: Schedule, host: ScheduleHost, store: ScheduleStore, targets: DueTargets, offload: Offload
    ) -> None:
        self._schedule = schedule
        self._host = host
        self._store = store
        self._targets = targets
        self._offload = offload

    async def discard_unconfirmed(self) -> None:
        """A producer's batch was stored in two places; where the second write is missing, the first one is void."""
        for one in await self._store.look(self._store.index.unsure):
            partition = self._targets.partition(one.topic_id, one.partition)
            if partition is None:
                continue
            if await self._offload(partial(is_there, one.origin, partition)):
                self._store.watch([one.offset], partition, one.origin.offset + 1)
                continue
            found = await self._schedule.find(one.topic_id, one.partition, one.offset)
            if isinstance(found, Due):
                self._schedule.end([found], "cancelled")

    async def resume_firings(self) -> None:
        """Delivers what is missing of firings that were under way."""
        for offset, firing in await self._store.look(self._store.index.firings):
            partition = self._targets.partition(firing.topic_id, firing.partition)
            if partition is None:
                self._without_target(offset, firing)
            else:
                await self._resume(offset, firing, partition)

    def _without_target(self, offset: Offset, firing: Firing) -> None:
        self._host.tell(lambda machine, now: machine.resume_without_target(offset, firing, now))

    async def _resume(self, offset: Offset, firing: Firing, partition: Partition) -> None:
        missing = await self._offload(partial(missing_of, self._store.number, firing, partition))
        read = await self._store.payloads([entry for entry, _ in firing.entries], 1 << 62)
        left: dict[Offset, tuple[ScheduleEntry, bool]] = {}
        for at, entry in read.items():
            if entry is not None:  # otherwise its end is on record
                found = await self._schedule.find(firing.topic_id, firing.partition, at)
                left[at] = entry, isinstance(found, Due)
        self._host.tell(lambda machine, now: machine.resume(offset, firing, left, missing))

    async def find_duplicates(self, now: Millis) -> None:
        """Overdue entries whose messages are in the log already: a power cut took the firing and left the messages."""
        overdue = await self._store.look(lambda: self._store.index.window(0, now, _OVERDUE))
        by_place: dict[Place, list[Due]] = {}
        read = await self._store.payloads([due.offset for due in overdue])
        for due in overdue:
            entry = read.get(due.offset)
            if entry is not None and entry.repeat is None:
                by_place.setdefault(due.place, []).append(due)
        for place, dues in by_place.items():
            partition = self._targets.partition(*place)
            if partition is not None:
                there = await self._offload(partial(already_in, self._store.number, partition, dues))
                self._schedule.end([due for due in dues if due.offset in there], "delivered")
