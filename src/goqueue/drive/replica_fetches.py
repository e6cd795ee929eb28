"""Both ends of the fetches between nodes: the leader's verb, and the follower's task for each leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.limits import MIB
from goqueue.base.replication import FetchAnswer, FetchAsk, LogAnswer, LogFetch, ShardAnswer, ShardFetch
from goqueue.core.replication.follower import LogPlace, Parting, cut_at
from goqueue.core.replication.leader import Replica
from goqueue.drive.leading_shard import LeadingShard
from goqueue.drive.replica_log import ReplicaLog

logger = logging.getLogger(__name__)

FETCH_BYTES: Final = 8 * MIB
FETCH_WAIT_MS: Final = 500
_RETRY_S: Final = 0.1


class FetchServer:
    """Answers followers of all shards that this node leads."""

    def __init__(self, shards: Mapping[int, LeadingShard], clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._grown = asyncio.Event()  # replaced with every append

    def grown(self) -> None:
        """Something was appended, or who leads what has changed: those who wait look again."""
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def fetch(self, by: Replica, ask: FetchAsk) -> FetchAnswer:
        """Waits for news up to the time asked for. What the follower has is noted at once: others wait for that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(ask.wait_ms_max, 10 * FETCH_WAIT_MS) / 1000
        answer = self._answer(by, ask, 0)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not self._has_news(ask):
                    await self._grown.wait()
        return self._answer(by, ask, min(ask.bytes_max, FETCH_BYTES)) if self._has_news(ask) else answer

    def _has_news(self, ask: FetchAsk) -> bool:
        return any(one.shard not in self._shards or self._shards[one.shard].has_news(one) for one in ask.shards)

    def _answer(self, by: Replica, ask: FetchAsk, bytes_max: int) -> FetchAnswer:
        answers: list[ShardAnswer] = []
        for one in ask.shards:
            shard = self._shards.get(one.shard)
            if shard is None:
                answers.append(ShardAnswer(one.shard, "not_leader"))
                continue
            answer = shard.answer(by, one, bytes_max, self._clock.now_ms())
            bytes_max -= sum(len(log.batches) for log in answer.logs)
            answers.append(answer)
        return FetchAnswer(answers)


class FollowedShard:
    """A shard that another node leads, in one epoch."""

    def __init__(self, shard: int, epoch: int, logs: Iterable[ReplicaLog]) -> None:
        self.shard = shard
        self.epoch = epoch
        self._logs = {log.key: log for log in logs}

    def keep(self, logs: Iterable[ReplicaLog]) -> None:
        """These are its logs from now on."""
        self._logs = {log.key: log for log in logs}

    def ask(self) -> ShardFetch:
        places = [LogFetch(log.key, log.end_offset, log.synced_offset, log.last_epoch) for log in self._logs.values()]
        return ShardFetch(self.shard, self.epoch, places)

    def take(self, asked: ShardFetch, told: ShardAnswer) -> list[ReplicaLog]:
        """Only what still fits: a log that has changed since it was asked for is asked for again. Those that grew."""
        ends = {one.log: one.end for one in asked.logs}
        grown: list[ReplicaLog] = []
        for answer in told.logs:
            log = self._logs.get(answer.log)
            if log is not None and ends.get(answer.log) == log.end_offset:
                _take(log, answer)
                if answer.batches:
                    grown.append(log)
        return grown


def _take(log: ReplicaLog, answer: LogAnswer) -> None:
    if answer.parting is not None:
        place, told = LogPlace(log.end_offset, log.last_epoch), Parting(*answer.parting)
        log.cut(cut_at(place, told, Parting(*log.end_of_epoch(told.epoch)), log.high_watermark))
        return
    if log.end_offset < answer.start:
        log.begin_anew(answer.start)
        return
    if answer.batches:
        log.take(answer.batches)
    log.mark(min(answer.high_watermark, log.end_offset))
    if log.start_offset < answer.start <= log.end_offset:
        log.begin_at(answer.start)


class Asking(Protocol):
    """Sends a fetch to the node that leads."""

    def __call__(self, ask: FetchAsk) -> Coroutine[Any, Any, FetchAnswer]: ...


class ReplicaFetching:
    """One task for one leading node, for all shards that are followed from it."""

    def __init__(
        self, ask: Asking, followed: Callable[[], Sequence[FollowedShard]], waits_for_sync: bool = False
    ) -> None:
        """`followed` are the shards as they are now. `waits_for_sync`: the leader counts what is on the disk."""
        self._ask = ask
        self._followed = followed
        self._waits_for_sync = waits_for_sync
        self._task: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[FetchAnswer] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def ask_again(self) -> None:
        """There is more to ask for than the fetch under way does: it is not waited for."""
        if self._asking is not None:
            self._asking.cancel()

    async def _run(self) -> None:
        is_failing = False
        while True:
            try:
                rests = await self._once()
                is_failing = False
            except (GoQueueError, OSError) as error:
                if not is_failing:
                    logger.warning("fetches from another node fail; trying again", extra={"error": str(error)})
                rests = is_failing = True
            if rests:
                await asyncio.sleep(_RETRY_S)

    async def _once(self) -> bool:
        """True if the leader refused, or there was nothing to ask for: then it is asked again a little later."""
        asked = {shard: shard.ask() for shard in self._followed()}
        if not asked:
            return True
        answer = await self._answer(FetchAsk(list(asked.values()), FETCH_BYTES, FETCH_WAIT_MS))
        if answer is None:
            return False
        told = {one.shard: one for one in answer.shards}
        living, grown = set(self._followed()), list[ReplicaLog]()
        for shard, places in asked.items():
            if shard in living and (one := told.get(shard.shard)) is not None and not one.refusal:
                grown += shard.take(places, one)
        if self._waits_for_sync and grown:
            await asyncio.gather(*(log.wait_synced() for log in grown))
        return any(one.refusal for one in answer.shards)

    async def _answer(self, ask: FetchAsk) -> FetchAnswer | None:
        """None if it is to be asked again, and more."""
        self._asking = asking = asyncio.get_running_loop().create_task(self._ask(ask))
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            asking.cancel()
            raise
        finally:
            self._asking = None
        return None if asking.cancelled() else asking.result()
