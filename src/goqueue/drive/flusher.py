"""One group commit for all partitions: whoever is dirty when a round begins is made safe by it.

`always`: an answer waits for the next round, rounds follow each other without pause. `interval`: a round every so
often, whether or not anybody still appends, so an idle tail is safe too; `always` does so with what nobody waits for.
`never`: no rounds. Rolled segments are sealed beside it under every policy. A failed sync makes the partition
read-only: its pages may be gone.

Under `always` a round writes what all logs got since the last one into the journal, with one sync, and the logs
themselves are synced later. A log that got much, or whose file is new, is synced itself; who waits for another log does
not wait for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from goqueue.base.errors import ShuttingDown, StorageFailed
from goqueue.base.ids import Offset
from goqueue.base.limits import JOURNALED_BYTES_MAX
from goqueue.base.log_settings import LogSettings
from goqueue.drive.log_syncs import LogSyncs
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.settling import Settler
from goqueue.drive.sync_place import SyncPlace
from goqueue.log.home import NO_RESOURCES, NO_SPACE
from goqueue.log.journal import JournalJob, LogJournal
from goqueue.log.journal_share import JournalShare

logger = logging.getLogger(__name__)

_RETRY_S = 1.0


class Flusher:
    """Started once; `stop` leaves everything synced and sealed."""

    def __init__(
        self, settings: LogSettings, offload: Offload, journal: LogJournal, on_sync: Callable[[float], None]
    ) -> None:
        self._policy = settings.fsync
        self._interval_s = settings.fsync_interval_ms / 1000
        self._offload = offload
        self._journal = journal
        self._on_sync = on_sync
        self._syncs = LogSyncs(offload)
        self._settler = Settler(journal, self._syncs)
        self._place = SyncPlace(offload)
        self._dirty: dict[Partition, None] = {}
        self._beside: dict[Partition, asyncio.Task[None]] = {}  # logs that are synced themselves, beside the rounds
        self._to_seal: dict[Partition, None] = {}
        self._waiting: list[asyncio.Future[None]] = []  # for a round that begins after now
        self._rounds: asyncio.Task[None] | None = None
        self._wake_seal = asyncio.Event()
        self._wake_sync = asyncio.Event()
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
        await self._join_round()
        await self._wait_beside()
        await self._settler.end()

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
        log, end = partition.log, partition.log.end_offset
        await self._round_after_now()
        await self._wait_itself(partition, end)
        if log.synced_offset < end and not partition.is_closed:
            raise log.failure or log.sync_refusal or StorageFailed("Nobody knows whether it is safe; try again.")

    async def force(self) -> None:
        """Waits for a round that began after now, under every policy."""
        await self._round_after_now()
        await self._wait_beside()

    def is_durable(self, partition: Partition) -> bool:
        return self._policy != "always" or partition.log.synced_offset >= partition.log.end_offset

    async def _round_after_now(self) -> None:
        if self._stopping:
            raise ShuttingDown("The node is stopping; send the request to it again later.")
        await self._join_round()

    async def _join_round(self) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(done)
        if self._rounds is None:
            self._rounds = loop.create_task(self._run_rounds())
        await done

    async def _wait_itself(self, partition: Partition, end: Offset) -> None:
        """For the sync of the log itself that reaches the offset, if that is not safe yet."""
        while partition.log.synced_offset < end:
            under_way = self._syncs.under_way(partition) or self._beside.get(partition)
            if under_way is None:
                return
            await asyncio.wait([under_way])

    async def _wait_beside(self) -> None:
        if self._beside:
            await asyncio.wait(list(self._beside.values()))

    def forget(self, partition: Partition) -> None:
        """The partition is being deleted."""
        self._dirty.pop(partition, None)
        self._to_seal.pop(partition, None)
        self._settler.forget(partition)

    # --- rounds --------------------------------------------------------------------------------------------

    async def _sync_loop(self) -> None:
        """What nobody waits for, and what the journal made safe. Under `never` nothing but the stop."""
        timeout_s = None if self._policy == "never" else self._interval_s
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake_sync.wait()
            self._wake_sync.clear()
            if self._dirty:
                with contextlib.suppress(StorageFailed):  # it was told, and is done again
                    await self._join_round()
            await self._settler.settle()

    async def _run_rounds(self) -> None:
        """One behind the other, while anybody waits."""
        try:
            while self._waiting:
                await self._round()
        finally:
            self._rounds = None

    async def _round(self) -> None:
        waiting, self._waiting = self._waiting, []
        dirty, self._dirty = self._dirty, {}
        try:
            if dirty:
                started = time.perf_counter()
                await self._make_safe(dirty)
                self._on_sync(time.perf_counter() - started)
        except Exception:  # else nobody would be answered any more, and nothing be safe
            logger.exception("a round of syncs failed; the next one does it again")
            self._dirty.update(dirty)
            failure = StorageFailed("Nobody knows whether it is safe; try again.")
            for one in waiting:
                if not one.done():
                    one.set_exception(failure)
            return
        for one in reversed(waiting):  # a poll that a message woke came after it, and a consumer waits for that
            if not one.done():
                one.set_result(None)

    async def _make_safe(self, dirty: Mapping[Partition, None]) -> None:
        shares = self._shares(dirty)
        job = self._journal.begin(list(shares.values())) if shares else None
        if job is None or not job.shares:
            shares = {}
        itself = [partition for partition in dirty if partition not in shares]
        if not self._journal.is_open:
            await self._sync_all(itself)
            return
        for partition in itself:
            self._sync_beside(partition)
        if job is not None:
            await self._write(job, shares)

    def _sync_beside(self, partition: Partition) -> None:
        """One that is under way may have begun too early; this one waits for it."""
        task = asyncio.get_running_loop().create_task(self._sync_one(partition))
        self._beside[partition] = task
        task.add_done_callback(lambda done: self._beside.get(partition) is done and self._beside.pop(partition))

    def _shares(self, dirty: Mapping[Partition, None]) -> dict[Partition, JournalShare]:
        """What goes into the journal."""
        if not self._journal.is_open:
            return {}
        shares = ((partition, partition.log.mark.begin(JOURNALED_BYTES_MAX)) for partition in dirty)
        return {partition: share for partition, share in shares if share is not None}

    async def _write(self, job: JournalJob, shares: Mapping[Partition, JournalShare]) -> None:
        try:
            await self._place.run(job)
        except OSError as error:
            self._journal.fail(error)
            await self._sync_all(shares)
            return
        self._journal.finish(job)
        for partition, share in shares.items():
            partition.log.finish_journal(share)
            self._settler.note(partition)
            partition.synced()
        if self._journal.is_filling:
            self._wake_sync.set()

    async def _sync_all(self, partitions: Iterable[Partition]) -> None:
        await asyncio.gather(*(self._sync_one(partition) for partition in partitions))

    async def _sync_one(self, partition: Partition) -> None:
        if not await self._syncs.sync(partition) and partition.log.failure is None:
            self._dirty[partition] = None

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
            except StorageFailed:
                self._seal_later(partition)
                return
            except OSError as error:
                if job.segment not in log.segments:
                    continue  # the log begins behind it by now
                if error.errno in (*NO_SPACE, *NO_RESOURCES) and not job.sync_failed:
                    self._seal_later(partition)
                elif not partition.is_closed:
                    log.fail(error)
                return
            log.finish_seal(job)

    def _seal_later(self, partition: Partition) -> None:
        """No room for the notes about a segment: its messages are where they were, and readers need no seal."""
        logger.warning("a segment cannot be sealed now; tried again", extra={"partition": str(partition.at)})
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
            await self._syncs.sync(partition)
            return
        end = partition.log.end_offset
        await self._join_round()
        await self._wait_itself(partition, end)
