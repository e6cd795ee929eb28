"""Where a read begins, in offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.base.times import time_text
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.edges import Edge, Moment, StartingOffsets, Times, each_of, times_of
from goqueue.pipeline.source.errors import NoSuchTime
from goqueue.pipeline.source.offsets import EARLIEST, LATEST, Positions

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster


def starting(cluster: Cluster, ends: Mapping[Place, int], edge: Edge, unmatched: str) -> Positions:
    """An offset for each partition of `ends`, which are the latest offsets.

    `unmatched` says what a time younger than all messages means: `error`, or `latest`.
    """
    if isinstance(edge, StartingOffsets):
        return _from_offsets(cluster, ends, each_of(list(ends), edge))
    if isinstance(edge, Times | Moment):
        return _from_times(cluster, ends, times_of(list(ends), edge), unmatched)
    return cluster.earliest(list(ends)) if edge == "earliest" else dict(ends)


def _from_offsets(cluster: Cluster, ends: Mapping[Place, int], each: Positions) -> Positions:
    firsts = cluster.earliest([place for place, offset in each.items() if offset == EARLIEST])
    lasts = {place: ends[place] for place, offset in each.items() if offset == LATEST}
    return {**each, **firsts, **lasts}


def _from_times(cluster: Cluster, ends: Mapping[Place, int], times: Positions, unmatched: str) -> Positions:
    found = cluster.at_time(list(times), times)
    younger = sorted(place for place in times if found[place] is None)
    if younger and unmatched == "error":
        raise NoSuchTime(
            f"{younger[0]} has no message from {time_text(times[younger[0]])} or later to start with. Start earlier, "
            "or set startingOffsetsByTimestampStrategy to 'latest' to wait for the first one."
        )
    return {place: within(found[place], ends[place]) for place in times}


def within(found: int | None, end: int) -> int:
    """An offset found by time, or the end: it may lie in a transaction that is still open, behind what can be read."""
    return end if found is None else min(found, end)
