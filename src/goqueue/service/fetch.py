"""Fetch: whole batches out of logs, as they lie there. Waits for data without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from goqueue.base.commands import Fetch, Fetched, FetchFrom, Isolation
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.limits import FETCH_BYTES_MAX
from goqueue.drive.partition import Partition
from goqueue.format.batch import strides
from goqueue.service.hooks import Hooks
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.topics import Topics


def _aborted(partition: Partition, begin: Offset, batches: bytes) -> list[tuple[int, Offset]]:
    """The aborted transactions that these batches hold parts of."""
    txns = partition.state.txns
    if not batches or not txns.aborted:
        return []
    end = max(last for _, _, _, last in strides(batches)) + 1
    return [(one.producer_id, one.first_offset) for one in txns.overlapping(begin, end)]


class Fetching:
    """The verb."""

    def __init__(self, topics: Topics, metrics: BrokerMetrics, hooks: Hooks) -> None:
        self._topics = topics
        self._metrics = metrics
        self._hooks = hooks
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopping = False

    async def fetch(self, command: Fetch) -> list[Fetched]:
        """One answer a partition, in order. Errors are answers too, and end the wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + command.wait_ms_max / 1000
        while True:
            watcher: asyncio.Future[None] = loop.create_future()
            watched = self._watch(command.parts, watcher)
            try:
                answers = await self._read_all(command)
                enough = sum(len(answer.batches) for answer in answers) >= command.bytes_min
                failed = any(answer.error is not None for answer in answers)
                left_s = deadline - loop.time()
                if enough or failed or left_s <= 0 or self._stopping or not watched:
                    return answers
                await self._wait(watcher, left_s)
            finally:
                for partition in watched:
                    partition.unwatch(watcher)

    def stop(self) -> None:
        """Everybody who waits is answered with what there is."""
        self._stopping = True
        for watcher in list(self._waiting):
            if not watcher.done():
                watcher.set_result(None)

    def _watch(self, parts: Sequence[FetchFrom], watcher: asyncio.Future[None]) -> list[Partition]:
        """Watching begins before reading, so that nothing slips in between."""
        watched: list[Partition] = []
        for part in parts:
            try:
                partition = self._topics.require(part.at.topic).partition(part.at.partition)
            except GoQueueError:
                continue
            partition.watch(watcher)
            watched.append(partition)
        return watched

    async def _wait(self, watcher: asyncio.Future[None], left_s: float) -> None:
        self._waiting.add(watcher)
        self._metrics.long_polls.inc()
        try:
            await asyncio.wait([watcher], timeout=left_s)
        finally:
            self._waiting.discard(watcher)
            self._metrics.long_polls.dec()

    def fetch_now(self, command: Fetch) -> list[Fetched] | None:
        """The answers, if all is in memory and enough, or there is nothing to wait for; None otherwise."""
        left = min(command.bytes_max, FETCH_BYTES_MAX)
        answers: list[Fetched] = []
        got = 0
        for part in command.parts:
            partition = self._find(part, command)
            if isinstance(partition, Fetched):
                answers.append(partition)
                continue
            batches: bytes | None = b""
            try:
                if left > 0:
                    batches = partition.read_now(part.offset, min(part.bytes_max, left), command.isolation)
            except GoQueueError as error:
                answers.append(self._answer(part, partition, b"", command, error))
                continue
            if batches is None:
                return None
            left -= len(batches)
            got += len(batches)
            answers.append(self._answer(part, partition, batches, command))
        enough = got >= command.bytes_min or command.wait_ms_max <= 0 or self._stopping
        if not enough and not any(answer.error is not None for answer in answers):
            return None
        self._count(answers, command)
        return answers

    async def _read_all(self, command: Fetch) -> list[Fetched]:
        left = min(command.bytes_max, FETCH_BYTES_MAX)
        answers: list[Fetched] = []
        for part in command.parts:
            answer = await self._read(part, command, left)
            left -= len(answer.batches)
            answers.append(answer)
        self._count(answers, command)
        return answers

    async def _read(self, part: FetchFrom, command: Fetch, left: int) -> Fetched:
        partition = self._find(part, command)
        if isinstance(partition, Fetched):
            return partition
        try:
            batches = b""
            if left > 0:
                batches = await partition.read(part.offset, min(part.bytes_max, left), command.isolation)
        except GoQueueError as error:
            return self._answer(part, partition, b"", command, error)
        return self._answer(part, partition, batches, command)

    def _find(self, part: FetchFrom, command: Fetch) -> Partition | Fetched:
        try:
            if self._hooks.access is not None:
                self._hooks.access(command.caller, "read", part.at.topic)
            return self._topics.require(part.at.topic).partition(part.at.partition)
        except GoQueueError as error:
            return Fetched(part.at, part.offset, b"", -1, -1, -1, error)

    def _answer(
        self,
        part: FetchFrom,
        partition: Partition,
        batches: bytes,
        command: Fetch,
        error: GoQueueError | None = None,
    ) -> Fetched:
        if error is not None:
            error.detail.update(topic=part.at.topic, partition=part.at.partition)
        state = partition.state
        return Fetched(
            part.at,
            part.offset,
            batches,
            state.high_watermark,
            state.last_stable_offset,
            partition.log.start_offset,
            error,
            _aborted(partition, part.offset, batches) if command.isolation is Isolation.READ_COMMITTED else (),
        )

    def _count(self, answers: list[Fetched], command: Fetch) -> None:
        for answer in answers:
            if answer.error is not None:
                self._metrics.fetch_errors.labels(answer.error.code).inc()
            elif answer.batches:
                counters = self._metrics.topic(answer.at.topic)
                counters.bytes_out.inc(len(answer.batches))
                counters.fetches.inc()
                if self._hooks.quota is not None:
                    self._hooks.quota(command.caller, "read", answer.at.topic, len(answer.batches))
