"""What one partition has to hand out, lane by lane: looks through the log, decodes batches, keeps both for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from goqueue.base.commands import Isolation
from goqueue.base.errors import DamagedRange, OffsetOutOfRange
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import KIB, MIB
from goqueue.base.priority import NAMES
from goqueue.drive.batch_cache import BatchCache, Decoded
from goqueue.drive.decoding import Decoding, window_here
from goqueue.drive.lane_index import LaneIndex, OffsetSpan, look_through, look_through_one
from goqueue.drive.partition import Partition
from goqueue.format.batch import BatchHeader, read_header, split
from goqueue.format.records import Record
from goqueue.format.slices import RecordSlice

_READ_BYTES: Final = 128 * KIB
_SCAN_BYTES: Final = 1 * MIB
_SCAN_HERE_BYTES: Final = 64 * KIB  # more than this is looked through off the loop
_SCAN_WAIT_S: Final = 0.02  # how long a poll waits for the look ahead; the rest is done behind its back
_STRETCH: Final = 1_000  # records that are decoded before others get their turn

OnUnreadableOf: TypeAlias = Callable[[TopicPartition, Offset, Offset, str], None]


class LaneReader:
    """Shared by all groups that take from the partition and see the same of its transactions."""

    def __init__(
        self,
        partition: Partition,
        cache: BatchCache,
        decoding: Decoding,
        on_unreadable: OnUnreadableOf,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self.partition = partition
        self.isolation = isolation
        self._cache = cache
        self._decoding = decoding
        self._on_unreadable = on_unreadable
        self.index: LaneIndex | None = None
        self._scanning: asyncio.Task[None] | None = None
        self._is_gone = False

    @property
    def end(self) -> Offset:
        """How far messages may be put under leases."""
        return self.partition.lease_limit(self.isolation)

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether there is something to hand out in a batch below the end."""
        if self.isolation is Isolation.READ_UNCOMMITTED:
            return not header.is_control
        return self.partition.is_visible(header)

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

    def known(self, begin: Offset) -> LaneIndex | None:
        """The same if there is nothing to wait for; None if it has to be looked for."""
        index, end = self.index, self.end
        if index is None or not index.begin <= end <= index.scanned_to:
            return None
        return index if index.begin <= begin or index.begin <= self.partition.log.start_offset else None

    @property
    def is_behind(self) -> bool:
        """Whether a part of the log was not yet looked through; it goes on behind the polls' back."""
        return self.index is None or self._is_behind(self.index)

    def _is_behind(self, index: LaneIndex) -> bool:
        return index.scanned_to < self.end and not index.is_full

    def _scan_here(self, index: LaneIndex) -> bool:
        """Looks through what little was appended since; False if that is work for another thread."""
        try:
            data = self.read_now(index.scanned_to, _SCAN_BYTES)
        except (DamagedRange, OffsetOutOfRange):
            return False
        if data is None or len(data) > _SCAN_HERE_BYTES:
            return False
        found = look_through(data, self.is_visible)
        index.extend(_from(found.spans, index.scanned_to))
        if found.size == len(data) and len(found.spans) == 1 and not self._is_gone:
            self._keep(memoryview(data))
        return index.scanned_to >= self.end

    def _keep(self, batch: memoryview) -> None:
        """Whoever waited for a message wants it next."""
        header = read_header(batch)
        here = window_here(batch, header, header.base_offset) if self.is_visible(header) else None
        for one in here or ():
            self._cache.put(self.partition.at, Decoded(one, self._unreadable))

    async def _scan(self, index: LaneIndex) -> None:
        while index is self.index and index.scanned_to < self.end and not index.is_full:
            data = await self._read(index.scanned_to, _SCAN_BYTES)
            if isinstance(data, int):  # nothing readable before this
                index.extend([OffsetSpan(index.scanned_to, data, 0, [0] * len(NAMES))])
            elif data:
                if not await self._look_through(data, index):
                    return
            else:
                return

    async def _look_through(self, data: bytes, index: LaneIndex) -> bool:
        """Off the loop; large batches when it is their turn. False if there was nothing to look at."""
        at = 0
        while at < len(data) and index is self.index:
            left = memoryview(data)[at:]
            found = await self._decoding.aside(partial(look_through, left, self.is_visible))
            if not found.size:
                found = await self._decoding.run(partial(look_through_one, left))
            if not found.size:
                break
            index.extend(_from(found.spans, index.scanned_to))
            at += found.size
        return at > 0

    def _scanned(self, task: asyncio.Task[None]) -> None:
        self._scanning = None
        if not task.cancelled():
            task.exception()

    # --- messages ------------------------------------------------------------------------------------------

    async def of_lane(self, lane: int, begin: Offset, limit: int) -> tuple[list[Record], Offset]:
        """The lane's next messages, and how far the log holds no others."""
        index = self.known(begin) or await self.look(begin)
        begin = max(begin, self.partition.log.start_offset)
        known_to = min(index.scanned_to, self.end)
        found: list[Record] = []
        opened = 0
        offset = begin
        # The index grows and is trimmed while batches are read: each span is looked for anew.
        while (span := next(index.spans(lane, offset), None)) is not None and span[0] < known_to:
            offset, end = span[0], min(span[1], known_to)
            while offset < end:
                batch = self._cache.find(self.partition.at, offset) or await self._load(offset)
                if batch is None:
                    return found, offset
                opened += batch.unopened
                found += batch.of_lane(lane, offset, end)
                offset = batch.last_offset + 1
                if len(found) >= limit:
                    del found[limit:]
                    return found, found[-1].offset + 1 if found else offset
                if opened >= _STRETCH:
                    opened = 0
                    await asyncio.sleep(0)
        return found, max(begin, known_to)

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
        """All messages from an offset on that anybody may read, as the log stands now."""
        end = self.partition.read_limit(self.isolation)
        while begin < end:
            batch = self._cache.find(self.partition.at, begin) or await self._load(begin)
            if batch is None:
                return
            if batch.unopened:
                await asyncio.sleep(0)
            for record in batch.records:
                if begin <= record.offset < end:
                    yield record
            begin = batch.last_offset + 1

    async def _load(self, offset: Offset) -> Decoded | None:
        """Decodes from an offset on; returns the first batch at or after it."""
        data = await self._read(offset, _READ_BYTES)
        if isinstance(data, int):
            return await self._load(data) if data < self.end else None
        first: Decoded | None = None
        for batch in split(data or b""):
            header = read_header(batch)
            if not self.is_visible(header):
                found: list[RecordSlice] | None = [RecordSlice(header.base_offset, header.last_offset, 0)]
            elif first is None:
                found = await self._decoding.window(batch, header, offset)
            else:
                found = window_here(batch, header, offset)
            if found is None:
                break  # somebody may want it later
            for one in found:
                decoded = Decoded(one, self._unreadable)
                if not self._is_gone:  # another topic of that name may be there by now
                    self._cache.put(self.partition.at, decoded)
                first = first or decoded
            if found[-1].last < header.last_offset:
                break
        return first

    def _unreadable(self, first: Offset, last: Offset, why: str) -> None:
        self._on_unreadable(self.partition.at, first, last, why)

    async def _read(self, offset: Offset, size: int) -> bytes | Offset | None:
        """Batches; or, where there is a hole, the offset behind it; None at the end."""
        offset = max(offset, self.partition.log.start_offset)
        if offset >= self.end:
            return None
        try:
            return await self.read(offset, size)
        except DamagedRange as hole:
            return int(str(hole.detail["next_offset"]))
        except OffsetOutOfRange:
            return max(offset + 1, self.partition.log.start_offset)

    def read_now(self, offset: Offset, size: int) -> bytes | None:
        """Batches below the end; None if they have to be read off the loop."""
        return self.partition.read_now(offset, size, self.isolation, limit=self.end)

    async def read(self, offset: Offset, size: int) -> bytes:
        now = self.read_now(offset, size)
        return now if now is not None else await self.partition.read(offset, size, self.isolation, limit=self.end)

    def forget(self) -> None:
        """The partition is gone."""
        self._is_gone = True
        if self._scanning is not None:
            self._scanning.cancel()
        self._cache.forget(self.partition.at)


def _from(spans: list[OffsetSpan], begin: Offset) -> list[OffsetSpan]:
    """The first batch may begin before what was asked for, and there may be gaps: spans tile the log."""
    tiled: list[OffsetSpan] = []
    for span in spans:
        if span.end > begin:
            tiled.append(OffsetSpan(begin, span.end, span.size, span.counts))
            begin = span.end
    return tiled
