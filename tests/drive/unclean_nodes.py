"""What a start of a node does off its loop, in a walk that says when it goes on; and fetches on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Offset
from goqueue.base.log_settings import LogSettings
from goqueue.base.replication import ShardAnswer, ShardFetch
from goqueue.drive.cleaner import Cleaner
from goqueue.drive.flusher import Flusher
from goqueue.drive.leading_shard import HeardFetch
from goqueue.drive.log_syncs import LogSyncs
from goqueue.drive.partition import Partition
from goqueue.drive.replica_fetches import FollowedShard
from goqueue.log.partition_log import PartitionLog
from tests.drive.replicas import SHARD, SmallLog, SmallNode

if TYPE_CHECKING:
    from tests.drive.unclean_world import UncleanCluster

T = TypeVar("T")


class Slow:
    """Work off the loop, of one start of a node: it waits before and after until the walk lets it go on."""

    def __init__(self, cluster: UncleanCluster) -> None:
        self._cluster = cluster
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_over = False

    async def __call__(self, work: Callable[[], T]) -> T:
        await self._pause()
        result = work()
        await self._pause()
        return result

    async def _pause(self) -> None:
        if self.is_over:
            raise asyncio.CancelledError
        if self._cluster.is_healed or self._cluster.random.random() < 0.6:
            return
        waits = asyncio.get_running_loop().create_future()
        self._waiting.append(waits)
        await waits

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._cluster.failures.append(error)

    def go_on(self) -> None:
        if waiting := [one for one in self._waiting if not one.done()]:
            self._cluster.random.choice(waiting).set_result(None)
        self._waiting = [one for one in waiting if not one.done()]

    def go_on_with_all(self) -> None:
        while self._waiting:
            self.go_on()

    def die(self) -> None:
        self.is_over = True
        for one in [*self._waiting, *self._tasks]:
            one.cancel()


class Synced(NamedTuple):
    """A log as `LogSyncs` sees it."""

    small: SmallLog
    node: SmallNode
    is_closed: bool = False

    @property
    def log(self) -> PartitionLog:
        return self.small.log

    def synced(self) -> None:
        if (shard := self.node.leads.get(SHARD)) is not None:
            shard.synced(self.small.key)


class Background:
    """What a start of a node does beside the fetches: the real `Cleaner`, and around it what a node has in larger."""

    def __init__(self, cluster: UncleanCluster, node: SmallNode) -> None:
        self.slow = Slow(cluster)
        self._cluster, self._node = cluster, node
        clock = SteadyClock(cluster.clock)
        self.cleaner = Cleaner(list, cast(Flusher, self), self.slow, clock, LogSettings())  # which asks to `seal` alone
        self._sealing = asyncio.Lock()
        self._dropping: set[SmallLog] = set()
        self._syncs = LogSyncs(self.slow)
        self._syncing: set[SmallLog] = set()

    async def seal(self, log: SmallLog) -> None:
        """As `Flusher` does."""
        async with self._sealing:
            while (job := log.log.begin_seal()) is not None:
                try:
                    await self.slow(job.run)
                except OSError:
                    if job.segment in log.log.segments:
                        raise
                    continue  # the log begins behind it by now
                log.log.finish_seal(job)

    def begin_at(self, log: SmallLog, start: Offset) -> None:
        """As `ClusterShards` does."""
        if log not in self._dropping:
            self._dropping.add(log)
            self.slow.spawn(self._begin_at(log, start))

    async def _begin_at(self, log: SmallLog, start: Offset) -> None:
        try:
            await self.cleaner.drop_head(cast(Partition, log), start)
        finally:
            self._dropping.discard(log)

    def delete(self, log: SmallLog, to: Offset) -> None:
        self.slow.spawn(self.cleaner.delete_head(cast(Partition, log), to))

    def sync(self) -> None:
        for log in self._node.logs.values():
            if log not in self._syncing:
                self._syncing.add(log)
                self.slow.spawn(self._sync(log))

    async def _sync(self, log: SmallLog) -> None:
        try:
            await self._syncs.sync(cast(Partition, Synced(log, self._node)))
        finally:
            self._syncing.discard(log)

    def retain(self, log: SmallLog, count: int) -> None:
        """So many segments go, of which this replica alone thinks that they are old."""
        self.slow.spawn(self._retain(log, count))

    async def _retain(self, log: SmallLog, count: int) -> None:
        async with self.cleaner.quiet():
            await self.seal(log)
            bases = [one.base_offset for one in log.log.segments[: count + 1]]
            if bases and (start := min(bases[-1], log.high_watermark)) > log.start_offset:
                self._cluster.ledger.retained(self._node, log, start)
                await self.slow(log.log.begin_drop_head(start).run)


class Flight:
    """A fetch on its way, or its answer."""

    def __init__(self, by: SmallNode, to: SmallNode, followed: FollowedShard, asked: ShardFetch) -> None:
        self.by, self.to, self.followed, self.asked = by, to, followed, asked
        self.starts = by.me, to.me
        self.heard: HeardFetch | None = None
        self.answer: ShardAnswer | None = None

    @property
    def is_lost(self) -> bool:
        """One of the two was started again, or is not there: so is the connection."""
        return not (self.by.is_up and self.to.is_up) or self.starts != (self.by.me, self.to.me)
