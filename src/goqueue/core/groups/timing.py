"""How often a group rebalanced and how long it took."""

from __future__ import annotations

from goqueue.base.ids import Millis
from goqueue.core.groups.replies import RebalanceStats


class RebalanceTiming:
    """Told when a rebalance begins and ends; a beginning within one belongs to it."""

    __slots__ = ("_count", "_finished_ms", "_last_ms", "_since")

    def __init__(self) -> None:
        self._count = 0
        self._last_ms: Millis | None = None
        self._finished_ms: Millis | None = None
        self._since: Millis | None = None

    def begin(self, now: Millis) -> None:
        if self._since is None:
            self._since = now

    def end(self, now: Millis) -> None:
        if self._since is not None:
            self._count += 1
            self._last_ms = max(0, now - self._since)
            self._finished_ms = now
            self._since = None

    def shift(self, by_ms: Millis) -> None:
        if self._since is not None:
            self._since += by_ms

    def stats(self, group: str) -> RebalanceStats:
        return RebalanceStats(group, self._count, self._last_ms, self._finished_ms, self._since)
