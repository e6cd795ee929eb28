"""Both ends of the fetches between nodes: the leader's verb, and the follower's task for each leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Final, Protocol

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.limits import MIB
from goqueue.base.replication import FetchAnswer, FetchAsk, LogAnswer, LogFetch, LogKey, ShardAnswer, ShardFetch
from goqueue.core.replication.copy_rates import CopyRates
from goqueue.core.replication.follower import LogPlace, Parting, cut_at
from goqueue.core.replication.leader import Replica
from goqueue.drive.copy_throttle import CopyThrottle
from goqueue.drive.leading_shard import HeardFetch, LeadingShard
from goqueue.drive.replica_log import ReplicaLog

logger = logging.getLogger(__name__)

FETCH_BYTES: Final = 8 * MIB
FETCH_WAIT_MS: Final = 500
_FETCH_BYTES_MIN: Final = MIB
_BATCHES_MAX: Final = 5_000  # in an answer, about: taking these holds up everything else here for some 20 ms
_RETRY_S: Final = 0.1
_STARTS_EVERY: Final = 16  # fetches
_REST_S_MIN: Final = 0.005  # before a shard is asked for again that was refused; twice as long each time


class FetchServer:
    """Answers followers of all shards that this node leads."""

    def __init__(self, shards: Mapping[int, LeadingShard], clock: Clock, throttle: CopyThrottle) -> None:
        self._shards = shards
        self._clock = clock
        self._throttle = throttle
        self.rates = CopyRates()
        self._grown = asyncio.Event()  # replaced with every append

    def grown(self) -> None:
        """Something was appended, or who leads what has changed: those who wait look again."""
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def fetch(self, by: Replica, ask: FetchAsk) -> FetchAnswer:
        """Waits for news up to the time asked for. What the follower has is noted at once: others wait for that."""
        deadline = asyncio.get_running_loop().time() + min(ask.wait_ms_max, 10 * FETCH_WAIT_MS) / 1000
        heard = {one.shard: self._hear(by, one) for one in ask.shards}
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    while not any(self._has_news(shard, one) for shard, one in heard.items()):
                        await self._wait(heard.values())
            return FetchAnswer(self._answers(by.node, heard, min(ask.bytes_max, FETCH_BYTES)))
        finally:
            for one in heard.values():
                if one is not None:
                    one.end(self._clock.now_ms())

    async def _wait(self, heard: Iterable[HeardFetch | None]) -> None:
        """For news, or until a new replica may be sent more."""
        wait_ms = self._throttle.wait_ms() if any(one is not None and one.is_copy for one in heard) else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000 if wait_ms else None):
                await self._grown.wait()

    def _hear(self, by: Replica, asked: ShardFetch) -> HeardFetch | None:
        shard = self._shards.get(asked.shard)
        return None if shard is None else shard.hear(by, asked, self._clock.now_ms())

    def _has_news(self, shard: int, heard: HeardFetch | None) -> bool:
        if heard is None or heard.shard is not self._shards.get(shard):
            return True
        return heard.is_refused() if heard.is_copy and self._throttle.wait_ms() else heard.has_news()

    def _answers(self, node: int, heard: Mapping[int, HeardFetch | None], bytes_max: int) -> list[ShardAnswer]:
        answers: list[ShardAnswer] = []
        for shard, one in heard.items():
            if one is None or one.shard is not self._shards.get(shard):
                answers.append(ShardAnswer(shard, "not_leader"))
                continue
            answer = one.answer(self._throttle.part(bytes_max) if one.is_copy else bytes_max)
            size = sum(len(log.batches) for log in answer.logs)
            if one.is_copy:
                self._throttle.sent(size)
                self.rates.sent(shard, node, size, self._clock.now_ms())
            bytes_max -= size
            answers.append(answer)
        return answers


class FollowedShard:
    """A shard that another node leads, in one epoch. A fetch names all of its logs, or in a session, which goes on
    while every fetch is answered, those that moved since the one before."""

    def __init__(self, shard: int, epoch: int, logs: Iterable[ReplicaLog]) -> None:
        self.shard = shard
        self.epoch = epoch
        self._logs = {log.key: log for log in logs}
        self.failure: GoQueueError | OSError | None = None  # of the last answer that was taken
        self._session = 0  # none, also while a fetch is under way: it may be lost
        self._number = 0  # of the last fetch of the session
        self._asked: ShardFetch | None = None  # the last fetch, if these are still the logs that it was about
        self._told: dict[LogKey, LogFetch] = {}  # what the leader knows
        self._moving: dict[LogKey, None] = {}  # those that may be elsewhere by now
        self._starts: dict[LogKey, Offset] = {}  # where the leader's begin, of those that begin earlier here
        self.heard_s = float("-inf")  # when the leader answered last, by the loop's clock
        self.rests_until_s = float("-inf")  # by the loop's clock: it was refused
        self._rest_s = 0.0
        self._batches = 0

    def keep(self, logs: Iterable[ReplicaLog]) -> None:
        """These are its logs from now on. Also to be called if anything but a fetch has moved the end of one."""
        self._logs = {log.key: log for log in logs}
        self._session, self._asked = 0, None

    def ask(self) -> ShardFetch:
        if self._session:
            self._number += 1
            self._look_at_starts()
            moved = [place for key in self._moving if (place := _place(self._logs[key])) != self._told[key]]
            self._asked = ShardFetch(self.shard, self.epoch, moved, self._session, self._number)
        else:
            self._number = 0
            self._asked = ShardFetch(self.shard, self.epoch, [_place(log) for log in self._logs.values()])
        self._session = 0
        return self._asked

    def _look_at_starts(self) -> None:
        """Each replica deletes by itself what is old, off the loop: that is looked for now and then."""
        if self._number % _STARTS_EVERY == 0:
            shorter = (key for key, log in self._logs.items() if log.start_offset != self._told[key].start)
            self._moving.update(dict.fromkeys(shorter))

    def take(self, asked: ShardFetch, told: ShardAnswer) -> list[ReplicaLog]:
        """Only what still fits: a log that has changed since it was asked for is asked for again. Those that grew.
        One that cannot be written holds no other up: see `failure`."""
        self.failure = None
        if asked is not self._asked:
            return []
        self._heard(asked)
        grown: list[ReplicaLog] = []
        for answer in told.logs:
            log, place = self._logs.get(answer.log), self._told.get(answer.log)
            if log is not None and place is not None and place.end == log.end_offset:
                self._moving[answer.log] = None
                try:
                    self._take(log, answer)
                except (GoQueueError, OSError) as error:
                    self.failure = error
                    continue
                if answer.batches:
                    grown.append(log)
        self._shorten()
        self._session = told.session
        return grown

    def answered(self, now_s: float) -> None:
        """By the leader, as it should be."""
        self.heard_s, self._rest_s = now_s, 0.0

    def refused(self, now_s: float) -> None:
        """Usually one of the two has not heard yet who leads, and does in a moment."""
        self._rest_s = min(_RETRY_S, max(_REST_S_MIN, 2 * self._rest_s))
        self.rests_until_s = now_s + self._rest_s

    def _heard(self, asked: ShardFetch) -> None:
        """The leader knows what was asked. What is not on the disk yet will be."""
        if not asked.session:
            self._told, self._moving = {}, {}
        for place in asked.logs:
            self._told[place.log] = place
            self._moving[place.log] = None
        self._moving = {key: None for key in self._moving if self._told[key].safe < self._told[key].end}

    def batches_taken(self) -> int:
        """Since this was asked for the last time."""
        found, self._batches = self._batches, 0
        return found

    def _take(self, log: ReplicaLog, answer: LogAnswer) -> None:
        self._batches += _take(log, answer)
        # Of what is not here yet nothing is noted: if somebody else leads before it comes, other messages may.
        if (deleted := min(answer.deleted, log.end_offset)) > log.deleted_to:
            log.note_deleted(deleted)
        if log.start_offset < answer.start <= log.end_offset:
            self._starts[log.key] = answer.start

    def _shorten(self) -> None:
        """It is done in the background, and asked for until it is done."""
        for key, start in list(self._starts.items()):
            log = self._logs.get(key)
            if log is None or log.start_offset >= start:
                del self._starts[key]
            else:
                log.begin_at(start)


def _place(log: ReplicaLog) -> LogFetch:
    is_empty = log.start_offset == log.end_offset
    return LogFetch(
        log.key, log.end_offset, log.synced_offset, log.last_epoch, log.deleted_to, is_empty, log.start_offset
    )


def _take(log: ReplicaLog, answer: LogAnswer) -> int:
    """How many batches the log has more."""
    if answer.parting is not None:
        place, told = LogPlace(log.end_offset, log.last_epoch), Parting(*answer.parting)
        offset = cut_at(place, told, Parting(*log.end_of_epoch(told.epoch)), log.high_watermark)
        if offset < log.start_offset:
            log.begin_anew(answer.start)  # nothing of it is the leader's
        else:
            log.cut(offset)
        return 0
    if log.end_offset < answer.start:
        log.begin_anew(answer.start)
        return 0
    taken = log.take(answer.batches) if answer.batches else 0
    log.mark(min(answer.high_watermark, log.end_offset))
    return taken


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
        self._bytes_max = FETCH_BYTES
        self._task: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[FetchAnswer] | None = None
        self._woken = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def ask_again(self) -> None:
        """There is more to ask for than the fetch under way does: it is not waited for."""
        self._woken.set()
        if self._asking is not None:
            self._asking.cancel()

    async def _run(self) -> None:
        is_failing = False
        while True:
            try:
                await self._once()
                is_failing = False
            except (GoQueueError, OSError) as error:
                if not is_failing:
                    logger.warning("fetches from another node fail; trying again", extra={"error": str(error)})
                is_failing = True
                await asyncio.sleep(_RETRY_S)

    async def _once(self) -> None:
        """A shard that the leader refuses is asked for again a little later, and holds up no other."""
        loop = asyncio.get_running_loop()
        followed, now = self._followed(), loop.time()
        rest_s = min((one.rests_until_s - now for one in followed if one.rests_until_s > now), default=_RETRY_S)
        asked = {shard: shard.ask() for shard in followed if shard.rests_until_s <= now}
        if not asked:
            await self._rest(rest_s)
            return
        wait_ms = FETCH_WAIT_MS if len(asked) == len(followed) else ceil(rest_s * 1000)
        answer = await self._answer(FetchAsk(list(asked.values()), self._bytes_max, wait_ms))
        if answer is None:
            return
        grown = self._take(asked, answer)
        if self._waits_for_sync and grown:
            await asyncio.gather(*(log.wait_synced() for log in grown))
        if (failure := next((shard.failure for shard in asked if shard.failure is not None), None)) is not None:
            raise failure

    def _take(self, asked: Mapping[FollowedShard, ShardFetch], answer: FetchAnswer) -> list[ReplicaLog]:
        """The logs that grew."""
        told, living = {one.shard: one for one in answer.shards}, self._followed()
        now, grown = asyncio.get_running_loop().time(), list[ReplicaLog]()
        for shard, places in asked.items():
            one = told.get(shard.shard)
            if one is None or shard not in living or one.refusal == "unknown_session":
                continue
            if one.refusal:
                shard.refused(now)
            else:
                shard.answered(now)
                grown += shard.take(places, one)
        self._taken(answer, sum(shard.batches_taken() for shard in asked))
        return grown

    async def _rest(self, seconds: float) -> None:
        """Until then, or until there is something else to ask for."""
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def _taken(self, answer: FetchAnswer, batches: int) -> None:
        """The next one is so large that taking it holds nobody up for long, if its batches are like these."""
        if batches:
            size = sum(len(log.batches) for shard in answer.shards for log in shard.logs)
            self._bytes_max = max(_FETCH_BYTES_MIN, min(FETCH_BYTES, size * _BATCHES_MAX // batches))

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
