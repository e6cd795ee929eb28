"""Runs the schema registry: makes its decisions durable in an internal compacted topic, then lets them hold."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.core.schemas.records import decode_record, encode_record
from goqueue.core.schemas.registry import Decision, Registry
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build, decode

logger = logging.getLogger(__name__)

SCHEMAS_TOPIC: Final = "__goqueue_schemas"
SCHEMAS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}


class SchemaRunner:
    """Made empty; `replay` and `begin` bring the registry back."""

    def __init__(self, clock: Clock) -> None:
        self.registry = Registry()
        self.on_change: Callable[[], None] = lambda: None
        self._clock = clock
        self._partition: Partition | None = None

    def replay(self, partition: Partition) -> int:
        """Blocks while it reads the records; run it off the loop. Answers with how many there were."""
        count = 0
        for batch in partition.log.batches(partition.log.start_offset):
            for stored in decode(batch):
                record = decode_record(stored.key or b"", stored.value)
                if record is not None:
                    self.registry.table.apply(record)
                    count += 1
        return count

    def begin(self, partition: Partition) -> None:
        """From now on the registry is served."""
        self._partition = partition
        self.on_change()

    def check_loaded(self) -> None:
        if self._partition is None:
            raise ShuttingDown("The schema registry is not loaded yet; try again in a moment.")

    async def perform(self, decision: Decision) -> Any:
        """The decision's reply, once its records are safe. All of them are in one batch: all hold, or none."""
        self.check_loaded()
        partition = self._partition
        assert partition is not None
        if decision.records:
            now = self._clock.now_ms()
            pairs = [encode_record(record) for record in decision.records]
            batch = build([NewRecord(key, value, (), now) for key, value in pairs])
            partition.append(batch, read_header(batch), now, append_time=False)
            for record in decision.records:
                self.registry.table.apply(record)
            self.on_change()
            await self._settle(partition)
        return decision.reply

    async def _settle(self, partition: Partition) -> None:
        try:
            if not partition.is_settled:
                await partition.settle()
        except GoQueueError as why:
            logger.error("schema records could not be made safe", extra={"why": why.message})
            self.registry = Registry()
            self.replay(partition)
            self.on_change()
            raise
