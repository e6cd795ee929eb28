"""Batches of open transactions, stored where their partitions are led."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.ids import Offset, TopicPartition
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.format.records import InTransaction, NewRecord
from goqueue.service.publish import Publish
from goqueue.service.router import Router
from goqueue.service.topics import Topics


class NumberedBatch(msgspec.Struct, frozen=True):
    """Records, and the number of the first among all that the producer wrote to the partition."""

    sequence: int
    records: Sequence[NewRecord]


class TransactionStores(Protocol):
    """Of this node, or of all."""

    async def next_sequence(self, at: TopicPartition, producer_id: int, epoch: int) -> int: ...

    async def store(
        self,
        at: TopicPartition,
        producer_id: int,
        epoch: int,
        batches: Sequence[NumberedBatch],
        caller: Caller,
    ) -> list[Offset]: ...


class TransactionStore:
    """Of the partitions that this node leads."""

    def __init__(self, publish: Publish, topics: Topics) -> None:
        self._publish = publish
        self._topics = topics

    async def next_sequence(self, at: TopicPartition, producer_id: int, epoch: int) -> int:
        partition = self._find(at)[1]
        partition.check_led()
        return partition.producers.next_sequence(producer_id, epoch)

    async def store(
        self,
        at: TopicPartition,
        producer_id: int,
        epoch: int,
        batches: Sequence[NumberedBatch],
        caller: Caller,
    ) -> list[Offset]:
        """Where each batch is; safe when it returns. Those that are there already stay where they are."""
        topic, partition = self._find(at)
        partition.check_led()
        offsets = [
            await self._put(topic, partition, InTransaction(producer_id, epoch, one.sequence), one, caller)
            for one in batches
        ]
        await self._publish.wait_durable(at)
        return offsets

    async def _put(
        self,
        topic: Topic,
        partition: Partition,
        txn: InTransaction,
        batch: NumberedBatch,
        caller: Caller,
    ) -> Offset:
        producers, who = partition.producers, (txn.producer_id, txn.epoch)
        if txn.sequence < producers.next_sequence(*who):
            found = await producers.find_batch(*who, txn.sequence)
            if found is not None:
                return found
        await self._publish.learn(partition, *who)
        return self._publish.store(topic, partition.at.partition, list(batch.records), txn, caller)

    def _find(self, at: TopicPartition) -> tuple[Topic, Partition]:
        topic = self._topics.require(at.topic)
        return topic, topic.partition(at.partition)


class RoutedTransactionStore:
    """Of all partitions. A batch that may have been stored is sent again: its number tells whether it was."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def next_sequence(self, at: TopicPartition, producer_id: int, epoch: int) -> int:
        find = lambda: self._router.shards.leader_of(at)  # noqa: E731
        args = [at, producer_id, epoch]
        found: int = await self._router.ask_leader(find, TransactionStore, "next_sequence", args)
        return found

    async def store(
        self,
        at: TopicPartition,
        producer_id: int,
        epoch: int,
        batches: Sequence[NumberedBatch],
        caller: Caller,
    ) -> list[Offset]:
        find = lambda: self._router.shards.leader_of(at)  # noqa: E731
        args = [at, producer_id, epoch, batches, caller]
        found: list[Offset] = await self._router.ask_leader(find, TransactionStore, "store", args)
        return found
