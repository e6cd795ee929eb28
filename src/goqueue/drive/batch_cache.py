"""Slices of batches, kept while they are handed out: one decoding serves many polls."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Final, TypeAlias

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.base.priority import NORMAL, priority_of
from goqueue.format.records import Record
from goqueue.format.slices import RecordSlice, read

OnUnreadable: TypeAlias = Callable[[Offset, Offset, str], None]  # first and last offset, and why

CACHE_BYTES: Final = 64 * MIB
_RECORD_BYTES: Final = 200  # what a decoded record costs beside its bytes
_headers: Final = attrgetter("headers")


class Decoded:
    """A slice of a batch in the open, once somebody wants it. `lanes` is None where every record is in the normal lane.

    Nothing is in one that cannot be read; `on_unreadable` is told.
    """

    __slots__ = ("_lanes", "_on_unreadable", "_records", "_slice", "base_offset", "last_offset", "size")

    def __init__(self, found: RecordSlice, on_unreadable: OnUnreadable) -> None:
        self.base_offset = found.first
        self.last_offset = found.last
        self.size = found.size + _RECORD_BYTES * found.count
        self._slice: RecordSlice | None = found
        self._on_unreadable = on_unreadable
        self._records: list[Record] = []
        self._lanes: list[int] | None = None

    @property
    def unopened(self) -> int:
        """How many records there are to decode yet."""
        return self._slice.count if self._slice is not None else 0

    @property
    def records(self) -> list[Record]:
        if self._slice is not None:
            self._open(self._slice)
        return self._records

    @property
    def lanes(self) -> list[int] | None:
        return self._lanes if self.records else None

    def _open(self, found: RecordSlice) -> None:
        self._slice = None
        try:
            self._records = read(found)
        except CorruptBatch as error:
            self._on_unreadable(found.first, found.last, error.message)
        if any(map(_headers, self._records)):
            lanes = [priority_of(one.headers) if one.headers else NORMAL for one in self._records]
            self._lanes = None if all(lane == NORMAL for lane in lanes) else lanes

    def at(self, offset: Offset) -> Record | None:
        place = self._place(offset)
        found = self.records[place] if place < len(self.records) else None
        return found if found is not None and found.offset == offset else None

    def of_lane(self, lane: int, offset: Offset, end: Offset) -> list[Record]:
        """The lane's records from the offset up to the end."""
        first, last = self._place(offset), self._place(end)
        lanes = self.lanes
        if lanes is None:
            return self.records[first:last] if lane == NORMAL else []
        return [self.records[at] for at in range(first, last) if lanes[at] == lane]

    def _place(self, offset: Offset) -> int:
        """Of the first record at or after the offset."""
        if len(self.records) == self.last_offset - self.base_offset + 1:
            return min(max(0, offset - self.base_offset), len(self.records))
        return bisect_left(self.records, offset, key=_offset)


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
        """The slice that covers the offset."""
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
