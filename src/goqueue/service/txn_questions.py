"""Answers what partitions ask the transaction coordinator, where both are in one place."""

from __future__ import annotations

import logging

from goqueue.base.clock import Clock
from goqueue.core.txn.questions import EpochSeen, IsOpen, MayWrite, OpenAnswer, ProducerActive, WriteAnswer
from goqueue.core.txn.records import TxnState
from goqueue.drive.txn_coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)


class CoordinatorQuestions:
    """The port of `service/txn_partitions.py`, answered at once."""

    def __init__(self, coordinator: TransactionCoordinator, clock: Clock) -> None:
        self._coordinator = coordinator
        self._clock = clock

    def may_write_now(self, asked: MayWrite) -> WriteAnswer | None:
        return self._coordinator.machine.may_write(asked, self._clock.now_ms())

    async def may_write(self, asked: MayWrite) -> WriteAnswer:
        return self._coordinator.machine.may_write(asked, self._clock.now_ms())

    def active(self, note: ProducerActive) -> None:
        """Of a producer whose batch did not have to be asked for."""
        if self._coordinator.host.is_loaded:
            self._coordinator.machine.touch(note.producer_id, self._clock.now_ms())

    def is_open(self, asked: IsOpen) -> OpenAnswer:
        return self._coordinator.machine.is_open(asked)

    async def epoch_seen(self, seen: EpochSeen) -> bool:
        """Whether that was news; if so, it is passed over when this returns."""
        moved: TxnState | None = await self._coordinator.decide(lambda machine, now: machine.epoch_seen(seen, now))
        if moved is None:
            return False
        logger.warning("a lost epoch is passed over", extra={"transactional_id": moved.transactional_id})
        await self._coordinator.ended(moved.transactional_id)
        return True
