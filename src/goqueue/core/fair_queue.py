"""A line in which those that wait take turns, so that all get the same part of a node's time.

Start-time fair queueing: each has a count of what it used. Of those with something in the line, whoever used least is
next. Who begins to wait is set to no less than whoever was served last had: time in which it asked for nothing is not
saved up, and what it used while it was alone is not held against it.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

from goqueue.base.limits import FAIR_SHARES_KNOWN_MAX

T = TypeVar("T")

_NEWEST: Final = 0.25  # how much the latest request counts in the mean cost of requests


class Share(Generic[T]):
    """What one of them used, what a request of it usually costs, and what it has in the line."""

    __slots__ = ("entries", "is_queued", "name", "request_cost", "used")

    def __init__(self, name: str, used: float, request_cost: float) -> None:
        self.name = name
        self.used = used
        self.request_cost = request_cost
        self.entries: deque[T] = deque()
        self.is_queued = False

    def request_over(self, cost: float) -> None:
        """A request of it cost so much in all."""
        self.request_cost += (cost - self.request_cost) * _NEWEST


class FairQueue(Generic[T]):
    """Costs are in any unit that is the same for all."""

    def __init__(self, request_cost: float) -> None:
        """`request_cost` is what a request of somebody new is taken to cost."""
        self._request_cost = request_cost
        self._known: dict[str, Share[T]] = {}
        self._heap: list[tuple[float, int, Share[T]]] = []  # with what they had used when they were put there
        self._number = 0
        self._floor = 0.0  # what whoever was served last had used

    @property
    def is_empty(self) -> bool:
        return not self._heap

    def share(self, name: str) -> Share[T]:
        share = self._known.get(name)
        if share is None:
            if len(self._known) >= FAIR_SHARES_KNOWN_MAX:  # who waits for nothing begins as somebody new does
                self._known = {one.name: one for _, _, one in self._heap}
            share = self._known[name] = Share(name, self._floor, self._request_cost)
        return share

    def push(self, share: Share[T], entry: T) -> None:
        """Behind what its own share has in the line."""
        share.entries.append(entry)
        if not share.is_queued:
            self._queue(share)

    def pop(self) -> tuple[Share[T], T] | None:
        """The oldest entry of whoever used least; None if nobody waits."""
        share = self._next()
        if share is None:
            return None
        heappop(self._heap)
        self._floor = max(self._floor, share.used)
        share.is_queued = False
        entry = share.entries.popleft()
        if share.entries:
            self._queue(share)
        return share, entry

    def would_be_next(self, share: Share[T]) -> bool:
        """Whether somebody of it who began to wait now would be before all others."""
        if share.is_queued:
            return False
        first = self._next()
        return first is None or max(share.used, self._floor) <= first.used

    def _next(self) -> Share[T] | None:
        while self._heap:
            used, number, share = self._heap[0]
            if share.used == used:
                return share
            heapreplace(self._heap, (share.used, number, share))  # it was charged since
        return None

    @property
    def is_shared(self) -> bool:
        """Whether several wait."""
        return len(self._heap) > 1

    def has_others(self, share: Share[T]) -> bool:
        """Whether anybody else waits."""
        return len(self._heap) > int(share.is_queued)

    def charge(self, share: Share[T], cost: float) -> None:
        """What is used while nobody waits is taken from nobody: the floor goes along, and nobody is owed it later."""
        used = max(share.used, self._floor)
        if not self._heap:
            self._floor = used
        share.used = used + cost

    def _queue(self, share: Share[T]) -> None:
        share.is_queued = True
        share.used = max(share.used, self._floor)
        self._number += 1
        heappush(self._heap, (share.used, self._number, share))
