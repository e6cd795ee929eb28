"""Is the node fit to serve, and if not, why; and its numbers at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import GIB
from goqueue.base.tenants import tenant_of
from goqueue.drive.topic_table import TopicTable
from goqueue.log.disk import Usage
from goqueue.log.space import SpaceGuard
from goqueue.log.stats import StorageStats


class Check(msgspec.Struct, frozen=True):
    """One reason for or against readiness."""

    name: str
    ok: bool
    detail: str


class ProcessShare(msgspec.Struct, frozen=True):
    """One process of several of a machine."""

    uptime_ms: Millis
    messages: int
    size_bytes: int


class Stats(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node at a glance. `processes`, by their numbers, if there are several: then it is about all of them."""

    version: str
    uptime_ms: Millis
    topics: int
    partitions: int
    messages: int
    size_bytes: int
    disk: Usage
    storage: StorageStats
    processes: dict[int, ProcessShare] = {}


class Standing(Protocol):
    """What a node is to its cluster."""

    @property
    def is_held(self) -> bool:
        """The others count on it."""
        ...

    @property
    def is_leaving(self) -> bool:
        """It hands over what it leads."""
        ...

    def lagging(self) -> Sequence[int]:
        """Shards in which it is not in sync."""
        ...


class Health:
    """Looks, never changes anything else."""

    def __init__(
        self,
        table: TopicTable,
        space: SpaceGuard,
        stats: StorageStats,
        clock: SteadyClock,
        version: str,
        standing: Standing | None = None,
    ) -> None:
        """`standing` is that of a node of a cluster; a node that is alone has none."""
        self._table = table
        self._space = space
        self._stats = stats
        self._clock = clock
        self._version = version
        self._standing = standing
        self._started_ms = clock.monotonic_ms()
        self.stopping = False

    def stop(self) -> None:
        """The node takes no more work."""
        self.stopping = True

    def checks(self) -> list[Check]:
        usage = self._space.usage
        failed = [
            partition.at
            for topic in self._table.all()
            for partition in topic.partitions
            if partition.failure is not None
        ]
        return [
            Check("running", not self.stopping, "the node is stopping" if self.stopping else "accepting requests"),
            Check(
                "disk space",
                not self._space.is_full,
                f"{usage.used_percent:.0f} % used, {usage.free_bytes / GIB:.1f} GiB free",
            ),
            Check("logs", not failed, f"read-only after disk errors: {_told(failed)}" if failed else "writable"),
            *self._cluster(),
        ]

    def _cluster(self) -> Iterator[Check]:
        """A node that is behind is not ready, so that nobody stops the next one before it has caught up."""
        if self._standing is None:
            return
        is_joined, is_leaving = self._standing.is_held, self._standing.is_leaving
        yield Check("cluster", is_joined, "joined" if is_joined else "not registered with the metadata store")
        yield Check("leading", not is_leaving, "hands over what it leads" if is_leaving else "may lead")
        behind = ", ".join(map(str, self._standing.lagging()))
        yield Check(
            "in sync", not behind, f"not in sync yet: shards {behind}" if behind else "everything that it holds"
        )

    def stats(self) -> Stats:
        topics = [topic for topic in self._table.all() if not topic.is_internal]
        partitions = [partition for topic in topics for partition in topic.partitions]
        return Stats(
            version=self._version,
            uptime_ms=self._clock.monotonic_ms() - self._started_ms,
            topics=len(topics),
            partitions=len(partitions),
            messages=sum(one.message_count for one in partitions),
            size_bytes=sum(one.size_bytes for one in partitions),
            disk=self._space.usage,
            storage=self._stats,
        )


def _told(places: Sequence[TopicPartition]) -> str:
    """Everybody may ask, so what tenants have is counted, not named."""
    named = [str(one) for one in places if not tenant_of(one.topic)]
    count = len(places) - len(named)
    return ", ".join([*named, *([f"{count} of tenants"] if count else [])])
