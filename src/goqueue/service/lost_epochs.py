"""Epochs that a power cut took from the coordinator's log and left in partitions are not given out a second time.

Whoever got one again would be taken for its first holder: its batches would pass for repetitions and be left out.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.core.txn.epochs import EPOCH_MAX, NEW
from goqueue.core.txn.records import ENDING, IDLE, TxnState
from goqueue.drive.txn_runner import TxnRunner
from goqueue.service.topics import Topics

logger = logging.getLogger(__name__)


class LostEpochs:
    """The verb, for a start."""

    def __init__(self, topics: Topics, runner: TxnRunner, clock: Clock) -> None:
        self._topics = topics
        self._runner = runner
        self._clock = clock

    async def recover(self) -> int:
        """Moves producers on to the epochs that partitions know of; returns how many there were."""
        count = 0
        for producer_id, seen in sorted(self._seen().items()):
            state = self._runner.transactions.of_producer(producer_id)
            if state is not None and state.epoch < seen and state.stage not in ENDING:
                count += await self._move_on(state, seen)
        return count

    def _seen(self) -> dict[int, int]:
        """The highest epoch of each producer, wherever it wrote."""
        found: dict[int, int] = {}
        for topic in self._topics.all():
            for partition in topic.partitions:
                for one in partition.producers.all():
                    found[one.producer_id] = max(one.epoch, found.get(one.producer_id, 0))
        return found

    async def _move_on(self, state: TxnState, seen: int) -> bool:
        logger.warning("a lost epoch is passed over", extra={"transactional_id": state.transactional_id, "epoch": seen})
        try:
            if state.stage in IDLE:
                await self._runner.write(replace(state, epoch=seen))
            else:
                await self._abort(state, seen)
        except GoQueueError as error:
            logger.error("a lost epoch may be given out again", extra={"error": error.message})
            return False
        return True

    async def _abort(self, state: TxnState, seen: int) -> None:
        """It is open only here: its producer had ended it, or it would have no later epoch."""
        decided = self._runner.transactions.fence(state.transactional_id, self._clock.now_ms())
        if decided is not None:
            await self._runner.end(replace(decided, epoch=min(seen, EPOCH_MAX) + 1), bump=False, fresh_id=NEW)
