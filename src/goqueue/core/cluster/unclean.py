"""Leaders that lack something acknowledged, where everybody concerned asked for that. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.core.cluster.elections import elected, has_candidate
from goqueue.core.cluster.errors import ElectionNotNeeded, NoEligibleLeader
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NOBODY, NodeRecord, ShardRecord
from goqueue.core.cluster.shard_choice import UNCLEAN, may_be_unclean

__all__ = ["UNCLEAN", "chosen_uncleanly", "led_uncleanly"]


def led_uncleanly(
    image: Image, number: int, record: ShardRecord, living: Mapping[int, NodeRecord], default: bool
) -> ShardRecord | None:
    """If that is asked for, and once the sessions of all that have everything are over: a suspicion is not enough,
    since this loses what they have."""
    ready = {node: found for node, found in living.items() if not found.opening}
    unheard = image.nodes().keys() - ready.keys()
    if has_candidate(record, ready) or unheard.intersection((*record.in_sync, *record.eligible)):
        return None
    if not may_be_unclean(image, number, default):
        return None
    return elected(record, ready, unclean=True)


def chosen_uncleanly(image: Image, number: int, record: ShardRecord, default: bool) -> ShardRecord:
    """Led by one that lacks something, if nobody else can. `ElectionNotNeeded`, `NoEligibleLeader`."""
    living = image.nodes()
    if record.leader != NOBODY and record.leader in living:
        raise ElectionNotNeeded(f"Node {record.leader} leads already.")
    if has_candidate(record, living):
        raise ElectionNotNeeded("A replica that has everything is there, and leads in a moment.")
    found = led_uncleanly(image, number, record, living, default)
    if found is None or found.leader == NOBODY:
        raise NoEligibleLeader(
            f"No replica of shard {number} is there that may lead: not every topic in it has {UNCLEAN}=true, or nobody "
            "lives."
        )
    return found
