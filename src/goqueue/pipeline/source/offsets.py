"""Places in topics as Spark keeps them and as users write them: JSON by topic and partition, always in one order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.errors import BadOption

Positions = dict[Place, int]

LATEST: Final = -1
EARLIEST: Final = -2

# What a query begins with. Spark asks for it several times and keeps it nowhere, so it says nothing: where the query
# really began stands in the first mark, which Spark does keep.
INITIAL: Final[dict[str, Any]] = {"initial": True}


class QueryMark(msgspec.Struct, frozen=True):
    """How far a query is: every offset below `to` is read. The first mark also says where the query began.

    `ids` are those of the topics: one that is deleted and made again has another. `lost` counts the offsets that were
    gone before they could be read, since the beginning of the query.
    """

    to: Positions
    ids: dict[str, str] = {}
    begun: Positions | None = None
    lost: Positions = {}

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps. Two equal marks give equal text, however they were made."""
        told: dict[str, Any] = {}
        if self.begun is not None:
            told["from"] = positions_json(self.begun)
        told["ids"] = dict(sorted(self.ids.items()))
        if self.lost:
            told["lost"] = positions_json(self.lost)
        told["to"] = positions_json(self.to)
        return told


def mark_of(told: Mapping[str, Any]) -> QueryMark | None:
    """The mark that Spark gives back; None stands for the beginning of a query."""
    if dict(told) == INITIAL:
        return None
    if "to" not in told:
        raise BadOption(
            f"The checkpoint holds offsets of another source ({', '.join(sorted(told)[:3])}); "
            "give this query a checkpointLocation of its own."
        )
    begun = positions_of(told["from"]) if "from" in told else None
    return QueryMark(positions_of(told["to"]), told.get("ids", {}), begun, positions_of(told.get("lost", {})))


def positions_json(positions: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Sorted, since Spark compares offsets as text: another order would be another offset."""
    told: dict[str, dict[str, int]] = {}
    for place in sorted(positions):
        told.setdefault(place.topic, {})[str(place.partition)] = positions[place]
    return told


def positions_of(told: Mapping[str, Mapping[str, int]]) -> Positions:
    return {Place(topic, int(part)): offset for topic, parts in told.items() for part, offset in parts.items()}


def parse_positions(text: str, option: str) -> Positions:
    """Offsets or times of partitions as users write them: `{"orders": {"0": 23, "1": -2}}`."""
    try:
        told = from_json(text, dict[str, dict[int, int]])
    except msgspec.DecodeError as error:
        raise BadOption(
            f'{option} is JSON like {{"orders": {{"0": 23, "1": 42}}}}, a number for each partition; '
            f"{text!r} is not ({error})."
        ) from None
    return {Place(topic, part): number for topic, parts in told.items() for part, number in parts.items()}


def parse_places(text: str, option: str) -> tuple[Place, ...]:
    """Partitions as users write them: `{"orders": [0, 1]}`."""
    try:
        told = from_json(text, dict[str, list[int]])
    except msgspec.DecodeError as error:
        raise BadOption(f'{option} is JSON like {{"orders": [0, 1]}}; {text!r} is not ({error}).') from None
    return tuple(sorted({Place(topic, part) for topic, parts in told.items() for part in parts}))
