"""What one partition has to hand out, lane by lane: looks through the log, decodes batches, keeps both for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from goqueue.base.commands import Isolation
from goqueue.base.errors import DamagedRange, OffsetOutOfRange
from goqueue.base.ids import Offset
from goqueue.base.limits import KIB, MIB
from goqueue.base.priority import NAMES
from goqueue.drive.batch_cache import BatchCache, Decoded
from goqueue.drive.lane_index import LaneIndex, Span, look_through
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header, split
from goqueue.format.records import Record

_READ_BYTES: Final = 128 * KIB
_SCAN_BYTES: Final = 1 * MIB
_SCAN_HERE_BYTES: Final = 64 * KIB  # more than this is looked through off the loop
_SCAN_WAIT_S: Final = 0.02  # how long a poll waits for the look ahead; the rest is done behind its back
_COMMITTED: Final = Isolation.READ_COMMITTED


class Feed:
    """Shared by all groups that take from the partition."""

    def __init__(self, partition: Partition, cache: BatchCache, offload: Offload) -> None:
        self.partition = partition
        self._cache = cache
        self._offload = offload
        self.index: LaneIndex | None = None
        self._scanning: asyncio.Task[None] | None = None
        self._is_gone = False

    @property
    def end(self) -> Offset:
        return self.partition.state.read_limit(_COMMITTED)

    # --- looking ahead -------------------------------------------------------------------------------------

    async def look(self, begin: Offset) -> LaneIndex:
        """The index from `begin` or before: complete, or as far as a poll may wait for it."""
        begin = min(max(begin, self.partition.log.start_offset), self.end)
        index = self.index
        if index is None or begin < index.begin:
            index = self.index = LaneIndex(begin)
        if self._is_behind(index) and not self._scan_here(index):
            for _ in range(2):  # the first may be a look for an index that this one took the place of
                if self._is_behind(index):
                    if self._scanning is None:
                        self._scanning = asyncio.ensure_future(self._scan(index))
                        self._scanning.add_done_callback(self._scanned)
                    await asyncio.wait([self._scanning], timeout=_SCAN_WAIT_S)
        return index

    @property
    def is_behind(self) -> bool:
        """Whether a part of the log was not yet looked through; it goes on behind the polls' back."""
        return self.index is None or self._is_behind(self.index)

    def _is_behind(self, index: LaneIndex) -> bool:
        return index.scanned_to < self.end and not index.is_full

    def _scan_here(self, index: LaneIndex) -> bool:
        """Looks through what little was appended since; False if that is work for another thread."""
        try:
            data = self.partition.read_now(index.scanned_to, _SCAN_BYTES, _COMMITTED)
        except (DamagedRange, OffsetOutOfRange):
            return False
        if data is None or len(data) > _SCAN_HERE_BYTES:
            return False
        index.extend(_from(look_through(data, self.partition.is_visible), index.scanned_to))
        return index.scanned_to >= self.end

    async def _scan(self, index: LaneIndex) -> None:
        while index is self.index and index.scanned_to < self.end and not index.is_full:
            data = await self._read(index.scanned_to, _SCAN_BYTES)
            if isinstance(data, int):  # nothing readable before this
                index.extend([Span(index.scanned_to, data, 0, [0] * len(NAMES))])
            elif data:
                found = await self._offload(lambda data=data: look_through(data, self.partition.is_visible))  # type: ignore[misc]
                index.extend(_from(found, index.scanned_to))
            else:
                return

    def _scanned(self, task: asyncio.Task[None]) -> None:
        self._scanning = None
        if not task.cancelled():
            task.exception()

    # --- messages ------------------------------------------------------------------------------------------

    async def of_lane(self, lane: int, begin: Offset, limit: int) -> tuple[list[Record], Offset]:
        """The lane's next messages, and how far the log holds no others."""
        index = await self.look(begin)
        begin = max(begin, self.partition.log.start_offset)
        found: list[Record] = []
        for first, end in index.spans(lane, begin):
            offset, end = first, min(end, self.end)
            while offset < end:
                batch = self._cache.find(self.partition.at, offset) or await self._load(offset)
                if batch is None:
                    return found, offset
                found += batch.of_lane(lane, offset, end)
                offset = batch.last_offset + 1
                if len(found) >= limit:
                    del found[limit:]
                    return found, found[-1].offset + 1 if found else offset
        return found, max(begin, min(index.scanned_to, self.end))

    async def at(self, offsets: Iterable[Offset]) -> dict[Offset, Record | None]:
        """Messages by offset; None for those that the log no longer has."""
        found: dict[Offset, Record | None] = {}
        for offset in offsets:
            batch: Decoded | None = None
            if offset >= self.partition.log.start_offset:  # the cache may still have what the log does not
                batch = self._cache.find(self.partition.at, offset) or await self._load(offset)
            found[offset] = None if batch is None else batch.at(offset)
        return found

    async def everything(self, begin: Offset) -> AsyncIterator[Record]:
        """All messages from an offset on, as the log stands now."""
        end = self.end
        while begin < end:
            batch = self._cache.find(self.partition.at, begin) or await self._load(begin)
            if batch is None:
                return
            for record in batch.records:
                if record.offset >= begin:
                    yield record
            begin = batch.last_offset + 1

    async def _load(self, offset: Offset) -> Decoded | None:
        """Decodes from an offset on; answers with the first batch at or after it."""
        data = await self._read(offset, _READ_BYTES)
        if isinstance(data, int):
            return await self._load(data) if data < self.end else None
        first: Decoded | None = None
        for batch in split(data or b""):
            header = read_header(batch)
            decoded = Decoded(batch, header, self.partition.is_visible(header))
            if not self._is_gone:  # another topic of that name may be there by now
                self._cache.put(self.partition.at, decoded)
            first = first or decoded
        return first

    async def _read(self, offset: Offset, size: int) -> bytes | Offset | None:
        """Batches; or, where there is a hole, the offset behind it; None at the end."""
        offset = max(offset, self.partition.log.start_offset)
        if offset >= self.end:
            return None
        try:
            now = self.partition.read_now(offset, size, _COMMITTED)
            return now if now is not None else await self.partition.read(offset, size, _COMMITTED)
        except DamagedRange as hole:
            return int(str(hole.detail["next_offset"]))
        except OffsetOutOfRange:
            return max(offset + 1, self.partition.log.start_offset)

    def forget(self) -> None:
        """The partition is gone."""
        self._is_gone = True
        if self._scanning is not None:
            self._scanning.cancel()
        self._cache.forget(self.partition.at)


def _from(spans: list[Span], begin: Offset) -> list[Span]:
    """The first batch may begin before what was asked for, and there may be gaps: spans tile the log."""
    tiled: list[Span] = []
    for span in spans:
        if span.end > begin:
            tiled.append(Span(begin, span.end, span.size, span.counts))
            begin = span.end
    return tiled
