"""Storage as administrators see it: where data lies, how full the disk is, and deleting the head of a log."""

from __future__ import annotations

from goqueue.base.errors import OffsetOutOfRange
from goqueue.base.ids import Offset
from goqueue.drive.cleaner import Cleaner
from goqueue.log.disk import Usage
from goqueue.log.space import SpaceGuard
from goqueue.service.topics import Topics


class Storage:
    """The verbs."""

    def __init__(self, topics: Topics, cleaner: Cleaner, space: SpaceGuard, data_dir: str) -> None:
        self._topics = topics
        self._cleaner = cleaner
        self._space = space
        self.data_dir = data_dir

    @property
    def usage(self) -> Usage:
        return self._space.usage

    async def delete_records(self, topic: str, number: int, before: Offset) -> Offset:
        """Makes a partition begin at an offset (-1: at its end), durably; returns where it begins now."""
        partition = self._topics.require_users(topic).partition(number)
        end = partition.high_watermark
        if before == -1:
            before = end
        if not 0 <= before <= end:
            raise OffsetOutOfRange(f"Cannot delete up to {before}: the log ends at {end}.", end_offset=end)
        await self._cleaner.delete_head(partition, before)
        return partition.start_offset
