"""Looks after every log now and then: rolls what is old, deletes what is expired, compacts what is due. Idle
producers are forgotten too.

One partition at a time, so that two jobs never work on one log. A compaction runs in short steps off the loop and rests
as long as it works, so that readers and writers hardly notice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterable

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.log_settings import LogSettings
from goqueue.base.topic_config import TopicConfig
from goqueue.drive.carry_on import to_its_end
from goqueue.drive.flusher import Flusher
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.repeating import Repeating
from goqueue.log.compaction import Swap, compact, is_due
from goqueue.log.home import refused_when_full
from goqueue.log.retention import new_start, wants_roll
from goqueue.log.segment import Segment

logger = logging.getLogger(__name__)

_STEP_S = 0.004
_PRODUCER_MS = 24 * 3_600_000  # a producer not heard of for so long is forgotten, as in Kafka

Work = Callable[[], Iterable[tuple[Partition, TopicConfig]]]


class Cleaner:
    """Retention and compaction for all partitions that `work` names."""

    def __init__(
        self, work: Work, flusher: Flusher, offload: Offload, clock: SteadyClock, settings: LogSettings
    ) -> None:
        self._work = work
        self._flusher = flusher
        self._offload = offload
        self._clock = clock
        self._settings = settings
        self._lock = asyncio.Lock()
        rounds = Repeating(settings.cleanup_interval_ms / 1000, self.clean_all)
        self.start = rounds.start
        self.stop = rounds.stop  # a compaction under way is given up, which costs nothing

    async def clean_all(self) -> None:
        """One look at every partition."""
        for partition, config in list(self._work()):
            async with self._lock:
                await self._clean(partition, config)

    def quiet(self) -> asyncio.Lock:
        """While it is held, no file of a log is replaced or deleted."""
        return self._lock

    async def drop_head(self, partition: Partition, start_offset: Offset) -> None:
        """Makes a log begin later, on request; waits until that is durable. Nothing goes that is being sealed, nor if
        the log is cut meanwhile: other messages may come in the place of those that were to go."""
        cuts = partition.log.notes.cuts
        async with self._lock:
            await self._flusher.seal(partition)
            if partition.log.notes.cuts != cuts:
                return
            with refused_when_full():
                await to_its_end(self._offload(partition.log.begin_drop_head(start_offset).run))

    async def delete_head(self, partition: Partition, start_offset: Offset) -> None:
        """The same because somebody asked for it, which other replicas hear of, whoever leads next."""
        partition.log.note_deleted(start_offset)
        await self.drop_head(partition, start_offset)

    async def put_in_place(self, partition: Partition, make: Callable[[], Awaitable[Swap | None]]) -> None:
        """A segment that `make` writes anew takes its place; nobody else works on the log meanwhile. It does not if the
        log is cut meanwhile."""
        async with self._lock:
            await self._flusher.seal(partition)
            cuts = partition.log.notes.cuts
            if (swap := await make()) is not None:
                await to_its_end(self._swap(partition, swap, cuts))

    async def verify(self, partition: Partition, segment: Segment) -> None:
        """What turns out damaged is fenced off, unless the segment is not the log's any more."""
        async with self._lock:
            if segment in partition.log.segments:
                await to_its_end(self._offload(segment.verify))

    async def _swap(self, partition: Partition, swap: Swap, cuts: int) -> bool:
        """False if the log was cut since it had so many cuts: what was written anew is not what belongs there."""
        log = partition.log
        if log.notes.cuts != cuts:
            await self._offload(swap.give_up)
            return False
        log.is_swapping = True
        try:
            await self._offload(swap.run)
            log.swap(swap.old, swap.new)
        finally:
            log.is_swapping = False
        await self._offload(swap.clean_up)
        return True

    async def retire(self, partition: Partition, start_offset: Offset) -> None:
        """The same for a log of ours: what stands behind the offset is safe before what stands before it goes."""
        partition.log.roll()
        await self._flusher.seal(partition)
        await self.drop_head(partition, start_offset)

    async def _clean(self, partition: Partition, config: TopicConfig) -> None:
        log = partition.log
        if partition.is_closed or log.failure is not None or not log.segments:
            return
        if not self._clock.is_steady(self._settings.clock_wait_ms):
            await self._bound_size(partition, config)
            return
        partition.producers.expire(self._clock.now_ms() - _PRODUCER_MS)
        try:
            if wants_roll(log.segments[-1], config, self._clock.now_ms()):
                log.roll()
            await self._retain(partition, config)
            if is_due(log, config, self._clock.now_ms(), partition.state.last_stable_offset):
                await self._compact(partition, config)
        except (OSError, GoQueueError) as error:
            _tell(partition, error)

    async def _retain(self, partition: Partition, config: TopicConfig) -> None:
        log = partition.log
        await self._flusher.seal(partition)
        start = new_start(log.segments, config, self._clock.now_ms())
        if start is not None and (start := min(start, partition.high_watermark)) > log.start_offset:
            logger.info("retention", extra={"partition": str(partition.at), "new_start_offset": start})
            await self._offload(log.begin_drop_head(start).run)
        partition.state.txns.cut_head(log.start_offset)

    async def _bound_size(self, partition: Partition, config: TopicConfig) -> None:
        """The clock was set lately and may be wrong: nothing goes because of its age."""
        try:
            await self._retain(partition, msgspec.structs.replace(config, retention_ms=-1))
        except (OSError, GoQueueError) as error:
            _tell(partition, error)

    async def _compact(self, partition: Partition, config: TopicConfig) -> None:
        log, cuts = partition.log, partition.log.notes.cuts
        before = log.size_bytes
        await self._offload(log.begin_gaps().run)
        stable = partition.state.last_stable_offset
        steps = compact(log, config, self._clock.now_ms(), stable, partition.is_aborted)
        while not isinstance(found := await self._offload(lambda: _work_a_little(steps)), int):
            if partition.is_closed:
                return
            if found is not None and not await self._swap(partition, found, cuts):
                return
            await asyncio.sleep(_STEP_S)
        await self._offload(log.end_compaction(found).run)
        logger.info(
            "compaction",
            extra={"partition": str(partition.at), "bytes_before": before, "bytes_after": log.size_bytes},
        )


def _tell(partition: Partition, error: Exception) -> None:
    """That the files of a deleted topic are gone is no news."""
    if not partition.is_closed:
        logger.error("clean-up failed", extra={"partition": str(partition.at), "error": str(error)})


def _work_a_little(steps: Generator[Swap | None, None, Offset]) -> Swap | Offset | None:
    """Goes on for a few milliseconds; returns a swap to carry out, or at the end with how far it got."""
    until = time.monotonic() + _STEP_S
    try:
        while (found := next(steps)) is None and time.monotonic() < until:
            pass
    except StopIteration as end:
        return int(end.value)
    return found
