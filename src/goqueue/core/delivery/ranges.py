"""A set of offsets as ranges: small however many offsets, as long as they lie together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from goqueue.base.ids import Offset


class RangeSet:
    """Half-open ranges, sorted, never touching."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[Offset] = []
        self._ends: list[Offset] = []

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[Offset, Offset]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __contains__(self, offset: Offset) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, start: Offset, end: Offset) -> None:
        """Joins what it touches."""
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def end_of(self, offset: Offset) -> Offset:
        """The end of the range that the offset is in; the offset itself if it is in none."""
        if not self._starts:
            return offset
        at = bisect_right(self._starts, offset) - 1
        return self._ends[at] if at >= 0 and offset < self._ends[at] else offset

    @property
    def end(self) -> Offset:
        """Behind the last range."""
        return self._ends[-1] if self._ends else 0

    def cut_below(self, offset: Offset) -> None:
        """Forgets everything below."""
        at = bisect_right(self._ends, offset)
        del self._starts[:at], self._ends[:at]
        if self._starts and self._starts[0] < offset:
            self._starts[0] = offset
