"""Decoded batches, kept while they are handed out: one decoding serves many polls."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from typing import Final

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.base.priority import NORMAL, priority_of
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.format.records import Record, decode

logger = logging.getLogger(__name__)

CACHE_BYTES: Final = 64 * MIB
_RECORD_BYTES: Final = 200  # what a decoded record costs beside its bytes


class Decoded:
    """One batch in the open. `lanes` is None where every record is in the normal lane."""

    __slots__ = ("base_offset", "lanes", "last_offset", "records", "size")

    def __init__(self, batch: Buffer, header: BatchHeader, is_visible: bool = True) -> None:
        self.base_offset = header.base_offset
        self.last_offset = header.last_offset
        self.records = _records(batch, header) if is_visible else []
        self.size = header.size + _RECORD_BYTES * len(self.records)
        lanes = [priority_of(one.headers) if one.headers else NORMAL for one in self.records]
        self.lanes = None if all(lane == NORMAL for lane in lanes) else lanes

    def at(self, offset: Offset) -> Record | None:
        place = self._place(offset)
        found = self.records[place] if place < len(self.records) else None
        return found if found is not None and found.offset == offset else None

    def of_lane(self, lane: int, offset: Offset, end: Offset) -> list[Record]:
        """The lane's records from the offset up to the end."""
        first, last = self._place(offset), self._place(end)
        if self.lanes is None:
            return self.records[first:last] if lane == NORMAL else []
        return [self.records[at] for at in range(first, last) if self.lanes[at] == lane]

    def _place(self, offset: Offset) -> int:
        """Of the first record at or after the offset."""
        if len(self.records) == self.last_offset - self.base_offset + 1:
            return min(max(0, offset - self.base_offset), len(self.records))
        return bisect_left(self.records, offset, key=_offset)


def _records(batch: Buffer, header: BatchHeader) -> list[Record]:
    """None of a marker, and none of a batch whose producer filled it with something else than records."""
    if header.is_control:
        return []
    try:
        return decode(batch)
    except CorruptBatch:
        logger.error("a batch cannot be handed out", extra={"base_offset": header.base_offset})
        return []


def _offset(record: Record) -> Offset:
    return record.offset


class BatchCache:
    """All partitions' together; the least recently used go first."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._batches: OrderedDict[tuple[TopicPartition, Offset], Decoded] = OrderedDict()
        self._bases: dict[TopicPartition, list[Offset]] = {}

    def put(self, at: TopicPartition, found: Decoded) -> None:
        key = (at, found.base_offset)
        if key in self._batches:
            return
        self._batches[key] = found
        self._size += found.size
        insort(self._bases.setdefault(at, []), found.base_offset)
        while self._size > self._bytes_max and len(self._batches) > 1:
            self._drop(next(iter(self._batches)))

    def find(self, at: TopicPartition, offset: Offset) -> Decoded | None:
        """The batch that covers the offset."""
        bases = self._bases.get(at)
        if not bases:
            return None
        place = bisect_right(bases, offset) - 1
        if place < 0:
            return None
        key = (at, bases[place])
        found = self._batches[key]
        if found.last_offset < offset:
            return None
        self._batches.move_to_end(key)
        return found

    def forget(self, at: TopicPartition) -> None:
        for base_offset in list(self._bases.get(at, ())):
            self._drop((at, base_offset))

    def _drop(self, key: tuple[TopicPartition, Offset]) -> None:
        self._size -= self._batches.pop(key).size
        bases = self._bases[key[0]]
        bases.remove(key[1])
        if not bases:
            del self._bases[key[0]]
