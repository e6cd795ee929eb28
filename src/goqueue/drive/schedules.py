"""The schedules of a node, one for each shard: a delayed message waits in that of its partition's shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import DELAYED_PAGES_MAX
from goqueue.core.schedule.due import Due, DueKey, Place
from goqueue.core.schedule.effects import ScheduleCounts
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import PerShard, ShardMap
from goqueue.drive.schedule import Schedule
from goqueue.drive.schedule_index import ScheduleIndex, index_path
from goqueue.drive.schedule_pages import SchedulePages
from goqueue.drive.schedule_runner import ScheduleParts, ScheduleRunner
from goqueue.drive.topic_table import Topic

T = TypeVar("T")


class Schedules:
    """Refuses everything until the shards are known and their schedules loaded."""

    def __init__(
        self, shards: ShardMap, parts: ScheduleParts, first_index: str, name_of: Callable[[str], str | None]
    ) -> None:
        """`first_index` is the path of shard 0's index; `name_of` finds a topic's name by its id."""
        self._runners = PerShard(shards, self._new)
        self._count = 1
        self._parts = parts
        self._first_index = first_index
        self._name_of = name_of
        self._listing = asyncio.Semaphore(DELAYED_PAGES_MAX)

    def make(self, count: int) -> None:
        self._count = count
        self._runners.make(count)

    def _new(self, shard: int) -> ScheduleRunner:
        index = ScheduleIndex(index_path(self._first_index, shard), self._count)
        return ScheduleRunner(index, self._parts, self._count)

    # --- which one -----------------------------------------------------------------------------------------

    def at(self, at: TopicPartition) -> Schedule:
        return self._runners.at(at).schedule

    def of_shard(self, shard: int) -> Schedule:
        return self._runners[shard].schedule

    def parted(self, many: Sequence[T], entry_of: Callable[[T], ScheduleEntry]) -> list[tuple[Schedule, Sequence[T]]]:
        """Each schedule with those that belong to it, in their order. Those of topics that are gone go to the first,
        which ends them as any other would."""
        if len(self._runners) <= 1:
            return [(self._runners[0].schedule, many)]
        found: dict[Schedule, list[T]] = {}
        by_place: dict[Place, list[T]] = {}
        for one in many:
            entry = entry_of(one)
            place = entry.topic_id, entry.partition
            if (its := by_place.get(place)) is None:
                its = by_place[place] = found.setdefault(self._of_place(*place), [])
            its.append(one)
        return list(found.items())

    def _of_place(self, topic_id: str, partition: int) -> Schedule:
        return self.at(TopicPartition(self._name_of(topic_id) or "", partition))

    def __iter__(self) -> Iterator[Schedule]:
        return (runner.schedule for runner in self._runners)

    # --- all together --------------------------------------------------------------------------------------

    def pending_of(self, topic_id: str) -> int:
        return sum(schedule.pending.get(topic_id, 0) for schedule in self)

    @property
    def pending_count(self) -> int:
        return sum(sum(schedule.pending.values()) for schedule in self)

    @property
    def near_count(self) -> int:
        """Of those that have a timer."""
        return sum(schedule.near_count for schedule in self)

    @property
    def counts(self) -> ScheduleCounts:
        """Since the node started."""
        told = ScheduleCounts()
        for runner in self._runners:
            told.add(runner.counts)
        return told

    async def next_due(self) -> Millis | None:
        found = [await schedule.next_due() for schedule in self]
        return min((due for due in found if due is not None), default=None)

    def ends(self) -> tuple[Offset, ...]:
        """Where the log of each ends now."""
        return tuple(schedule.partition.end_offset for schedule in self)

    async def page(self, topic: Topic, limit: int, skip: int) -> list[tuple[Due, ScheduleEntry | None]]:
        """Pending entries of a topic, by time; it ends after some megabytes."""
        holding = self._holding(topic)
        async with self._listing:
            return await SchedulePages(holding, topic.record.id).page(limit, skip) if holding else []

    async def keys(self, topic: Topic, limit: int, skip: int) -> list[DueKey]:
        """When these are due, without themselves."""
        holding = self._holding(topic)
        async with self._listing:
            return await SchedulePages(holding, topic.record.id).keys(limit, skip) if holding else []

    async def entering(self, topic: Topic) -> AsyncIterator[tuple[Due, ScheduleEntry | None]]:
        """Entries whose time has come, and that are not known to be safe in the topic's log."""
        for schedule in self._holding(topic):
            left = schedule.entering(topic.record.id)
            while left:
                read = await schedule.payloads([due.offset for due in left])
                for due in left:
                    if due.offset in read:
                        yield due, read[due.offset]
                left = [due for due in left if due.offset not in read] if read else []

    def _holding(self, topic: Topic) -> list[Schedule]:
        leads = self._runners.leads
        return list(dict.fromkeys(self.at(partition.at) for partition in topic.partitions if leads(partition.at)))

    async def cancel_all(self, topic_id: str) -> int:
        """All of a topic's entries; how many that were."""
        return sum(await asyncio.gather(*(schedule.cancel_all(topic_id) for schedule in self)))

    # --- running -------------------------------------------------------------------------------------------

    async def start(self, shard: int, partition: Partition) -> None:
        """The shard's schedule goes on where it was."""
        await self._runners[shard].start(partition)

    def unload(self, shard: int, error: GoQueueError) -> None:
        self._runners[shard].unload(error)

    def renew(self, shard: int) -> ScheduleRunner:
        """Another one in its place; the one that was there."""
        return self._runners.renew(shard)

    async def stop(self) -> None:
        """What is pending stays on disk."""
        await asyncio.gather(*(runner.stop() for runner in self._runners))

    def topic_deleted(self) -> None:
        """Its entries go with it."""
        for runner in self._runners:
            runner.topic_deleted()

    def look_again(self) -> None:
        for runner in self._runners:
            runner.look_again()

    def clock_moved(self, by_ms: Millis) -> None:
        for runner in self._runners:
            runner.clock_moved(by_ms)
