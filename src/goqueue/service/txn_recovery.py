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
from goqueue.core.txn.questions import EpochSeen, IsOpen
from goqueue.drive.partition import Partition
from goqueue.service.topics import Topics
from goqueue.service.txn_partitions import CoordinatorPort, TransactionPartitions

logger = logging.getLogger(__name__)


class TransactionRecovery:
    """The verbs, for a start: what partitions hold is held against what the coordinator knows."""

    def __init__(self, topics: Topics, coordinator: CoordinatorPort, partitions: TransactionPartitions) -> None:
        self._topics = topics
        self._coordinator = coordinator
        self._partitions = partitions

    def _all(self) -> Iterator[Partition]:
        for topic in self._topics.all():
            yield from topic.partitions

    async def abort_orphans(self) -> int:
        """Ends what is open in partitions and not at the coordinator; returns how many there were."""
        count = 0
        for partition in self._all():
            for producer_id in partition.producers.open_transactions():
                count += await self._abort_orphan(partition, producer_id)
        return count

    async def _abort_orphan(self, partition: Partition, producer_id: int) -> bool:
        topic, number, epoch = partition.at.topic, partition.at.partition, partition.producers.epoch_of(producer_id)
        abort_as = self._coordinator.is_open(IsOpen(producer_id, epoch, topic, number)).abort_as
        if abort_as is None:
            return False
        logger.warning("an orphaned transaction is aborted", extra={"partition": str(partition.at)})
        try:
            self._partitions.mark(WriteMarker(producer_id, abort_as, 0, topic, number, commit=False))
            await partition.wait_durable()
        except GoQueueError as error:
            logger.error("an orphaned transaction stays open", extra={"error": error.message})
            return False
        return True

    async def pass_lost_epochs(self) -> int:
        """Moves producers on to the epochs that partitions know of; returns how many there were."""
        count = 0
        for producer_id, epoch in sorted(self._seen().items()):
            try:
                count += await self._coordinator.epoch_seen(EpochSeen(producer_id, epoch))
            except GoQueueError as error:
                logger.error("a lost epoch may be given out again", extra={"error": error.message})
        return count

    def _seen(self) -> dict[int, int]:
        """The highest epoch of each producer, wherever it wrote."""
        found: dict[int, int] = {}
        for partition in self._all():
            for one in partition.producers.all():
                found[one.producer_id] = max(one.epoch, found.get(one.producer_id, 0))
        return found
