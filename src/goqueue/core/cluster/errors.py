"""Why no leader is elected though somebody asks for it."""

from __future__ import annotations

from goqueue.base.errors import Conflict, Unavailable


class ElectionNotNeeded(Conflict):
    """The one that is to lead leads already."""


class PreferredLeaderAbsent(Unavailable):
    """The replica that is named first is not there, or not in sync."""


class NoEligibleLeader(Unavailable):
    """No replica that may lead is there."""
