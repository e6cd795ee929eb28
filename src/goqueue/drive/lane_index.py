"""Where a partition's messages of each lane lie: spans of the log, with how many of each lane are in them.

Made from the records' own headers as the log is looked through, and so rebuilt at any time. A log that never saw a
priority is one span. Neighbours of one lane are one span however long; mixed ones are cut every so many bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset
from goqueue.base.limits import KIB, MIB
from goqueue.base.priority import HEADER, NAMES, NORMAL, priority_of
from goqueue.format.batch import BatchHeader, Buffer, read_header, split
from goqueue.format.search import has
from goqueue.format.slices import RecordSlice, light_body, read, slices

SPANS_MAX: Final = 200_000  # beyond it the log is not looked through further, until some are done
_MIXED_BYTES: Final = 128 * KIB
_HERE_BYTES: Final = 1 * MIB
_HERE_RECORDS: Final = 5_000
_RECORD_COST: Final = 200  # decoding one takes as long as unfolding so many bytes
_MARK: Final = HEADER.encode()
_LANES: Final = range(len(NAMES))


class OffsetSpan(msgspec.Struct, gc=False):
    """Offsets from `first` up to `end`."""

    first: Offset
    end: Offset
    size: int
    counts: list[int]

    @property
    def lane(self) -> int | None:
        """The only lane that is in it, if there is only one."""
        used = [lane for lane in _LANES if self.counts[lane]]
        return used[0] if len(used) == 1 else None


class LaneIndex:
    """Spans in order, without a gap, from where somebody still reads to `scanned_to`."""

    def __init__(self, begin: Offset) -> None:
        self.begin = begin
        self.scanned_to = begin
        self.lanes: list[int] = []  # of which there was something, so far
        self._spans: list[OffsetSpan] = []

    @property
    def is_full(self) -> bool:
        return len(self._spans) >= SPANS_MAX

    def extend(self, found: Iterable[OffsetSpan]) -> None:
        for span in found:
            last = self._spans[-1] if self._spans else None
            if last is not None and _joins(last, span):
                last.end, last.size = span.end, last.size + span.size
                last.counts = [a + b for a, b in zip(last.counts, span.counts, strict=True)]
            else:
                self._spans.append(span)
            self.scanned_to = span.end
            self.lanes += [lane for lane, count in enumerate(span.counts) if count and lane not in self.lanes]

    def spans(self, lane: int, begin: Offset) -> Iterator[tuple[Offset, Offset]]:
        """Where messages of the lane are, from an offset on."""
        if lane not in self.lanes:
            return
        at = max(0, bisect_right(self._spans, begin, key=_first) - 1)
        while at < len(self._spans):
            span = self._spans[at]
            if span.counts[lane] and span.end > begin:
                yield max(begin, span.first), span.end
            at += 1

    def next_of(self, lane: int, begin: Offset) -> Offset:
        """The lane has nothing before this, from `begin` on."""
        return next((first for first, _ in self.spans(lane, begin)), max(begin, self.scanned_to))

    def is_mixed(self, offset: Offset) -> bool:
        """Several lanes share the span: where in it a lane's messages are is not known."""
        at = bisect_right(self._spans, offset, key=_first) - 1
        return at >= 0 and self._spans[at].lane is None

    def has(self, lane: int, begin: Offset) -> bool:
        last = self._spans[-1] if self._spans else None
        if last is not None and last.counts[lane] and last.end > begin:
            return True
        return next(self.spans(lane, begin), None) is not None

    def count(self, lane: int, begin: Offset) -> int:
        """About how many messages of the lane are there from an offset on."""
        total = 0.0
        for first, end in self.spans(lane, begin):
            span = self._spans[bisect_right(self._spans, first, key=_first) - 1]
            total += span.counts[lane] * (end - first) / (span.end - span.first)
        return round(total)

    def trim(self, offset: Offset) -> None:
        """Nobody reads below any more."""
        keep = max(0, bisect_right(self._spans, offset, key=_first) - 1)
        if keep:
            del self._spans[:keep]
            self.begin = self._spans[0].first


class ScannedSpans(msgspec.Struct, frozen=True):
    """One span a batch, and how many bytes they take in the log."""

    spans: list[OffsetSpan]
    size: int


def look_through(data: Buffer, is_visible: Callable[[BatchHeader], bool]) -> ScannedSpans:
    """As many batches as can be looked through in a few milliseconds. None if the first is larger than that."""
    spans: list[OffsetSpan] = []
    at = cost = 0
    for batch in split(data):
        header = read_header(batch)
        found = _counts_here(batch, header) if is_visible(header) else ([0] * len(NAMES), 0)
        if found is None:
            break
        spans.append(OffsetSpan(header.base_offset, header.last_offset + 1, header.size, found[0]))
        at += header.size
        cost += found[1]
        if cost >= _HERE_BYTES:
            break
    return ScannedSpans(spans, at)


def look_through_one(data: Buffer) -> ScannedSpans:
    """The first batch, which is visible, however large; off the loop."""
    batch = next(split(data), None)
    if batch is None:
        return ScannedSpans([], 0)
    header = read_header(batch)
    counts = _counted(slices(batch, header))
    return ScannedSpans([OffsetSpan(header.base_offset, header.last_offset + 1, header.size, counts)], header.size)


def _counts_here(batch: Buffer, header: BatchHeader) -> tuple[list[int], int] | None:
    """With about what it cost, in bytes that were unfolded. Only batches that can hold a priority are.

    None if it would cost too much here.
    """
    if not header.codec and not has(batch, _MARK):
        return _all_normal(header.record_count), 0
    try:
        body = light_body(batch, header)
    except CorruptBatch:
        return [0] * len(NAMES), header.size  # it has nothing to hand out
    if body is None or (header.record_count > _HERE_RECORDS and has(body, _MARK)):
        return None
    if not has(body, _MARK):
        return _all_normal(header.record_count), len(body)
    return _counted(slices(batch, header, 0, body)), len(body) + _RECORD_COST * header.record_count


def _all_normal(count: int) -> list[int]:
    counts = [0] * len(NAMES)
    counts[NORMAL] = count
    return counts


def _counted(found: Iterable[RecordSlice]) -> list[int]:
    """Of those slices that can be read. Never less than there is: what is not counted is not handed out."""
    counts = [0] * len(NAMES)
    for one in found:
        if not has(one.batch, _MARK):
            counts[NORMAL] += one.count
            continue
        try:
            for record in read(one):
                counts[priority_of(record.headers)] += 1
        except CorruptBatch:
            pass
    return counts


def _joins(last: OffsetSpan, span: OffsetSpan) -> bool:
    if last.size + span.size <= _MIXED_BYTES:
        return True
    lane = last.lane
    return lane is not None and lane == span.lane


def _first(span: OffsetSpan) -> Offset:
    return span.first
