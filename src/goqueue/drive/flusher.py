"""One group commit for all partitions: whoever is dirty when a round begins is made safe by it.

`always`: an answer waits for the next round, rounds follow each other without pause. `interval`: a round every so
often, whether or not anybody still appends, so an idle tail is safe too; `always` does so with what nobody waits for.
`never`: no rounds. Rolled segments are sealed beside it under every policy. A failed sync makes the partition
read-only: its pages may be gone.

Rounds are for all because the disk's journal is: files that are synced at one time share its commits. Syncing each
partition as soon as it could be made a poll under `always` five times slower.
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
from goqueue.log.home import NO_RESOURCES, NO_SPACE
from goqueue.log.jobs import SyncJob

logger = logging.getLogger(__name__)

_RETRY_S = 1.0


class Flusher:
    """Started once; `stop` leaves everything synced and sealed."""

    def __init__(self, settings: LogSettings, offload: Offload, on_sync: Callable[[float], None]) -> None:
        self._policy = settings.fsync
        self._interval_s = settings.fsync_interval_ms / 1000
        self._offload = offload
        self._on_sync = on_sync
        self._dirty: dict[Partition, None] = {}
        self._to_seal: dict[Partition, None] = {}
        self._next_round: asyncio.Future[None] | None = None
        self._wake_sync = asyncio.Event()
        self._wake_seal = asyncio.Event()
        self._sealing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._sync_loop()), asyncio.create_task(self._seal_loop())]

    async def stop(self) -> None:
        """Ends the loops after a last round over everything."""
        self._stopping = True
        self._wake_sync.set()
        self._wake_seal.set()
        await asyncio.gather(*self._tasks)
        await self._seal_all()
        await self._round()

    # --- what partitions ask -------------------------------------------------------------------------------

    def note_append(self, partition: Partition) -> None:
        self._dirty[partition] = None
        if partition.log.wants_seal:
            self.note_roll(partition)

    def note_roll(self, partition: Partition) -> None:
        self._to_seal[partition] = None
        self._wake_seal.set()

    async def wait_durable(self, partition: Partition) -> None:
        """Under `always`, waits for a round that began after now. Raises what became of the partition."""
        if self.is_durable(partition):
            return
        await self._round_after_now()
        if (error := partition.log.failure or partition.log.sync_refusal) is not None:
            raise error

    async def force(self) -> None:
        """Waits for a round that began after now, under every policy."""
        await self._round_after_now()

    def is_durable(self, partition: Partition) -> bool:
        return self._policy != "always" or partition.log.synced_offset >= partition.log.end_offset

    async def _round_after_now(self) -> None:
        if self._stopping:
            raise ShuttingDown("The node is stopping; send the request to it again later.")
        if self._next_round is None:
            self._next_round = asyncio.get_running_loop().create_future()
        self._wake_sync.set()
        await asyncio.shield(self._next_round)

    def forget(self, partition: Partition) -> None:
        """The partition is being deleted."""
        self._dirty.pop(partition, None)
        self._to_seal.pop(partition, None)

    # --- rounds --------------------------------------------------------------------------------------------

    async def _sync_loop(self) -> None:
        while not self._stopping:
            await self._pause()
            await self._round()

    async def _pause(self) -> None:
        """Until the next round: somebody waits for it, the interval is over, or the node stops."""
        timeout_s = None if self._policy == "never" else self._interval_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake_sync.wait(), timeout_s)
        self._wake_sync.clear()

    async def _round(self) -> None:
        waiting, self._next_round = self._next_round, None
        dirty, self._dirty = self._dirty, {}
        jobs = [(partition, job) for partition in dirty if (job := partition.log.begin_sync()) is not None]
        if jobs:
            started = time.perf_counter()
            await asyncio.gather(*(self._sync_one(partition, job) for partition, job in jobs))
            self._on_sync(time.perf_counter() - started)
        if waiting is not None:
            waiting.set_result(None)

    async def _sync_one(self, partition: Partition, job: SyncJob) -> None:
        try:
            await self._offload(job.run)
        except OSError as error:
            if error.errno in NO_RESOURCES and not job.sync_failed:
                logger.warning("out of resources, sync tried again", extra={"partition": str(partition.at)})
                partition.log.refuse_sync(job, error)
                self._dirty[partition] = None
            elif not partition.is_closed:
                partition.log.home.stats.sync_failures += 1
                partition.log.fail(error)
            return
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
                note_producers = partition.producers.snapshot_job()
                await self._sync_for_snapshot(partition)
                await self._offload(note_producers)
                await self._offload(job.run)
            except OSError as error:
                if error.errno in (*NO_SPACE, *NO_RESOURCES) and not job.sync_failed:
                    self._seal_later(partition)
                elif not partition.is_closed:
                    log.fail(error)
                return
            log.finish_seal(job)

    def _seal_later(self, partition: Partition) -> None:
        """No room for the notes about a segment: its messages are where they were, and readers need no seal."""
        logger.warning("no space to seal a segment; tried again", extra={"partition": str(partition.at)})
        if not self._stopping:
            asyncio.get_running_loop().call_later(_RETRY_S, self._seal_again, partition)

    def _seal_again(self, partition: Partition) -> None:
        if not partition.is_closed:
            self.note_roll(partition)

    async def _sync_for_snapshot(self, partition: Partition) -> None:
        """A snapshot of producers must not outlive batches that it knows of."""
        if partition.log.synced_offset >= partition.log.end_offset:
            return
        if self._policy == "never":
            if (job := partition.log.begin_sync()) is not None:
                await self._sync_one(partition, job)
        elif self._stopping:
            await self._round()
        else:
            await self._round_after_now()
