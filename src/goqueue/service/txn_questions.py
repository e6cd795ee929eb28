"""Answers what partitions ask the transaction coordinators, where both are in one place."""

from __future__ import annotations

import logging

from goqueue.base.clock import Clock
from goqueue.core.txn.questions import EpochSeen, IsOpen, MayWrite, OpenAnswer, ProducerActive, WriteAnswer
from goqueue.core.txn.records import TxnState
from goqueue.drive.txn_coordinators import TransactionCoordinators

logger = logging.getLogger(__name__)


class CoordinatorQuestions:
    """The port of `service/txn_partitions.py`, answered at once."""

    def __init__(self, coordinators: TransactionCoordinators, clock: Clock) -> None:
        self._coordinators = coordinators
        self._clock = clock

    def may_write_now(self, asked: MayWrite) -> WriteAnswer | None:
        return self._coordinators.of_producer(asked.producer_id).machine.may_write(asked, self._clock.now_ms())

    async def may_write(self, asked: MayWrite) -> WriteAnswer:
        return self._coordinators.of_producer(asked.producer_id).machine.may_write(asked, self._clock.now_ms())

    def knows(self, producer_id: int) -> bool:
        """Whether a coordinator of this node is the one to ask."""
        return self._coordinators.find_producer(producer_id) is not None

    @property
    def shards(self) -> list[int]:
        """Whose transactions are known here."""
        return self._coordinators.loaded

    def active(self, note: ProducerActive) -> None:
        """Of a producer whose batch did not have to be asked for."""
        coordinator = self._coordinators.of_producer(note.producer_id)
        if coordinator.host.is_loaded:
            coordinator.machine.touch(note.producer_id, self._clock.now_ms())

    def is_open(self, asked: IsOpen) -> OpenAnswer:
        return self._coordinators.of_producer(asked.producer_id).machine.is_open(asked)

    async def epoch_seen(self, seen: EpochSeen) -> bool:
        """Whether that was news; if so, it is passed over when this returns."""
        coordinator = self._coordinators.of_producer(seen.producer_id)
        moved: TxnState | None = await coordinator.decide(lambda machine, now: machine.epoch_seen(seen, now))
        if moved is None:
            return False
        logger.warning("a lost epoch is passed over", extra={"transactional_id": moved.transactional_id})
        await coordinator.ended(moved.transactional_id)
        return True
