"""Group commit: all who append to a partition while it is being synced share its next sync.

`always`: an answer waits for a sync that began after its append; partitions do not wait for each other. `interval`: all
that is dirty is synced every so often, whether or not anybody still appends, so an idle tail is safe too; `always` does
so with what nobody waits for. `never`: no syncs but at the end. Rolled segments are sealed beside it under every
policy. A failed sync makes the partition read-only: its pages may be gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from goqueue.base.errors import ShuttingDown
from goqueue.base.settings import LogSettings
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.log.jobs import SyncJob

logger = logging.getLogger(__name__)


class Flusher:
    """Started once; `stop` leaves everything synced and sealed."""

    def __init__(self, settings: LogSettings, offload: Offload, on_sync: Callable[[float], None]) -> None:
        self._policy = settings.fsync
        self._interval_s = settings.fsync_interval_ms / 1000
        self._offload = offload
        self._on_sync = on_sync
        self._dirty: dict[Partition, None] = {}
        self._to_seal: dict[Partition, None] = {}
        self._next: dict[Partition, asyncio.Future[None]] = {}  # syncs that somebody waits for, and that did not begin
        self._syncing: dict[Partition, asyncio.Task[None]] = {}
        self._wake_sync = asyncio.Event()
        self._wake_seal = asyncio.Event()
        self._sealing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._sync_loop()), asyncio.create_task(self._seal_loop())]

    async def stop(self) -> None:
        """Ends the loops, then syncs everything a last time."""
        self._stopping = True
        self._wake_sync.set()
        self._wake_seal.set()
        await asyncio.gather(*self._tasks)
        await self._seal_all()
        await self._sync_all()

    # --- what partitions ask -------------------------------------------------------------------------------

    def note_append(self, partition: Partition) -> None:
        self._dirty[partition] = None
        if partition.log.wants_seal:
            self.note_roll(partition)

    def note_roll(self, partition: Partition) -> None:
        self._to_seal[partition] = None
        self._wake_seal.set()

    async def settle(self, partition: Partition) -> None:
        """Under `always`, waits for a sync that began after now. Raises what became of the partition."""
        if self.is_settled(partition):
            return
        self._refuse_at_the_end()
        await self._sync_after_now(partition)
        if partition.log.failure is not None:
            raise partition.log.failure

    async def force(self) -> None:
        """Waits until all that was appended before now is safe, under every policy."""
        self._refuse_at_the_end()
        await self._sync_all()

    def is_settled(self, partition: Partition) -> bool:
        return self._policy != "always" or partition.log.synced_offset >= partition.log.end_offset

    def _refuse_at_the_end(self) -> None:
        if self._stopping:
            raise ShuttingDown("The node is stopping; send the request to it again later.")

    def forget(self, partition: Partition) -> None:
        """The partition is being deleted."""
        self._dirty.pop(partition, None)
        self._to_seal.pop(partition, None)

    # --- syncs ---------------------------------------------------------------------------------------------

    async def _sync_loop(self) -> None:
        while not self._stopping:
            await self._pause()
            await self._sync_all()

    async def _pause(self) -> None:
        """Until the interval is over or the node stops."""
        timeout_s = None if self._policy == "never" else self._interval_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake_sync.wait(), timeout_s)

    async def _sync_all(self) -> None:
        await asyncio.gather(*(self._sync_after_now(partition) for partition in {**self._dirty, **self._syncing}))

    async def _sync_after_now(self, partition: Partition) -> None:
        waiting = self._next.get(partition)
        if waiting is None:
            waiting = self._next[partition] = asyncio.get_running_loop().create_future()
            if partition not in self._syncing:
                self._syncing[partition] = asyncio.create_task(self._sync_on(partition))
        await asyncio.shield(waiting)

    async def _sync_on(self, partition: Partition) -> None:
        """One sync after the other, until nobody waits for one."""
        while (waiting := self._next.pop(partition, None)) is not None:
            self._dirty.pop(partition, None)
            if (job := partition.log.begin_sync()) is not None:
                await self._sync_one(partition, job)
            waiting.set_result(None)
        del self._syncing[partition]

    async def _sync_one(self, partition: Partition, job: SyncJob) -> None:
        started = time.perf_counter()
        try:
            await self._offload(job.run)
        except OSError as why:
            if not partition.is_closed:
                partition.log.home.stats.sync_failures += 1
                partition.log.fail(why)
            return
        self._on_sync(time.perf_counter() - started)
        partition.log.finish_sync(job)
        partition.synced()

    # --- seals ---------------------------------------------------------------------------------------------

    async def _seal_loop(self) -> None:
        while not self._stopping:
            await self._wake_seal.wait()
            self._wake_seal.clear()
            await self._seal_all()

    async def _seal_all(self) -> None:
        while self._to_seal:
            partition, _ = self._to_seal.popitem()
            await self.seal(partition)

    async def seal(self, partition: Partition) -> None:
        """Seals all rolled segments of a partition. Several may ask for it at once; one works."""
        async with self._sealing:
            await self._seal(partition)

    async def _seal(self, partition: Partition) -> None:
        log = partition.log
        while log.failure is None and (job := log.begin_seal()) is not None:
            try:
                note_producers = partition.producers_job()
                await self._sync_for_snapshot(partition)
                await self._offload(note_producers)
                await self._offload(job.run)
            except OSError as why:
                if not partition.is_closed:
                    log.fail(why)
                return
            log.finish_seal(job)

    async def _sync_for_snapshot(self, partition: Partition) -> None:
        """A snapshot of producers must not outlive batches that it knows of."""
        if partition.log.synced_offset < partition.log.end_offset:
            await self._sync_after_now(partition)
