"""Which archived messages are meant: by topic, time, offset, key, or any condition in SQL."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as f

from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.reading import Pruning
from goqueue.pipeline.link.place import OffsetRange

_OFFSETS: Final = re.compile(r"(?:([a-zA-Z0-9._-]+)/)?(\d{1,9}):(\d{1,18})-(\d{0,18})")
_END: Final = (1 << 63) - 1
_LAST_DAY: Final = dt.date.max


class Selection(msgspec.Struct, frozen=True):
    """A choice of messages. `offsets` are ranges of which one must hold; without any, every offset is meant."""

    topics: tuple[str, ...]
    since_ms: int | None = None
    until_ms: int | None = None
    offsets: tuple[OffsetRange, ...] = ()
    key: str | None = None
    where: str | None = None

    def condition(self) -> Column:
        found = f.col("topic").isin(list(self.topics))
        if self.since_ms is not None:
            found &= f.col("timestamp") >= f.timestamp_millis(f.lit(self.since_ms))
        if self.until_ms is not None:
            found &= f.col("timestamp") < f.timestamp_millis(f.lit(self.until_ms))
        if self.offsets:
            found &= in_ranges(self.offsets)
        if self.key is not None:
            found &= f.col("key") == f.lit(self.key.encode())
        return found if self.where is None else found & f.expr(f"({self.where})")

    def pruning(self) -> Pruning:
        """Files that hold none of them, told by topic and day alone."""
        days = [("date", ">=", _day(self.since_ms, dt.date.min)), ("date", "<=", _day(self.until_ms, _LAST_DAY))]
        limited = self.since_ms is not None or self.until_ms is not None
        return [[("topic", "=", topic), *(days if limited else ())] for topic in self.topics]


def _day(moment_ms: int | None, otherwise: dt.date) -> dt.date:
    try:
        return otherwise if moment_ms is None else dt.datetime.fromtimestamp(moment_ms / 1000, dt.UTC).date()
    except (OverflowError, ValueError, OSError):
        return otherwise


def selection(topics: Sequence[str], options: Mapping[str, str]) -> Selection:
    """What the options of a run mean."""
    if not topics:
        raise LakeError("Say which archived topics are meant, with --topics.")
    return Selection(
        tuple(sorted(set(topics))),
        choices.moment_ms(options, "since"),
        choices.moment_ms(options, "until"),
        tuple(one for text in choices.names(options, "offsets") for one in _ranges(text, topics)),
        options.get("key"),
        options.get("where"),
    )


def _ranges(text: str, topics: Sequence[str]) -> list[OffsetRange]:
    found = _OFFSETS.fullmatch(text)
    if found is None:
        raise LakeError(f"{text!r} are no offsets; write them like orders/0:100-200, or 0:100- up to the end.")
    topic, partition, start, end = found.groups()
    of = sorted(set(topics)) if topic is None else [topic]
    return [OffsetRange(one, int(partition), int(start), int(end) if end else _END) for one in of]


def in_ranges(ranges: Sequence[OffsetRange]) -> Column:
    """Whether a message lies in one of them."""
    return reduce(Column.__or__, (_inside(one) for one in ranges))


def _inside(one: OffsetRange) -> Column:
    place = (f.col("topic") == one.topic) & (f.col("partition") == one.partition)
    return place & (f.col("offset") >= one.start) & (f.col("offset") < one.end)


def range_pruning(ranges: Sequence[OffsetRange]) -> Pruning:
    """The same for files, by their statistics."""
    return [[("topic", "=", one.topic), ("offset", ">=", one.start), ("offset", "<", one.end)] for one in ranges]
