"""What the last leader of a shard left in its partitions: transactions that nobody will end, and epochs that the
coordinators may not know. The coordinators may be at other nodes that are taking over themselves, so nothing waits for
this: it is tried in the background until it is done, or the shard has another leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.questions import EpochSeen, IsOpen
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.txn_asking import CoordinatorsAnywhere
from goqueue.service.txn_partitions import TransactionPartitions

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_AT_ONCE: Final = 5_000  # producers that are told of in one call


class ShardTransactionRecovery:
    def __init__(
        self,
        coordinators: CoordinatorsAnywhere,
        partitions: TransactionPartitions,
        in_shard: Callable[[int], Iterable[tuple[Topic, Partition]]],
        elsewhere: Elsewhere,
    ) -> None:
        self._coordinators = coordinators
        self._partitions = partitions
        self._of_shard = in_shard
        self._elsewhere = elsewhere

    def _in_shard(self, shard: int) -> list[Partition]:
        return [partition for topic, partition in self._of_shard(shard) if not topic.is_internal]

    def begin(self, shard: int) -> None:
        """Who may write was learned under another leader, whose markers this node did not hear of."""
        for partition in self._in_shard(shard):
            self._partitions.forget(partition.at)
        self._elsewhere.spawn(self._recover(shard, self._elsewhere.shards.epoch(shard)))

    async def _recover(self, shard: int, epoch: int) -> None:
        is_done = False
        while not is_done and self._elsewhere.is_here(shard) and self._elsewhere.shards.epoch(shard) == epoch:
            try:
                await self._abort_orphans(shard)
                await self._pass_epochs(shard)
                is_done = True
            except GoQueueError as error:
                logger.info("open transactions are looked at again", extra={"shard": shard, "error": error.message})
                await asyncio.sleep(_RETRY_S)

    async def _abort_orphans(self, shard: int) -> None:
        for partition in self._in_shard(shard):
            for producer_id, first in list(partition.producers.open_transactions().items()):
                await self._abort_orphan(partition, producer_id, first)

    async def _abort_orphan(self, partition: Partition, producer_id: int, first: int) -> None:
        """Not if its transaction ended while the question was under way: the next one is another."""
        topic, number, epoch = partition.at.topic, partition.at.partition, partition.producers.epoch_of(producer_id)
        answer = await self._coordinators.ask_open(IsOpen(producer_id, epoch, topic, number))
        if answer.abort_as is None or partition.producers.open_transactions().get(producer_id) != first:
            return
        logger.warning("an orphaned transaction is aborted", extra={"partition": str(partition.at)})
        self._partitions.mark(WriteMarker(producer_id, answer.abort_as, 0, topic, number, commit=False))
        await partition.wait_durable()

    async def _pass_epochs(self, shard: int) -> None:
        seen: dict[int, int] = {}
        for partition in self._in_shard(shard):
            for one in partition.producers.all():
                seen[one.producer_id] = max(one.epoch, seen.get(one.producer_id, 0))
        found = [EpochSeen(*one) for one in sorted(seen.items())]
        for begin in range(0, len(found), _AT_ONCE):
            await self._coordinators.epochs_seen(found[begin : begin + _AT_ONCE])
