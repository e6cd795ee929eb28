"""Transactions as partitions see them: who may write, what is stored, markers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from goqueue.base.clock import Clock
from goqueue.base.errors import NotFound
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.questions import ConfirmWrites, MayWrite, ProducerActive, WriteAnswer, WritesConfirmed
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.control import marker
from goqueue.service.topics import Topics

Force = Callable[[], Awaitable[None]]  # makes all that was written so far durable


class CoordinatorPort(Protocol):
    """The coordinator, as partitions see it."""

    def may_write(self, asked: MayWrite, /) -> WriteAnswer: ...

    def active(self, note: ProducerActive, /) -> None: ...


class TransactionWrites:
    """Asked before a transactional batch is stored."""

    def __init__(self, coordinator: Callable[[], CoordinatorPort]) -> None:
        self._coordinator = coordinator

    def check(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Raises unless the batch belongs to an open transaction that the partition is part of. The coordinator is
        asked on first use; behind the transaction's first batch the partition knows by itself."""
        coordinator = self._coordinator()
        if partition.producers.is_writing(producer_id, epoch):
            coordinator.active(ProducerActive(producer_id, epoch))
            return
        at = partition.at
        error = coordinator.may_write(MayWrite(producer_id, epoch, at.topic, at.partition)).error
        if error is not None:
            raise error


class TransactionPartitions:
    """What the coordinator asks of partitions. Those that were deleted, and their messages with them, are left out."""

    def __init__(self, topics: Topics, clock: Clock, force: Force | None = None) -> None:
        self._topics = topics
        self._clock = clock
        self._force = force

    async def force(self) -> None:
        """Where transactions wait for the disk though nothing else does: all that was written so far is on it."""
        if self._force is not None:
            await self._force()

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
            if partition.producers.needs_marker(*whose):
                batch = marker(*whose, effect.commit, now, effect.coordinator_epoch)
                partition.append(batch, read_header(batch), now, append_time=False)

    async def wait_durable(self, places: Iterable[tuple[str, int]]) -> None:
        for partition in self._existing(places):
            await partition.wait_durable()

    def _existing(self, places: Iterable[tuple[str, int]]) -> Iterator[Partition]:
        for topic, number in places:
            try:
                yield self._topics.require(topic).partition(number)
            except NotFound:
                continue


def _confirmed(asked: ConfirmWrites, partitions: Sequence[Partition]) -> WritesConfirmed:
    for partition in partitions:
        if partition.failure is not None:
            raise partition.failure
    count = sum(one.producers.next_sequence(asked.producer_id, asked.epoch) for one in partitions)
    return WritesConfirmed(count)  # each epoch counts from 0
