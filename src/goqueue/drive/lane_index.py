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
from goqueue.base.limits import KIB
from goqueue.base.priority import HEADER, NAMES, NORMAL, priority_of
from goqueue.format.batch import BatchHeader, Buffer, read_header, split
from goqueue.format.records import decode

SPANS_MAX: Final = 200_000  # beyond it the log is not looked through further, until some are done
_MIXED_BYTES: Final = 128 * KIB
_MARK: Final = HEADER.encode()
_LANES: Final = range(len(NAMES))


class Span(msgspec.Struct, gc=False):
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
        self._spans: list[Span] = []

    @property
    def is_full(self) -> bool:
        return len(self._spans) >= SPANS_MAX

    def extend(self, found: Iterable[Span]) -> None:
        for span in found:
            last = self._spans[-1] if self._spans else None
            if last is not None and _joins(last, span):
                last.end, last.size = span.end, last.size + span.size
                last.counts = [a + b for a, b in zip(last.counts, span.counts, strict=True)]
            else:
                self._spans.append(span)
            self.scanned_to = span.end

    def spans(self, lane: int, begin: Offset) -> Iterator[tuple[Offset, Offset]]:
        """Where messages of the lane are, from an offset on."""
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


def look_through(data: bytes, is_visible: Callable[[BatchHeader], bool]) -> list[Span]:
    """One span a batch. Only batches that can hold a priority are unfolded."""
    spans: list[Span] = []
    for batch in split(data):
        header = read_header(batch)
        counts = _counts(batch, header) if is_visible(header) else [0] * len(NAMES)
        spans.append(Span(header.base_offset, header.last_offset + 1, header.size, counts))
    return spans


def _counts(batch: Buffer, header: BatchHeader) -> list[int]:
    counts = [0] * len(NAMES)
    if not header.codec and bytes(batch).find(_MARK) < 0:
        counts[NORMAL] = header.record_count
        return counts
    try:
        for record in decode(batch):
            counts[priority_of(record.headers)] += 1
    except CorruptBatch:
        pass  # it has nothing to hand out
    return counts


def _joins(last: Span, span: Span) -> bool:
    if last.size + span.size <= _MIXED_BYTES:
        return True
    lane = last.lane
    return lane is not None and lane == span.lane


def _first(span: Span) -> Offset:
    return span.first
