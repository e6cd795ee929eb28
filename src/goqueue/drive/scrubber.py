"""Reads what nobody reads: compares sealed segments with their checksums, slowly, so that damage is found while another
replica still has what it took."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from goqueue.base.errors import GoQueueError
from goqueue.base.log_settings import LogSettings
from goqueue.drive.cleaner import Cleaner, Work
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.repeating import Repeating
from goqueue.log.segment import Segment
from goqueue.log.verifying import scrub

logger = logging.getLogger(__name__)


class Scrubber:
    """All partitions that `work` names, one segment at a time, so many bytes a second."""

    def __init__(self, work: Work, cleaner: Cleaner, offload: Offload, settings: LogSettings) -> None:
        self._work = work
        self._cleaner = cleaner
        self._offload = offload
        self._bytes_per_s = settings.scrub_bytes_per_s
        self._rounds = Repeating(settings.scrub_interval_ms / 1000, self.scrub_all)
        self.stop = self._rounds.stop

    def start(self) -> None:
        if self._bytes_per_s:
            self._rounds.start()

    async def scrub_all(self) -> None:
        for partition, _ in list(self._work()):
            for segment in partition.log.segments:
                try:
                    await self._scrub(partition, segment)
                except (OSError, GoQueueError) as error:
                    if isinstance(error, OSError) and segment in partition.log.segments:
                        partition.log.note_unreadable(segment, error)
                    facts = {"segment": segment.path(".log"), "error": str(error)}
                    logger.error("a segment cannot be read", extra=facts)

    async def _scrub(self, partition: Partition, segment: Segment) -> None:
        steps = scrub(segment)
        while size := await self._offload(lambda: _next(steps)):
            segment.home.stats.bytes_scrubbed += size
            await asyncio.sleep(size / self._bytes_per_s)
        if not segment.verified:
            await self._cleaner.verify(partition, segment)


def _next(steps: Iterator[int]) -> int:
    """0 at the end."""
    return next(steps, 0)
