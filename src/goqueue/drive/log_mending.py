"""Gets back what a log has lost to a damaged disk, from whoever has it whole."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from goqueue.base.errors import NotLoaded
from goqueue.base.ids import Offset
from goqueue.base.replication import RangeAnswer
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.log.compaction import Swap
from goqueue.log.mending import Mending, damage_of, damaged_segments
from goqueue.log.scan import DamagedRegion
from goqueue.log.segment import Segment

logger = logging.getLogger(__name__)

AskRange: TypeAlias = Callable[[Offset, Offset], Awaitable[RangeAnswer]]


class LogMending:
    """One damaged segment after the other."""

    def __init__(self, cleaner: Cleaner, offload: Offload) -> None:
        self._cleaner = cleaner
        self._offload = offload

    async def mend(self, partition: Partition, ask: AskRange) -> Offset | None:
        """`ask` gives what the leader has. If damage lies where the leader has another history, or may: from where on
        the log is to be dropped, and fetched like anything new, unless it is acknowledged in a moment."""
        log = partition.log
        if log.segments and log.segments[-1].lost_regions():
            log.roll()  # so that it can be written anew
        for segment in damaged_segments(log):
            try:
                await self._cleaner.put_in_place(partition, lambda: self._written_anew(partition, segment, ask))  # noqa: B023
            except NotLoaded:
                if segment.next_offset > partition.high_watermark:
                    return damage_of(segment, log.start_offset)[0].first_offset
                raise
        return None

    async def _written_anew(self, partition: Partition, segment: Segment, ask: AskRange) -> Swap | None:
        log = partition.log
        if segment not in log.segments or segment.seal is None:
            return None
        mending = Mending(segment)
        try:
            for region in segment.lost_regions():
                await self._offload(lambda: mending.copy_until(region))  # noqa: B023
                if region.next_offset > log.start_offset:
                    await self._fill(mending, region, ask)
            swap = await self._offload(mending.finish)
            if mending.has_gaps:
                await self._offload(log.begin_gaps().run)
        except BaseException:
            mending.give_up()
            raise
        facts = {"segment": segment.path(".log"), "ranges": len(segment.lost_regions())}
        logger.warning("a damaged segment is whole again", extra=facts)
        segment.home.stats.segments_mended += 1
        return swap

    async def _fill(self, mending: Mending, region: DamagedRegion, ask: AskRange) -> None:
        at = region.first_offset
        while at < region.next_offset:
            told = await ask(at, region.next_offset)
            if not told.batches:
                if told.start <= at:
                    return  # compaction left nothing there
                at = told.start
                continue
            at = await self._offload(lambda: mending.put(told.batches, region))  # noqa: B023

    async def keep_aside(self, partition: Partition) -> None:
        """What is about to be cut off is kept for people."""
        for segment in damaged_segments(partition.log):
            path = f"{segment.home.directory}/{segment.base_offset:020d}.0.cut"
            await self._offload(lambda: _copy(segment, path))  # noqa: B023


def _copy(segment: Segment, path: str) -> None:
    segment.home.disk.write_file(path, segment.file().read(0, segment.length))
