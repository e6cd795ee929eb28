"""For a start after a power cut, which took the coordinator's last records and left what producers wrote.

Messages whose transaction the coordinator does not know are nobody's: they are aborted. Epochs that partitions know of
are not given out a second time: whoever got one again would be taken for its first holder, and its batches would pass
for repetitions and be left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from goqueue.base.errors import GoQueueError
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.epochs import EPOCH_MAX
from goqueue.core.txn.records import TxnStage
from goqueue.drive.partition import Partition
from goqueue.drive.txn_coordinator import TransactionCoordinator
from goqueue.service.topics import Topics
from goqueue.service.txn_effects import TransactionEffects

logger = logging.getLogger(__name__)


class TransactionRecovery:
    """The verbs, for a start."""

    def __init__(self, topics: Topics, coordinator: TransactionCoordinator, effects: TransactionEffects) -> None:
        self._topics = topics
        self._coordinator = coordinator
        self._effects = effects

    async def abort_orphans(self) -> int:
        """Ends what is open in partitions and not at the coordinator; returns how many there were."""
        count = 0
        for partition in self._partitions():
            for producer_id in partition.producers.open_transactions():
                count += await self._abort_orphan(partition, producer_id)
        return count

    def _partitions(self) -> Iterator[Partition]:
        for topic in self._topics.all():
            yield from topic.partitions

    async def _abort_orphan(self, partition: Partition, producer_id: int) -> bool:
        topic, number, epoch = partition.at.topic, partition.at.partition, partition.producers.epoch_of(producer_id)
        table = self._coordinator.table
        if table.writes_to(producer_id, topic, number, epoch):
            return False
        logger.warning("an orphaned transaction is aborted", extra={"partition": str(partition.at)})
        state = table.of_producer(producer_id)
        if state is not None and state.stage is TxnStage.ONGOING and state.epoch == epoch:
            epoch = min(epoch, EPOCH_MAX) + 1  # not whole any more: nobody may go on with it and commit the rest
        marker = WriteMarker(producer_id, epoch, 0, topic, number, commit=False)
        try:
            await self._effects.perform(marker)
            await self._effects.wait_durable([marker])
        except GoQueueError as error:
            logger.error("an orphaned transaction stays open", extra={"error": error.message})
            return False
        return True

    async def pass_lost_epochs(self) -> int:
        """Moves producers on to the epochs that partitions know of; returns how many there were."""
        count = 0
        for producer_id, seen in sorted(self._seen().items()):
            state = self._coordinator.table.of_producer(producer_id)
            if state is not None and state.epoch < seen:
                count += await self._move_on(state.transactional_id, seen)
        return count

    def _seen(self) -> dict[int, int]:
        """The highest epoch of each producer, wherever it wrote."""
        found: dict[int, int] = {}
        for partition in self._partitions():
            for one in partition.producers.all():
                found[one.producer_id] = max(one.epoch, found.get(one.producer_id, 0))
        return found

    async def _move_on(self, name: str, seen: int) -> bool:
        logger.warning("a lost epoch is passed over", extra={"transactional_id": name, "epoch": seen})
        try:
            moved = await self._coordinator.decide(lambda machine, now: machine.move_epoch(name, seen, now))
            await self._coordinator.ended(name)
        except GoQueueError as error:
            logger.error("a lost epoch may be given out again", extra={"error": error.message})
            return False
        return bool(moved.epoch >= seen)
