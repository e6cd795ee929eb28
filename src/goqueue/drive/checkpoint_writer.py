"""Writes a host's machine whole, every so many bytes, so that the log before can go."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.core.machine import Machine
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.host_parts import Checkpoint
from goqueue.drive.partition import Partition

logger = logging.getLogger(__name__)

R = TypeVar("R")
M = TypeVar("M", bound=Machine[Any])

_BATCH: Final = 200  # records; others get their turn in between


class CheckpointWriter(Generic[M, R]):
    """At most one is written at a time. `bytes_since` counts what was appended since the last."""

    def __init__(
        self,
        plan: Checkpoint[M, R],
        append: Callable[[Sequence[R], Millis], Offset],
        clock: Clock,
        tasks: BackgroundTasks,
    ) -> None:
        self.every_bytes = plan.every_bytes
        self.bytes_since = 0
        self._plan = plan
        self._append = append
        self._clock = clock
        self._tasks = tasks
        self._writing: asyncio.Task[None] | None = None

    def begin(self, machine: M, partition: Partition) -> None:
        if self._writing is None or self._writing.done():
            self._writing = self._tasks.spawn(self._write(machine, partition))

    def count_anew(self) -> None:
        """The machine was just loaded."""
        self.bytes_since = 0

    def cancel(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self, machine: M, partition: Partition) -> None:
        try:
            first = partition.log.end_offset
            snapshot = iter(self._plan.snapshot(machine))
            while records := list(itertools.islice(snapshot, _BATCH)):
                self._append(records, self._clock.now_ms())
                await asyncio.sleep(0)
            self.bytes_since = 0  # of decisions alone: a machine may be larger than what lies between two checkpoints
            await self._plan.drop_head(partition, first)
        except (GoQueueError, OSError) as error:
            extra = {"machine": self._tasks.machine, "why": str(error)}
            logger.error("no checkpoint could be written", extra=extra)
