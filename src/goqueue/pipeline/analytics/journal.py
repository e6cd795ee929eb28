"""How far a study has come: offset ranges, written down before they are studied and ticked off afterwards.

A pass that was cut off is found in the journal and done over with the same ranges and the same number, so that the
tables it had written already leave it alone. The journal is a small Delta table that each entry replaces as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from goqueue.pipeline.link.place import OffsetRange, Place

_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("done", pa.bool_()),
    ]
)


class OffsetBounds(NamedTuple):
    """What there is of a partition: from `first` up to, not including, `end`."""

    first: int
    end: int


class Pass(msgspec.Struct, frozen=True):
    """One pass of a study: its number, and what it is about. An empty range only remembers its place."""

    number: int
    ranges: tuple[OffsetRange, ...]
    is_done: bool = False

    @property
    def work(self) -> list[OffsetRange]:
        return [one for one in self.ranges if one.end > one.start]

    @property
    def size(self) -> int:
        return sum(one.end - one.start for one in self.ranges)


def unfinished(last: Pass | None) -> list[str]:
    """The topics of a pass that was cut off: they belong to the next one, whatever topics that is asked for."""
    return [] if last is None or last.is_done else sorted({one.topic for one in last.work})


def reached(last: Pass | None) -> dict[Place, int]:
    """How far each partition is studied."""
    return {} if last is None else {one.place: one.end if last.is_done else one.start for one in last.ranges}


class NextPass(NamedTuple):
    """The pass to do, None if there is nothing new, and what has to be told about it."""

    to_do: Pass | None
    warnings: list[str]


def following(last: Pass | None, found: Mapping[Place, OffsetBounds]) -> NextPass:
    """What comes after a pass, given what there is now. A pass that was cut off comes again."""
    if last is not None and not last.is_done:
        return _again(last, found)
    known = reached(last)
    warnings: list[str] = []
    ranges = [
        OffsetRange(*at, *_from_here(at, known.get(at), bounds, warnings)) for at, bounds in sorted(found.items())
    ]
    kept = [OffsetRange(*at, end, end) for at, end in sorted(known.items()) if at not in found]
    made = Pass(0 if last is None else last.number + 1, tuple(ranges + kept))
    return NextPass(made if made.work else None, warnings)


def _from_here(at: Place, known: int | None, bounds: OffsetBounds, warnings: list[str]) -> tuple[int, int]:
    if known is None:
        return bounds.first, bounds.end
    if known > bounds.end:
        warnings.append(f"{at} ends before what was studied; taken for a topic made anew.")
        return bounds.first, bounds.end
    if known < bounds.first:
        warnings.append(_gone(at, bounds.first - known))
    return max(known, bounds.first), bounds.end


def _again(last: Pass, found: Mapping[Place, OffsetBounds]) -> NextPass:
    warnings: list[str] = []
    ranges: list[OffsetRange] = []
    for one in last.ranges:
        at = one.place
        bounds = found.get(at, OffsetBounds(one.end, one.end))
        start = min(max(one.start, bounds.first), one.end)
        if start > one.start:
            warnings.append(_gone(at, start - one.start))
        ranges.append(OffsetRange(one.topic, one.partition, start, one.end))
    return NextPass(Pass(last.number, tuple(ranges)), warnings)


def _gone(at: Place, count: int) -> str:
    return f"{count:,} offsets of {at} were removed before they were studied."


class Journal:
    """The passes of one study on one lake."""

    def __init__(self, table: str) -> None:
        self._table = table

    def last(self) -> Pass | None:
        if not DeltaTable.is_deltatable(self._table):
            return None
        rows = DeltaTable(self._table).to_pyarrow_table().to_pylist()
        ranges = tuple(OffsetRange(row["topic"], row["partition"], row["start"], row["end"]) for row in rows)
        return Pass(rows[0]["number"], ranges, rows[0]["done"]) if rows else None

    def begin(self, one: Pass) -> None:
        """From now on this pass is done, or done over."""
        self._write(one, done=False)

    def finish(self, one: Pass) -> None:
        self._write(one, done=True)

    def _write(self, one: Pass, done: bool) -> None:
        rows = [
            {
                "number": one.number,
                "topic": r.topic,
                "partition": r.partition,
                "start": r.start,
                "end": r.end,
                "done": done,
            }
            for r in one.ranges
        ]
        write_deltalake(self._table, pa.Table.from_pylist(rows, _SCHEMA), mode="overwrite")
