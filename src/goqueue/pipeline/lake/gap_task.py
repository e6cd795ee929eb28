"""What one task of the audit does: it looks into the log for what the archive lacks.

Offsets without messages are normal: the ends of transactions take some, aborted messages and compacted ones leave some.
If readers of the log see nothing there either, the gap is explained.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from goqueue.pipeline.lake.messages import days
from goqueue.pipeline.lake.parts import split
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.link.reading import read_arrow

GAP: Final = "gap"
OVERLAP: Final = "overlap"
EXPLAINED: Final = "explained"
LOST: Final = "lost"
EXPIRED: Final = "expired"
UNKNOWN: Final = "unknown"
DOUBLED: Final = "doubled"
COLUMNS: Final = "topic string, partition int, kind string, start bigint, end bigint, verdict string, messages bigint"
_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("verdict", pa.string()),
        ("messages", pa.int64()),
    ]
)
_READ: Final = ("topic", "partition", "offset", "timestamp")
_HOLES_A_READ_MAX: Final = 1_000


class GapTask:
    """Goes to the executors as it is. `first` is where each log begins; a place without is not in the node."""

    def __init__(self, kafka: str | None, first: Mapping[Place, int], expired_before: dt.date = dt.date.min) -> None:
        self._kafka = kafka
        self._first = dict(first)
        self._expired_before = expired_before

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Holes in, verdicts out. `end` is the last offset of a hole."""
        for rows in batches:
            for at in range(0, rows.num_rows, _HOLES_A_READ_MAX):
                told = self._told(rows.slice(at, _HOLES_A_READ_MAX).to_pylist())
                yield pa.RecordBatch.from_pylist(told, _SCHEMA)

    def _told(self, holes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        gaps = [one for one in holes if one["kind"] == GAP]
        ranges = [OffsetRange(one["topic"], one["partition"], one["start"], one["end"] + 1) for one in gaps]
        doubled = [{**one, "verdict": DOUBLED, "messages": 1} for one in holes if one["kind"] != GAP]
        return [*doubled, *({**gap, **verdict} for gap, verdict in zip(gaps, self._judged(ranges), strict=True))]

    def _judged(self, gaps: Sequence[OffsetRange]) -> list[dict[str, Any]]:
        """A gap that the log has only in part is judged by that part if messages are in it, else it is unknown."""
        readable = [one for one in (self._readable(gap) for gap in gaps) if one is not None]
        found = GapMessages(gaps, self._expired_before)
        if readable and self._kafka is not None:
            for rows in read_arrow(self._kafka, readable, _READ, fail_on_loss=False):
                found.take(rows)
        return [self._verdict(gap, *found.of(gap)) for gap in gaps]

    def _readable(self, gap: OffsetRange) -> OffsetRange | None:
        first = self._first.get(gap.place)
        if self._kafka is None or first is None or first >= gap.end:
            return None
        return OffsetRange(gap.topic, gap.partition, max(first, gap.start), gap.end)

    def _verdict(self, gap: OffsetRange, lost: int, expired: int) -> dict[str, Any]:
        if lost or expired:
            return {"verdict": LOST if lost else EXPIRED, "messages": lost or expired}
        is_whole = self._readable(gap) == gap
        return {"verdict": EXPLAINED if is_whole else UNKNOWN, "messages": 0}


class GapMessages:
    """Messages of the log by the gap they lie in."""

    def __init__(self, gaps: Sequence[OffsetRange], expired_before: dt.date) -> None:
        self._starts: dict[Place, list[int]] = {}
        for gap in sorted(gaps, key=lambda one: one.start):
            self._starts.setdefault(gap.place, []).append(gap.start)
        self._counts: dict[tuple[Place, int], list[int]] = {}
        self._expired_before = expired_before

    def take(self, rows: pa.RecordBatch) -> None:
        for place, some in split(rows, ("topic", "partition")):
            starts = self._starts[Place(*place)]
            for offset, day in zip(
                some.column("offset").to_pylist(), days(some.column("timestamp")).to_pylist(), strict=True
            ):
                start = starts[bisect_right(starts, offset) - 1]
                counts = self._counts.setdefault((Place(*place), start), [0, 0])
                counts[day is not None and day < self._expired_before] += 1

    def of(self, gap: OffsetRange) -> tuple[int, int]:
        """How many are lost, and how many were expired on purpose."""
        lost, expired = self._counts.get((gap.place, gap.start), (0, 0))
        return lost, expired
