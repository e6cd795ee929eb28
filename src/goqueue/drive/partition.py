"""Runs one partition: appends to its log, moves its marks, wakes who waits for data, reads off the loop if it must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from goqueue.base.commands import Acks, Isolation
from goqueue.base.errors import DamagedRange, GoQueueError, LeaderChanged, NotLeader, TakingOver, UnknownTopic
from goqueue.base.ids import Epoch, Millis, Offset, TopicPartition
from goqueue.base.limits import BATCH_BYTES_MAX
from goqueue.core.dedupe import Dedupe, StoredBatch
from goqueue.core.partition import PartitionState
from goqueue.drive.offload import Offload
from goqueue.drive.partition_marks import PartitionMarks
from goqueue.drive.partition_producers import PartitionProducers
from goqueue.drive.producers import note_transaction, recover_producers
from goqueue.format.batch import BatchHeader, Buffer, read_header, split, verify
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import NeedsVerification, WouldBlock


class Syncs(Protocol):
    """The shared group commit, as a partition sees it."""

    def note_append(self, partition: Partition) -> None: ...

    def is_durable(self, partition: Partition) -> bool: ...

    async def wait_durable(self, partition: Partition) -> None: ...


class Leading(Protocol):
    """The shard that a partition is led in, where it has replicas: it is told what its log holds."""

    def appended(self, partition: Partition) -> None: ...

    def synced(self, partition: Partition) -> None: ...

    @property
    def has_others(self) -> bool:
        """Another replica has everything too."""
        ...

    @property
    def is_held(self) -> bool:
        """Nobody else can have been told to lead it by now."""
        ...


class Partition(PartitionMarks):
    """One partition of one topic."""

    __slots__ = ("_leading", "_offload", "_on_news", "_syncs", "_watchers", "dedupe", "is_closed", "producers")

    def __init__(
        self,
        at: TopicPartition,
        log: PartitionLog,
        state: PartitionState,
        dedupe: Dedupe,
        syncs: Syncs,
        offload: Offload,
    ) -> None:
        super().__init__(at, log, state)
        self.dedupe = dedupe
        self.producers = PartitionProducers(log, dedupe, state.txns, offload)
        self._syncs = syncs
        self._offload = offload
        self._watchers: list[asyncio.Future[None]] = []
        self._on_news: list[Callable[[], None]] = []
        self._leading: Leading | None = None
        self.is_closed = False

    # --- write -------------------------------------------------------------------------------------------

    def check_batch(self, header: BatchHeader, acks: Acks, min_insync_replicas: int) -> StoredBatch | None:
        """Where the producer's batch is stored already; None if it is new. An error word if it must not be stored."""
        self.state.check_acks(acks, min_insync_replicas)
        return self.dedupe.check(header)

    def append(self, batch: Buffer, header: BatchHeader, now: Millis, append_time: bool) -> Offset:
        """Puts a verified batch at the end and returns its base offset; safe only after `wait_durable`."""
        if self.is_closed:
            raise UnknownTopic(f"The topic {self.at.topic!r} was deleted.", field="topic")
        if not self.state.is_led:
            raise NotLeader(f"Another node leads {self.at}; ask for the leader again.")
        base_offset = self.log.append(batch, header, self.state.leader_epoch, now, append_time)
        self._note(batch, header, base_offset, now)
        self._syncs.note_append(self)
        if self._leading is not None:
            self._leading.appended(self)
        return base_offset

    def _note(self, batch: Buffer, header: BatchHeader, base_offset: Offset, now: Millis) -> None:
        """The batch is in the log there."""
        self.dedupe.appended(header, base_offset, now)
        if header.is_transactional:
            note_transaction(self.state.txns, self.dedupe, batch, header, base_offset)
        if self.state.appended(self.log.end_offset):
            self.wake()
        elif self.state.is_alone:
            self._tell_news()

    @property
    def is_durable(self) -> bool:
        if self.state.is_alone:
            return self._syncs.is_durable(self)
        return self.state.high_watermark >= self.log.end_offset

    @property
    def is_written(self) -> bool:
        return self._syncs.is_durable(self)

    async def wait_written(self) -> None:
        """Returns when all that was appended so far is on this node's disk, if that is asked for."""
        await self._syncs.wait_durable(self)

    async def wait_durable(self) -> None:
        """Returns when all that was appended so far is as safe as the node promises: on its disk if that is asked for,
        and with everybody who is in sync."""
        epoch, end = self.state.leader_epoch, self.log.end_offset
        await self._syncs.wait_durable(self)
        while not self.state.is_alone:
            # Looked at first: a high watermark of another leader's counts other messages than these.
            if self.state.leader_epoch != epoch or not self.state.is_led:
                raise LeaderChanged("Another node leads the partition now; this may have been done or not.")
            if self.state.high_watermark >= end:
                return
            if self.is_closed:
                raise LeaderChanged("The partition is closed; this may have been done or not.")
            moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.watch(moved)
            await moved

    # --- replicate ---------------------------------------------------------------------------------------

    def lead(self, leading: Leading | None) -> None:
        """Its shard is led here from now on, or no longer: whoever waits for replicas hears of it."""
        self._leading = leading
        self.state.is_led, self.state.is_served = leading is not None, False
        self.wake()

    @property
    def is_led(self) -> bool:
        return self.state.is_led

    def serve(self, is_served: bool = True) -> None:
        """Clients may write and read from now on, or not for now."""
        self.state.is_served = is_served
        self.wake()

    async def wait_served(self, within_s: float) -> None:
        """Returns when clients are served, or this node does not lead any more, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.state.is_led and not self.state.is_served and not self.is_closed:
                    moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self.watch(moved)
                    await moved

    def check_led(self) -> None:
        """`NotLeader` if another node answers for it, or may do so by now: this one may have stood still."""
        self.state.check_served()
        self._check_held()

    def check_epoch(self, claimed: Epoch) -> None:
        super().check_epoch(claimed)
        self._check_held()

    def _check_held(self) -> None:
        if self._leading is not None and not self._leading.is_held:
            raise TakingOver("The others may have given this node up; it asks who leads the partition now.")

    def take(self, batches: bytes, now: Millis) -> int:
        """Appends batches as the leader wrote them; how many they are."""
        data, headers = memoryview(batches), list[BatchHeader]()
        for batch in split(batches):
            headers.append(header := read_header(batch))
            verify(batch, header)
        taken = len(headers)
        while headers:
            count = self.log.restore_run(data, headers)
            for header in headers[:count]:
                self._note(data[: header.size], header, header.base_offset, now)
                data = data[header.size :]
            del headers[:count]
        self._syncs.note_append(self)
        return taken

    def cut(self, offset: Offset, now: Millis) -> None:
        """Drops what is behind: the leader does not have it. Waits for the device."""
        self.log.truncate(offset)
        self.state.truncated(self.log.end_offset)
        self._look_for_producers(now)

    def begin_anew(self, offset: Offset, now: Millis) -> None:
        """Drops everything: the leader has nothing before that offset any more. Waits for the device."""
        self.log.begin_anew(offset)
        self.state.begun_anew(offset)
        self._look_for_producers(now)

    def begin_without_files(self, now: Millis) -> None:
        """Drops everything, since the log's directory is gone. Waits for the device."""
        self.log.begin_without_files()
        self.state.begun_anew(0)
        self._look_for_producers(now)

    def _look_for_producers(self, now: Millis) -> None:
        """Who wrote what, as the log says: of what was cut off there may have been more than is remembered."""
        dedupe, txns, self.producers.is_partial = recover_producers(self.log, False, now)
        self.dedupe.become(dedupe)
        self.state.txns.restore(txns.open, txns.aborted)

    def replicated(self, high_watermark: Offset) -> None:
        if self.state.replicated(high_watermark):
            self.wake()

    def synced(self) -> None:
        """The group commit reached this partition."""
        if self.state.synced(self.log.synced_offset):
            self._wake_readers()  # who takes leases was told when it was appended
        if self._leading is not None:
            self._leading.synced(self)

    # --- read --------------------------------------------------------------------------------------------

    async def wait_readable(self, offset: Offset) -> None:
        """Returns when readers may have the message at an offset that is below the lease limit."""
        if self.state.high_watermark <= offset:
            await self.wait_durable()

    async def read(
        self,
        offset: Offset,
        bytes_max: int,
        isolation: Isolation,
        first_max: int = BATCH_BYTES_MAX,
        limit: Offset | None = None,
    ) -> bytes:
        """Whole batches from the offset on; nothing if there is none yet, or if the first is larger than both sizes.
        `limit` is how far, if not as far as the isolation lets everybody read."""
        limit = self.state.read_limit(isolation) if limit is None else limit
        try:
            return self.log.read(offset, bytes_max, limit, False, first_max)
        except WouldBlock:
            pass
        except NeedsVerification:
            # Damaged while the node was down. Rolled, the segment can be verified and fenced whole.
            self.log.roll()
        except (DamagedRange, OSError) as damage:
            raise self._damaged(damage) from None
        try:
            found = await self._read_off_loop(offset, bytes_max, limit, first_max)
        except (DamagedRange, OSError) as damage:
            raise self._damaged(damage) from None
        self.log.check_range(offset)  # of what was deleted meanwhile nobody knows any more what was aborted
        return found

    @property
    def others_have_it(self) -> bool:
        """This node leads it, and another replica has everything too."""
        return self._leading is not None and self._leading.has_others

    def _damaged(self, damage: DamagedRange | OSError) -> GoQueueError | OSError:
        """What another replica has is not passed over: that one leads in a moment."""
        if not self.others_have_it:
            return damage
        return NotLeader("This part of the log is damaged here; another replica takes over. Ask for the leader again.")

    async def _read_off_loop(self, offset: Offset, bytes_max: int, limit: Offset, first_max: int) -> bytes:
        try:
            return await self._offload(lambda: self.log.read(offset, bytes_max, limit, True, first_max))
        except NeedsVerification:
            self.log.roll()
            return await self._offload(lambda: self.log.read(offset, bytes_max, limit, True, first_max))

    async def offset_at_time(self, timestamp: Millis) -> tuple[Offset, Millis] | None:
        return await self._offload(lambda: self.log.offset_at_time(timestamp))

    async def latest_time(self) -> tuple[Offset, Millis] | None:
        return await self._offload(self.log.latest_time)

    def read_now(
        self,
        offset: Offset,
        bytes_max: int,
        isolation: Isolation,
        first_max: int = BATCH_BYTES_MAX,
        limit: Offset | None = None,
    ) -> bytes | None:
        """The same as `read` without waiting: None if it has to be done off the loop."""
        limit = self.state.read_limit(isolation) if limit is None else limit
        try:
            return self.log.read(offset, bytes_max, limit, False, first_max)
        except (WouldBlock, NeedsVerification):
            return None
        except (DamagedRange, OSError) as damage:
            raise self._damaged(damage) from None

    def holds_safely(self, producer_id: int) -> bool:
        """What the producer wrote is as safe as the node promises."""
        safe = self.log.synced_offset if self.state.is_alone else self.state.high_watermark
        return self.is_durable or self.dedupe.last_offset(producer_id) < safe

    # --- wait --------------------------------------------------------------------------------------------

    def watch(self, watcher: asyncio.Future[None]) -> None:
        """The future is done when readers can go further, or the partition closes."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: asyncio.Future[None]) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def hear_news(self, on_news: Callable[[], None]) -> None:
        """It is called once, when there may be more below the lease limit, or the partition closes."""
        self._on_news.append(on_news)

    def unhear_news(self, on_news: Callable[[], None]) -> None:
        if on_news in self._on_news:
            self._on_news.remove(on_news)

    def _tell_news(self) -> None:
        if self._on_news:
            told, self._on_news = self._on_news, []
            for on_news in told:
                on_news()

    def close(self) -> None:
        """Takes no more writes and lets everybody who waits go."""
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        self._tell_news()
        self._wake_readers()

    def _wake_readers(self) -> None:
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            for watcher in watchers:
                if not watcher.done():
                    watcher.set_result(None)
