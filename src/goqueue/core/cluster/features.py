"""Which features of a cluster are on: those that every node knows, at the level that all of them know. Pure.

A node that is away may come back as it was. So nothing is switched on while a member is missing, and nothing is ever
switched off: a node that does not know what is on does not join.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import FeatureLevels, NodeRecord


def raised(image: Image, living: Mapping[int, NodeRecord]) -> FeatureLevels | None:
    """What is to be on from now; None if that is what is on."""
    if not living or any(member not in living for member in image.members()):
        return None
    now = image.features()
    known = {name for one in living.values() for name in one.features}
    common = {name: min(one.features.get(name, 0) for one in living.values()) for name in sorted(known)}
    after = {**now, **{name: level for name, level in common.items() if level > now.get(name, 0)}}
    return None if after == now else FeatureLevels(after)


def waiting(image: Image) -> dict[str, list[int]]:
    """Features that a node knows at a level that is not on yet, each with the nodes that it waits for: those that do
    not know it, and members that are away."""
    nodes, now = image.nodes(), image.features()
    best = dict[str, int]()
    for one in nodes.values():
        for name, level in one.features.items():
            best[name] = max(level, best.get(name, 0))
    away = {member for member in image.members() if member not in nodes}
    return {
        name: sorted({node for node, one in nodes.items() if one.features.get(name, 0) < level} | away)
        for name, level in sorted(best.items())
        if level > now.get(name, 0)
    }


def unknown(levels: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """What is on and a node does not know."""
    return [f"{name} {level}" for name, level in sorted(levels.items()) if level > known.get(name, 0)]
