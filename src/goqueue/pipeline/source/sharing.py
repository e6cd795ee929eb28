"""How much of the backlog one trigger takes: at most so many offsets, and not before there are so many."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.offsets import Positions


def backlog_of(begin: Mapping[Place, int], end: Mapping[Place, int]) -> Positions:
    """The partitions that have something to read, and how many offsets."""
    return {place: end[place] - begin[place] for place in sorted(end) if end[place] > begin[place]}


def share_out(most: int, begin: Mapping[Place, int], end: Mapping[Place, int]) -> Positions:
    """Where a trigger of at most `most` offsets ends: each partition gets its part in proportion to its backlog.

    Nobody is starved: each partition with a backlog gets one offset at least, even if there are more of them than
    `most`. Beyond that no trigger is larger, and none smaller while there is more to read.
    """
    backlog = backlog_of(begin, end)
    if sum(backlog.values()) <= most:
        return dict(end)
    shares = _in_proportion(max(0, most - len(backlog)), {place: size - 1 for place, size in backlog.items()})
    return {place: begin[place] + 1 + shares[place] if place in backlog else end[place] for place in end}


def _in_proportion(total: int, sizes: Mapping[Place, int]) -> Positions:
    """Whole parts of `total`; what rounding leaves goes to those who lost most by it, the first ones first."""
    whole = sum(sizes.values())
    if not whole:
        return dict.fromkeys(sizes, 0)
    shares = {place: total * size // whole for place, size in sizes.items()}
    unlucky = sorted(sizes, key=lambda place: (-(total * sizes[place] % whole), place))
    for place in unlucky[: total - sum(shares.values())]:
        shares[place] += 1
    return shares


def is_held(rows: int, least: int, waited_ms: float, patience_ms: int) -> bool:
    """Whether a trigger should wait for more: fewer than `least` are there, and it has not waited for too long."""
    return rows < least and waited_ms < patience_ms
