"""The follower's side of one log in one epoch: where its history parts from the leader's, and what it may append."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.base.ids import Epoch, Offset
from goqueue.core.replication.rules import ALL_RULES, ReplicationRule, Rules


class LogPlace(NamedTuple):
    """The end of a log, and the epoch of its last batch."""

    end: Offset
    last_epoch: Epoch


class Parting(NamedTuple):
    """The leader's answer to a place that is not on its history: the largest epoch that it knows up to the one asked
    for, and where that ends with it."""

    epoch: Epoch
    end: Offset


def parting(place: LogPlace, epoch: Epoch, end: Offset) -> Parting | None:
    """As the leader sees it; `epoch` and `end` are what its own history answers for the place's last epoch."""
    return Parting(epoch, end) if place.end and (epoch != place.last_epoch or end < place.end) else None


def cut_at(place: LogPlace, told: Parting, own: Parting, high_watermark: Offset, rules: Rules = ALL_RULES) -> Offset:
    """Where the follower cuts; `own` is what its own history answers for the leader's epoch. It asks again afterwards:
    several epochs may have to go, one after the other."""
    if ReplicationRule.CUT_AT_EPOCH not in rules:
        return min(high_watermark, place.end)
    return min(told.end, own.end, place.end)
