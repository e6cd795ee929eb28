"""What a query can read no more, although it has not read it: retention was faster, or a topic was deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.errors import DataLost
from goqueue.pipeline.source.offsets import Positions, QueryMark

log = logging.getLogger("goqueue.pipeline")


def begin_of(start: QueryMark | None, end: QueryMark) -> Positions:
    """Where a batch between two marks begins in each partition of its end.

    A partition that is new is read from offset 0, and so is one of a topic that was deleted and made again. One that
    ends before what was read of it goes on from its end.
    """
    if start is None:
        return dict(end.begun or {})
    remade = _remade(start, end)
    return {place: 0 if place in remade else min(start.to.get(place, 0), to) for place, to in end.to.items()}


def overtaken_of(begin: Mapping[Place, int], first: Mapping[Place, int]) -> Positions:
    """How many offsets of each partition are gone, of those from `begin` on."""
    return {place: first[place] - begin[place] for place in sorted(first) if first[place] > begin[place]}


def told_of_topics(start: QueryMark | None, end: QueryMark) -> Iterator[str]:
    """What became of the partitions that were read before."""
    if start is None:
        return
    for place in sorted(start.to.keys() - end.to.keys()):
        yield f"{place} is gone; it was deleted while the query read it."
    remade = _remade(start, end)
    for place in sorted(remade):
        yield f"{place} was deleted and made again while the query read it, and begins at offset 0 again."
    for place in sorted(start.to.keys() & end.to.keys() - remade):
        if end.to[place] < start.to[place]:
            yield f"{place} ends at {end.to[place]} now, before the offset {start.to[place]} that was read already."


def told_of_overtaken(lost: Mapping[Place, int], first: Mapping[Place, int]) -> Iterator[str]:
    for place, count in lost.items():
        yield (
            f"{count} offsets of {place} are gone before they were read; its log begins at {first[place]} now. "
            "Keep messages longer (retention.ms), or read more often."
        )


def told_of_beyond(begin: Mapping[Place, int], end: Mapping[Place, int], what: str) -> Iterator[str]:
    """An offset that is not written yet: somebody meant another topic, or an earlier life of this one."""
    for place in sorted(begin):
        if begin[place] > end[place]:
            yield f"{place} ends at {end[place]}, before the offset {begin[place]} to {what} at."


def refuse(told: Iterator[str]) -> None:
    """Raises with the first thing that is lost."""
    for one in told:
        raise DataLost(f"{one} To go on without it, set failOnDataLoss to false.")


def report(told: Iterator[str], fail: bool) -> None:
    """Raises with the first thing that is lost, or warns of each."""
    if fail:
        refuse(told)
    for one in told:
        log.warning("Data was lost: %s", one)


def _remade(start: QueryMark, end: QueryMark) -> set[Place]:
    ids = start.ids
    return {place for place in start.to.keys() & end.to.keys() if ids.get(place.topic) != end.ids.get(place.topic)}
