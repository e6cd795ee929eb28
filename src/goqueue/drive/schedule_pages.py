"""What waits for a topic, by time, over several schedules: a page of the listing that they make together.

What comes before the page is passed in blocks: of each schedule it is asked where its next block ends, and the block
that ends first lies before the page if as many blocks as there are schedules would fit there. The last few entries are
read and left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeAlias

from goqueue.base.ids import Offset
from goqueue.core.schedule.due import BEFORE_ALL, Due, DueKey
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.drive.schedule import Schedule
from goqueue.drive.schedule_store import READ_BYTES

_READ_THROUGH: Final = 2_000  # entries before the page that are read with it
_BLOCKS: Final = 4  # of each schedule, in one round

_Found: TypeAlias = list[tuple[int, Due]]  # with the place of its schedule among them


class SchedulePages:
    """Made for one page of a topic, of the schedules that its messages wait in."""

    def __init__(self, schedules: Sequence[Schedule], topic_id: str) -> None:
        self._schedules = schedules
        self._topic_id = topic_id
        self._after: list[DueKey] = [BEFORE_ALL] * len(schedules)

    async def page(self, limit: int, skip: int) -> list[tuple[Due, ScheduleEntry | None]]:
        """It ends after some megabytes."""
        found = await self._found(limit, skip)
        parts = [await self._read(number, schedule, found) for number, schedule in enumerate(self._schedules)]
        page: list[tuple[Due, ScheduleEntry | None]] = []
        for number, due in found:
            visible, read = parts[number]
            if due.offset in visible:
                if due.offset not in read:
                    break
                page.append((due, read[due.offset]))
        return page

    async def keys(self, limit: int, skip: int) -> list[DueKey]:
        """Where these stand in the listing, in its order. Some may be over that the index does not know of yet."""
        return [due.key for _, due in await self._found(limit, skip)]

    async def _found(self, limit: int, skip: int) -> _Found:
        return await (self._merged(limit, skip) if len(self._schedules) > 1 else self._run(0, limit, skip))

    async def _read(
        self, number: int, schedule: Schedule, found: _Found
    ) -> tuple[set[Offset], dict[Offset, ScheduleEntry | None]]:
        """What is pending of it, and the entries: of each schedule an equal share of the bytes."""
        visible = [due.offset for due in schedule.visible([due for one, due in found if one == number])]
        return set(visible), await schedule.payloads(visible, READ_BYTES // len(self._schedules))

    async def _run(self, number: int, limit: int, skip: int = 0) -> _Found:
        found = await self._schedules[number].of_topic(self._topic_id, limit, skip, self._after[number])
        return [(number, due) for due in found]

    # --- several -------------------------------------------------------------------------------------------

    async def _merged(self, limit: int, skip: int) -> _Found:
        while skip > max(_READ_THROUGH, _BLOCKS * len(self._schedules)):
            passed = await self._pass_blocks(skip // (_BLOCKS * len(self._schedules)), skip)
            if not passed:
                return []  # there are not so many
            skip -= passed
        runs = [await self._run(number, skip + limit) for number in range(len(self._schedules))]
        merged = heapq.merge(*runs, key=lambda one: (one[1].key, one[0]))
        return list(islice(merged, skip, skip + limit))

    async def _pass_blocks(self, block: int, skip: int) -> int:
        """How many entries were passed, all of them among the next `skip`."""
        passed = 0
        ends: list[tuple[DueKey, int]] = []
        for number in range(len(self._schedules)):
            await self._push_end(ends, number, block)
        while ends and skip - passed >= block * len(self._schedules):
            key, number = heapq.heappop(ends)
            self._after[number] = key
            passed += block
            await self._push_end(ends, number, block)
        return passed

    async def _push_end(self, ends: list[tuple[DueKey, int]], number: int, block: int) -> None:
        for _, last in await self._run(number, 1, block - 1):
            heapq.heappush(ends, (last.key, number))
