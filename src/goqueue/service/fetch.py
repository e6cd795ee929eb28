"""Fetch: whole batches out of logs, as they lie there. Waits for data without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from goqueue.base.access import AclOperation, AclResource, ResourceKind
from goqueue.base.commands import Fetch, Fetched, FetchedPartition, FetchFrom, FetchPartition, Isolation
from goqueue.base.errors import GoQueueError, NotLeader, UnknownTopicId
from goqueue.base.ids import Offset
from goqueue.base.limits import BATCH_BYTES_MAX, FETCH_BYTES_MAX, FETCH_WAIT_MS_MAX, SLICE_ELEMENTS
from goqueue.drive.partition import Partition
from goqueue.format.batch import strides
from goqueue.service.hooks import Hooks
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.read_replicas import ReadReplicas
from goqueue.service.topics import Topics

_ROOM_WAIT_S: Final = 1.0


def _aborted(partition: Partition, begin: Offset, batches: bytes) -> list[tuple[int, Offset]]:
    """The aborted transactions that these batches hold parts of."""
    if not batches or not partition.has_aborted:
        return []
    end = max(last for _, _, _, last in strides(batches)) + 1
    return [(one.producer_id, one.first_offset) for one in partition.aborted_between(begin, end)]


class ReadMemory(Protocol):
    """Memory for what is read. Bytes are asked for before a read and given back when the answer is handed on."""

    def reserve(self, wanted: int) -> int:
        """So many bytes may be read, perhaps less than wanted; 0 if there is no room now."""

    def release(self, granted: int) -> None: ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when there may be room again, or the time is over."""


class Unbounded:
    def reserve(self, wanted: int) -> int:
        return wanted

    def release(self, granted: int) -> None:
        pass

    async def wait(self, timeout_s: float) -> None:
        pass


UNBOUNDED: Final = Unbounded()


def _is_final(answer: Fetched) -> bool:
    """Waiting would not change it."""
    return answer.error is not None or answer.read_at is not None


def _wanted(command: Fetch) -> int:
    most = max(1, min(command.bytes_max, FETCH_BYTES_MAX))
    return most if command.one_each else max(1, min(most, sum([part.bytes_max for part in command.parts])))


class Fetching:
    """The verb."""

    def __init__(self, topics: Topics, metrics: BrokerMetrics, hooks: Hooks, replicas: ReadReplicas | None) -> None:
        """`replicas` are asked where else a partition may be read; None on a node that is alone."""
        self._replicas = replicas
        self._topics = topics
        self._metrics = metrics
        self._hooks = hooks
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopping = False

    async def fetch(self, command: Fetch, room: ReadMemory = UNBOUNDED) -> list[Fetched]:
        """One answer a partition, in order. Errors are answers too, and end the wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(max(command.wait_ms_max, 0), FETCH_WAIT_MS_MAX) / 1000
        while True:
            watcher: asyncio.Future[None] = loop.create_future()
            watched = await self._watch(command.parts, watcher)
            try:
                answers = await self._read_in_room(command, room, deadline)
                enough = sum(len(answer.batches) for answer in answers) >= command.bytes_min
                failed = any(_is_final(answer) for answer in answers)
                left_s = deadline - loop.time()
                if enough or failed or left_s <= 0 or self._stopping or not watched:
                    self._count(answers, command)
                    return answers
                del answers  # nothing is held while waiting
                await self._wait(watcher, left_s)
            finally:
                for partition in watched:
                    partition.unwatch(watcher)

    async def partition(self, command: FetchPartition) -> FetchedPartition:
        """The same for one partition, whose error is raised."""
        part = FetchFrom(command.at, command.offset, command.bytes_max)
        wait_ms, isolation, caller = command.wait_ms_max, command.isolation, command.caller
        (found,) = await self.fetch(Fetch([part], command.bytes_max, 1, wait_ms, isolation, caller))
        if found.error is not None:
            raise found.error
        ends = [last + 1 for _, _, _, last in strides(found.batches)]
        marks = found.high_watermark, found.last_stable_offset, found.start_offset
        return FetchedPartition(found.batches, max([command.offset, *ends]), *marks, found.aborted)

    async def _read_in_room(self, command: Fetch, room: ReadMemory, deadline: float) -> list[Fetched]:
        granted = await self._reserve(_wanted(command), room, deadline)
        try:
            return await self._read_all(command, granted)
        finally:
            room.release(granted)

    async def _reserve(self, wanted: int, room: ReadMemory, deadline: float) -> int:
        """Waits for room as long as for messages, and a moment at least: who asks at once again gets no more."""
        loop = asyncio.get_running_loop()
        deadline = max(deadline, loop.time() + _ROOM_WAIT_S)
        while not (granted := room.reserve(wanted)) and not self._stopping:
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            await room.wait(min(left_s, _ROOM_WAIT_S))
        return granted

    def stop(self) -> None:
        """Everybody who waits is answered with what there is."""
        self._stopping = True
        for watcher in list(self._waiting):
            if not watcher.done():
                watcher.set_result(None)

    async def _watch(self, parts: Sequence[FetchFrom], watcher: asyncio.Future[None]) -> list[Partition]:
        """Watching begins before reading, so that nothing slips in between."""
        watched: list[Partition] = []
        for count, part in enumerate(parts, 1):
            if count % SLICE_ELEMENTS == 0:
                await asyncio.sleep(0)
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

    def fetch_now(self, command: Fetch, room: ReadMemory = UNBOUNDED) -> list[Fetched] | None:
        """The answers, if all is in memory and enough, or there is nothing to wait for; None otherwise."""
        if len(command.parts) > SLICE_ELEMENTS or not (granted := room.reserve(_wanted(command))):
            return None
        try:
            answers = self._read_now(command, granted)
        finally:
            room.release(granted)
        if answers is None:
            return None
        if command.wait_ms_max > 0 and not self._stopping:
            enough = sum([len(answer.batches) for answer in answers]) >= command.bytes_min
            if not enough and not any(_is_final(answer) for answer in answers):
                return None
        self._count(answers, command)
        return answers

    def _read_now(self, command: Fetch, left: int) -> list[Fetched] | None:
        """None if something has to be read off the loop."""
        answers: list[Fetched] = []
        first_max = BATCH_BYTES_MAX
        for part in command.parts:
            partition = self._find(part, command)
            if isinstance(partition, Fetched):
                answers.append(partition)
                continue
            batches: bytes | None = b""
            try:
                if left > 0:
                    most = min(part.bytes_max, left)
                    batches = partition.read_now(part.offset, most, command.isolation, first_max)
            except GoQueueError as error:
                answers.append(self._answer(part, partition, b"", command, error))
                continue
            if batches is None:
                return None
            if batches:
                left -= len(batches)
                first_max = BATCH_BYTES_MAX if command.one_each else 0
            answers.append(self._answer(part, partition, batches, command))
        return answers

    async def _read_all(self, command: Fetch, left: int) -> list[Fetched]:
        answers: list[Fetched] = []
        first_max = BATCH_BYTES_MAX
        for count, part in enumerate(command.parts, 1):
            if count % SLICE_ELEMENTS == 0:
                await asyncio.sleep(0)
            answer = await self._read(part, command, left, first_max)
            if answer.batches:
                left -= len(answer.batches)
                first_max = BATCH_BYTES_MAX if command.one_each else 0
            answers.append(answer)
        return answers

    async def _read(self, part: FetchFrom, command: Fetch, left: int, first_max: int) -> Fetched:
        partition = self._find(part, command)
        if isinstance(partition, Fetched):
            return partition
        try:
            batches = b""
            if left > 0:
                batches = await partition.read(part.offset, min(part.bytes_max, left), command.isolation, first_max)
        except GoQueueError as error:
            return self._answer(part, partition, b"", command, error)
        return self._answer(part, partition, batches, command)

    def _find(self, part: FetchFrom, command: Fetch) -> Partition | Fetched:
        try:
            if not part.at.topic:
                raise UnknownTopicId("No topic has that id; it may have been deleted. Ask for the metadata again.")
            if self._hooks.access is not None and self._hooks.access.asks(command.caller):
                self._hooks.access.admit(
                    command.caller, AclOperation.READ, AclResource(ResourceKind.TOPIC, part.at.topic)
                )
            partition = self._topics.require(part.at.topic).partition(part.at.partition)
            return self._read_here(part, partition, command)
        except GoQueueError as error:
            return Fetched(part.at, part.offset, b"", -1, -1, -1, error)

    def _read_here(self, part: FetchFrom, partition: Partition, command: Fetch) -> Partition | Fetched:
        """The partition, or that another node is nearer to the reader."""
        replicas = self._replicas if command.at_follower else None
        if replicas is not None and not partition.is_led:
            replicas.check_followed(partition, part.leader_epoch)
            return partition
        partition.check_epoch(part.leader_epoch)
        if replicas is None or not command.rack:
            return partition
        if (node := replicas.nearest(part.at, command.rack, part.offset)) is None:
            return partition
        marks = partition.high_watermark, partition.last_stable_offset, partition.start_offset
        return Fetched(part.at, part.offset, b"", *marks, read_at=node)

    def _answer(
        self,
        part: FetchFrom,
        partition: Partition,
        batches: bytes,
        command: Fetch,
        error: GoQueueError | None = None,
    ) -> Fetched:
        if error is not None and not partition.is_led:
            error = NotLeader("This replica cannot answer that; ask the leader.")
        if error is not None:
            error.detail.update(topic=part.at.topic, partition=part.at.partition)
        return Fetched(
            part.at,
            part.offset,
            batches,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.start_offset,
            error,
            _aborted(partition, part.offset, batches) if command.isolation is Isolation.READ_COMMITTED else (),
        )

    def _count(self, answers: list[Fetched], command: Fetch) -> None:
        for answer in answers:
            if answer.error is not None:
                self._metrics.fetch_errors.labels(answer.error.code).inc()
            elif answer.batches:
                counters = self._metrics.topic(answer.at.topic)
                counters.fetched(len(answer.batches))
