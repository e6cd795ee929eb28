"""Where a batch read ends, in offsets; the offset itself is not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.edges import Edge, Moment, StartingOffsets, Times, each_of, times_of
from goqueue.pipeline.source.offsets import LATEST, Positions
from goqueue.pipeline.source.starting import within

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster


def ending(cluster: Cluster, ends: Mapping[Place, int], edge: Edge) -> Positions:
    """An offset for each partition of `ends`, the latest ones. A time younger than all messages means the end."""
    if isinstance(edge, StartingOffsets):
        told = each_of(list(ends), edge)
        return {place: end if told[place] == LATEST else told[place] for place, end in ends.items()}
    if isinstance(edge, Times | Moment):
        found = cluster.at_time(list(ends), times_of(list(ends), edge))
        return {place: within(found[place], end) for place, end in ends.items()}
    return dict(ends)
