"""Transactions as partitions see them: who may write, what is stored, markers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, NotFound, NotLoaded
from goqueue.base.ids import TopicPartition
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.questions import (
    ConfirmWrites,
    EpochSeen,
    IsOpen,
    MayWrite,
    OpenAnswer,
    ProducerActive,
    WriteAnswer,
    WritesConfirmed,
)
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.control import marker
from goqueue.service.hooks import TooMuchHere
from goqueue.service.topics import Topics

Force = Callable[[], Awaitable[None]]  # makes all that was written so far durable


class CoordinatorPort(Protocol):
    """The coordinator, as partitions see it."""

    def may_write_now(self, asked: MayWrite, /) -> WriteAnswer | None:
        """None if the coordinator is elsewhere and has to be waited for."""
        ...

    async def may_write(self, asked: MayWrite, /) -> WriteAnswer: ...

    def active(self, note: ProducerActive, /) -> None: ...

    def is_open(self, asked: IsOpen, /) -> OpenAnswer: ...

    async def epoch_seen(self, seen: EpochSeen, /) -> bool: ...


class TransactionWrites:
    """Asked before a transactional batch is stored. The coordinator is asked on first use; behind the transaction's
    first batch the partition knows by itself."""

    def __init__(self, coordinator: Callable[[], CoordinatorPort]) -> None:
        self._coordinator = coordinator
        self._learned: dict[tuple[TopicPartition, int], int | None] = {}  # epoch by producer; None while it is asked

    def check(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Raises unless the batch belongs to an open transaction that the partition is part of; `TooMuchHere` if that
        has to be learned first."""
        coordinator, at = self._coordinator(), partition.at
        if partition.producers.is_writing(producer_id, epoch):
            coordinator.active(ProducerActive(producer_id, epoch))
            return
        if self._learned.get((at, producer_id)) == epoch:
            return
        answer = coordinator.may_write_now(MayWrite(producer_id, epoch, at.topic, at.partition))
        if answer is None:
            raise TooMuchHere
        if answer.error is not None:
            raise answer.error

    async def learn(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Asks a coordinator that is elsewhere. A marker that comes meanwhile makes the answer worthless."""
        at = partition.at
        asked, place = MayWrite(producer_id, epoch, at.topic, at.partition), (at, producer_id)
        while not partition.producers.is_writing(producer_id, epoch) and self._learned.get(place) != epoch:
            self._learned[place] = None
            try:
                answer = await self._coordinator().may_write(asked)
                if answer.error is not None:
                    raise answer.error
            except GoQueueError:
                self._learned.pop(place, None)
                raise
            if place in self._learned:
                self._learned[place] = epoch

    def ended(self, at: TopicPartition, producer_id: int) -> None:
        """The transaction's marker is here: the next batch has to be asked for again."""
        self._learned.pop((at, producer_id), None)

    def forget(self, at: TopicPartition) -> None:
        """Whatever was learned of a partition."""
        for place in [place for place in self._learned if place[0] == at]:
            del self._learned[place]


class TransactionPartitions:
    """What the coordinator asks of partitions. Those that were deleted, and their messages with them, are left out."""

    def __init__(self, topics: Topics, writes: TransactionWrites, clock: Clock, force: Force | None = None) -> None:
        self._topics = topics
        self._writes = writes
        self._clock = clock
        self._force = force

    async def force(self) -> None:
        """Where transactions wait for the disk though nothing else does: all that was written so far is on it."""
        if self._force is not None:
            await self._force()

    def forget(self, at: TopicPartition) -> None:
        """Who may write there has to be asked for again."""
        self._writes.forget(at)

    async def confirm(self, asked: Sequence[ConfirmWrites]) -> list[WritesConfirmed]:
        """What is committed is as durable as the node promises before the decision is."""
        touched = [(one, list(self._existing(one.partitions))) for one in asked]
        for one, partitions in touched:
            for partition in partitions:
                while not partition.holds_safely(one.producer_id):
                    await partition.wait_durable()
        await self.force()
        return [_confirmed(one, partitions) for one, partitions in touched]

    def mark(self, effect: WriteMarker) -> None:
        """Not durable before `wait_durable`. A marker that says nothing new is not written."""
        whose, now = (effect.producer_id, effect.epoch), self._clock.now_ms()
        for partition in self._existing([(effect.topic, effect.partition)]):
            self._writes.ended(partition.at, effect.producer_id)
            if partition.producers.needs_marker(*whose):
                batch = marker(*whose, effect.commit, now, effect.coordinator_epoch)
                partition.append(batch, read_header(batch), now, append_time=False)

    async def wait_durable(self, places: Iterable[tuple[str, int]]) -> None:
        for partition in self._existing(places):
            if not partition.is_durable:
                await partition.wait_durable()

    def _existing(self, places: Iterable[tuple[str, int]]) -> Iterator[Partition]:
        for topic, number in places:
            try:
                yield self._topics.require(topic).partition(number)
            except NotFound:
                if self._topics.is_coming(topic, number):
                    raise NotLoaded(f"{topic} {number} is being opened; try again in a moment.") from None


def _confirmed(asked: ConfirmWrites, partitions: Sequence[Partition]) -> WritesConfirmed:
    for partition in partitions:
        if partition.failure is not None:
            raise partition.failure
    count = sum(one.producers.next_sequence(asked.producer_id, asked.epoch) for one in partitions)
    return WritesConfirmed(count)  # each epoch counts from 0
