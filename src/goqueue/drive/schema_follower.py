"""The schemas on a node that does not write them: read again when their log has grown, and before it writes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Epoch
from goqueue.core.schemas.records import Record
from goqueue.core.schemas.registry import Registry
from goqueue.drive.host import Host
from goqueue.drive.partition import Partition

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


class SchemaHost(Host[Registry, Record]):
    """The machine stays loaded where others lead the log."""

    _loaded_in: Epoch = -1  # the log's epoch when the load began

    async def load(self, partition: Partition) -> int:
        led_in = partition.leader_epoch
        count = await super().load(partition)
        self._loaded_in = led_in
        return count

    def check_current(self) -> None:
        """Raises where the log is led in another epoch by now: the machine may lack what the leader before wrote."""
        if self._partition is not None and self._partition.leader_epoch != self._loaded_in:
            raise self._not_loaded()


class SchemaFollower:
    """The node that leads the log writes to it and knows; when it begins to lead, it reads once more (`look`)."""

    def __init__(self, partition: Partition, load: Callable[[Partition], Awaitable[None]]) -> None:
        self._partition = partition
        self._load = load
        self._read_to = -1
        self._led_in = -1  # the epoch in which this node leads
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    async def start(self) -> None:
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._partition.watch(moved)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await moved
            self._partition.unwatch(moved)
            try:
                await self.look()
            except (GoQueueError, OSError) as error:
                logger.error("schemas cannot be read; trying again", extra={"error": str(error)})
                await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Returns when everything is known that the log has, if this node leads it, or else what is acknowledged."""
        async with self._looking:
            state = self._partition.state
            led_in = state.leader_epoch if state.is_led else -1
            if led_in >= 0 and led_in == self._led_in:
                return
            mark = self._partition.end_offset if led_in >= 0 else self._partition.high_watermark
            if mark != self._read_to or led_in != self._led_in:
                await self._load(self._partition)
                self._read_to, self._led_in = mark, led_in
