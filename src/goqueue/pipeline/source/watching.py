"""What there is to read right now. An idle query asks some ninety times a second; the node is asked far less often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.source.offsets import Positions
from goqueue.pipeline.source.subscription import FoundTopics, SourceSubscription

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster

ENDS_S: Final = 0.1  # how old the ends of the logs may be: less than a micro-batch costs
TOPICS_S: Final = 1.0  # how old the list of topics and partitions may be


class PartitionEnds(msgspec.Struct, frozen=True):
    """The ends of all partitions that are there, and what was asked for by name and is not."""

    ends: Positions
    ids: dict[str, str]
    missing: tuple[str, ...] = ()


class Watch:
    """Looks again only when what it saw is too old."""

    def __init__(
        self, cluster: Cluster, what: SourceSubscription, isolation: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._what = what
        self._isolation = isolation
        self._clock = clock
        self._found: FoundTopics | None = None
        self._found_at = 0.0
        self._view: PartitionEnds | None = None
        self._seen_at = 0.0

    def view(self) -> PartitionEnds:
        """At most `ENDS_S` old; a topic or partition that is new may take `TOPICS_S` to show up."""
        if self._view is None or self._clock() - self._seen_at >= ENDS_S:
            self._view = self._look()
            self._seen_at = self._clock()
        return self._view

    def fresh(self) -> PartitionEnds:
        """As it is now, with everything that is there now."""
        self._found = self._view = None
        return self.view()

    def _look(self) -> PartitionEnds:
        found = self._topics()
        try:
            ends = self._cluster.latest(found.places, self._isolation)
        except TopicNotFound:  # deleted since the list was made
            self._found = None
            found = self._topics()
            ends = self._cluster.latest(found.places, self._isolation)
        return PartitionEnds(ends, found.ids, found.missing)

    def _topics(self) -> FoundTopics:
        if self._found is None or self._clock() - self._found_at >= TOPICS_S:
            self._found = self._what.find(self._cluster)
            self._found_at = self._clock()
        return self._found
