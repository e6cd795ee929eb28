"""Where a read begins or ends, as it was asked for: a word, an offset for each partition, or times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_time_ms
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.offsets import Positions, parse_positions

Word = Literal["earliest", "latest"]


class StartingOffsets(msgspec.Struct, frozen=True):
    """An offset for each partition; -2 is its earliest, -1 its latest."""

    each: Positions
    option: str


class Times(msgspec.Struct, frozen=True):
    """A time for each partition, in milliseconds since 1970."""

    each: Positions
    option: str


class Moment(msgspec.Struct, frozen=True):
    """One time for all partitions, in milliseconds since 1970."""

    ms: int


Edge = Word | StartingOffsets | Times | Moment


def parse_edge(given: Mapping[str, str], side: Literal["starting", "ending"]) -> Edge | None:
    """The strongest of the three options of this side, which is the most general one; None if there is none."""
    if (moment := given.get(f"{side}Timestamp")) is not None:
        return Moment(_time(moment, f"{side}Timestamp"))
    if (times := given.get(f"{side}OffsetsByTimestamp")) is not None:
        return Times(parse_positions(times, f"{side}OffsetsByTimestamp"), f"{side}OffsetsByTimestamp")
    if (offsets := given.get(f"{side}Offsets")) is not None:
        return _word_or_offsets(offsets.strip(), f"{side}Offsets")
    return None


def _time(text: str, option: str) -> int:
    try:
        return parse_time_ms(text, option)
    except InvalidField as error:
        raise BadOption(f"{option}: {error}") from None


def _word_or_offsets(text: str, option: str) -> Edge:
    if text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    return StartingOffsets(parse_positions(text, option), option)


def each_of(places: Sequence[Place], edge: StartingOffsets | Times) -> Positions:
    """The numbers of exactly these partitions; `BadOption` if one is not told, or one is told that is not read."""
    untold = sorted(set(places) - edge.each.keys())
    unread = sorted(edge.each.keys() - set(places))
    if untold:
        raise BadOption(
            f"{edge.option} says nothing about {_named(untold)}; it has to name every partition that is read "
            "(as offsets, -2 is the earliest and -1 the latest)."
        )
    if unread:
        raise BadOption(f"{edge.option} names {_named(unread)}, which this query does not read or which is not there.")
    return edge.each


def times_of(places: Sequence[Place], edge: Times | Moment) -> Positions:
    """The time asked of each of these partitions."""
    if isinstance(edge, Moment):
        return dict.fromkeys(places, edge.ms)
    return each_of(places, edge)


def _named(places: Sequence[Place]) -> str:
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(str(place) for place in places[:3]) + more
