"""Messages in a row that nobody touched before, handed out together: one entry under one lease, however many they are.

They are of one lane and were handed out once. When something happens to some of them alone, those leave the range:
each is then tracked by itself, as if it had been handed out so, and what is left on both sides stays two ranges. That
changes nothing that can be asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.lane import Lease
from goqueue.core.delivery.records import LentRow


class LentRange(msgspec.Struct):
    """Offsets from `first` to `last`; the cell of the first begins at `start`."""

    lane: int
    start: Offset
    first: Offset
    last: Offset
    first_ms: Millis
    lease: Lease

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def cells(self) -> Iterator[tuple[Offset, Offset]]:
        yield self.start, self.first
        for offset in range(self.first + 1, self.last + 1):
            yield offset, offset

    def row(self) -> LentRow:
        """How a snapshot keeps it."""
        lease = self.lease
        return LentRow(
            self.start, self.first, self.last, self.first_ms, lease.until_ms, lease.owner, lease.nonce, lease.since_ms
        )


def rows_of(offsets: Iterable[Offset]) -> Iterator[tuple[Offset, Offset]]:
    """First and last of those that come one behind the other."""
    row: tuple[Offset, Offset] | None = None
    for offset in offsets:
        if row is not None and offset == row[1] + 1:
            row = (row[0], offset)
        else:
            if row is not None:
                yield row
            row = (offset, offset)
    if row is not None:
        yield row


class LentRanges:
    """Those of one view, in order."""

    __slots__ = ("_by_lease", "_firsts", "_ranges")

    def __init__(self) -> None:
        self._firsts: list[Offset] = []
        self._ranges: list[LentRange] = []
        self._by_lease: dict[Lease, dict[Offset, LentRange]] = {}

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._ranges)

    def __iter__(self) -> Iterator[LentRange]:
        return iter(self._ranges)

    def find(self, offset: Offset) -> LentRange | None:
        """The range that the offset is in."""
        place = bisect_right(self._firsts, offset) - 1
        if place < 0 or self._ranges[place].last < offset:
            return None
        return self._ranges[place]

    def add(self, one: LentRange) -> None:
        place = bisect_right(self._firsts, one.first)
        self._firsts.insert(place, one.first)
        self._ranges.insert(place, one)
        self._by_lease.setdefault(one.lease, {})[one.first] = one

    def remove(self, one: LentRange) -> None:
        place = bisect_right(self._firsts, one.first) - 1
        del self._firsts[place], self._ranges[place]
        others = self._by_lease[one.lease]
        del others[one.first]
        if not others:
            del self._by_lease[one.lease]

    def cut(self, one: LentRange, first: Offset, last: Offset) -> Offset:
        """Takes these out of the range; where the cell of the first begins. What is left on both sides stays lent."""
        start = one.start if first == one.first else first
        self.remove(one)
        if first > one.first:
            self.add(msgspec.structs.replace(one, last=first - 1))
        if last < one.last:
            self.add(msgspec.structs.replace(one, start=last + 1, first=last + 1))
        return start

    def under(self, leases: Iterable[Lease]) -> list[LentRange]:
        """Ranges of these leases, each of which is named once."""
        return [one for lease in leases for one in self._by_lease.get(lease, {}).values()]

    def clear(self) -> None:
        self._firsts.clear()
        self._ranges.clear()
        self._by_lease.clear()
