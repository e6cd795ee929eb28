"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

Both are derived from the log and can always be rebuilt. On disk each begins with a header that holds a CRC and the log
length it covers; one that does not fit is not believed. Numbers are little-endian.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from crc32c import crc32c

from goqueue.base.ids import Millis, Offset, Position
from goqueue.log.disk import Disk

_HEADER: Final = struct.Struct("<4sHHIIQ")  # magic, version, kind, crc, entries, log length covered
_MAGIC: Final = b"GQIX"
_VERSION: Final = 1
_OFFSET_KIND: Final = 1
_TIME_KIND: Final = 2
_LOW: Final = 0xFFFF_FFFF


def _pack(kind: int, entries: int, covers: int, body: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, kind, crc32c(body), entries, covers) + body


def _unpack(data: bytes | None, kind: int, covers: int) -> tuple[int, bytes] | None:
    if data is None or len(data) < _HEADER.size:
        return None
    magic, version, of_kind, crc, entries, covered = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    fits = (magic, version, of_kind, covered) == (_MAGIC, _VERSION, kind, covers)
    return (entries, body) if fits and crc32c(body) == crc else None


def _numbers(body: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(body)
    return _little(numbers)


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _position_of(entry: int) -> Position:
    return entry & _LOW


class OffsetIndex:
    """Entries of (offset relative to the segment's base, position), packed into one number each."""

    __slots__ = ("_entries",)

    def __init__(self, entries: array[int] | None = None) -> None:
        self._entries = array("Q") if entries is None else entries

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, relative: Offset, position: Position) -> None:
        self._entries.append(relative << 32 | position)

    def floor(self, relative: Offset) -> Position:
        """Position of the last indexed batch that begins at or before the offset."""
        at = bisect_right(self._entries, relative << 32 | _LOW)
        return self._entries[at - 1] & _LOW if at else 0

    def entry(self, relative: Offset) -> tuple[Offset, Position]:
        """The last indexed batch that begins at or before the offset: its relative offset and position."""
        at = bisect_right(self._entries, relative << 32 | _LOW)
        return (self._entries[at - 1] >> 32, self._entries[at - 1] & _LOW) if at else (0, 0)

    def last_entry(self) -> tuple[Offset, Position]:
        return (self._entries[-1] >> 32, self._entries[-1] & _LOW) if self._entries else (0, 0)

    def positions(self) -> list[Position]:
        """Of all indexed batches, ascending."""
        return [_position_of(entry) for entry in self._entries]

    def floor_position(self, position: Position) -> Position:
        """The last indexed batch boundary at or before a position."""
        at = bisect_right(self._entries, position, key=_position_of)
        return self._entries[at - 1] & _LOW if at else 0

    def span(self, relative: Offset, size: int) -> tuple[Position, Position, bool]:
        """Boundaries for a read: where to begin, the last one within `size`, and whether the begin is exact."""
        entries = self._entries
        at = bisect_right(entries, relative << 32 | _LOW) - 1
        if at < 0:
            return 0, 0, False
        entry = entries[at]
        low = entry & _LOW
        last = bisect_right(entries, low + size, at, key=_position_of) - 1
        return low, entries[last] & _LOW, entry >> 32 == relative

    def cut(self, position: Position) -> None:
        """Forgets entries at or beyond a position."""
        del self._entries[bisect_left(self._entries, position, key=_position_of) :]

    def encode(self, covers: int) -> bytes:
        return _pack(_OFFSET_KIND, len(self), covers, _little(self._entries).tobytes())

    @classmethod
    def decode(cls, data: bytes | None, covers: int) -> OffsetIndex | None:
        """The index, or None if it is missing, damaged or of another log length."""
        found = _unpack(data, _OFFSET_KIND, covers)
        if found is None or len(found[1]) != found[0] * 8:
            return None
        return cls(_numbers(found[1]))


class TimeIndex:
    """Entries of (largest timestamp so far, relative offset of the batch that holds it), both ascending."""

    __slots__ = ("_offsets", "_times")

    def __init__(self, times: array[int] | None = None, offsets: array[int] | None = None) -> None:
        self._times = array("Q") if times is None else times
        self._offsets = array("Q") if offsets is None else offsets

    def __len__(self) -> int:
        return len(self._times)

    def add(self, timestamp: Millis, relative: Offset) -> None:
        if timestamp >= 0 and (not self._times or timestamp > self._times[-1]):
            self._times.append(timestamp)
            self._offsets.append(relative)

    def floor(self, timestamp: Millis) -> Offset:
        """Where to begin looking: no batch before it has a timestamp this late."""
        at = bisect_left(self._times, max(0, timestamp))
        return self._offsets[at - 1] if at else 0

    def cut(self, relative: Offset) -> None:
        """Forgets entries at or beyond an offset."""
        at = bisect_left(self._offsets, relative)
        del self._times[at:]
        del self._offsets[at:]

    def encode(self, covers: int) -> bytes:
        body = _little(self._times).tobytes() + _little(self._offsets).tobytes()
        return _pack(_TIME_KIND, len(self), covers, body)

    @classmethod
    def decode(cls, data: bytes | None, covers: int) -> TimeIndex | None:
        found = _unpack(data, _TIME_KIND, covers)
        if found is None or len(found[1]) != found[0] * 16:
            return None
        half = found[0] * 8
        return cls(_numbers(found[1][:half]), _numbers(found[1][half:]))


class SegmentIndexes:
    """Both of one segment."""

    __slots__ = ("offsets", "times")

    def __init__(self, offsets: OffsetIndex | None = None, times: TimeIndex | None = None) -> None:
        self.offsets = OffsetIndex() if offsets is None else offsets
        self.times = TimeIndex() if times is None else times

    @classmethod
    def read(cls, disk: Disk, path: str, covers: int) -> SegmentIndexes | None:
        """As they lie on disk, if both fit a segment of that length; `path` is without a suffix."""
        offsets = OffsetIndex.decode(disk.read_file(f"{path}.index"), covers)
        times = TimeIndex.decode(disk.read_file(f"{path}.timeindex"), covers)
        return None if offsets is None or times is None else cls(offsets, times)

    def write(self, disk: Disk, path: str, covers: int) -> None:
        """Not synced: an index that a power cut damages is rebuilt."""
        disk.write_file(f"{path}.index", self.offsets.encode(covers), durable=False)
        disk.write_file(f"{path}.timeindex", self.times.encode(covers), durable=False)
