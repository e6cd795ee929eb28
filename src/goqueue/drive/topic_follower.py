"""Topics that other nodes make, change or delete: the table is brought up to the image, one look after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.metadata import Change
from goqueue.core.cluster.records import TOPICS
from goqueue.drive.topic_table import TopicTable

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


class TopicFollower:
    """`looked` is called when the table is as the image was, but for topics that cannot be opened."""

    def __init__(self, table: TopicTable, looked: Callable[[], None]) -> None:
        self._table = table
        self._looked = looked
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def metadata_changed(self, change: Change) -> None:
        if any(key.startswith(TOPICS) for key in (*(entry.key for entry in change.puts), *change.deletes)):
            self._changed.set()

    def start(self) -> None:
        self._changed.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        has_failed = False
        while True:
            if not has_failed:
                await self._changed.wait()
            is_news, has_failed = self._changed.is_set(), False
            self._changed.clear()
            try:
                await self._table.catch_up()
            except (GoQueueError, OSError) as error:
                logger.error("a topic of another node cannot be opened yet", extra={"error": str(error)})
                has_failed = True
            if is_news or not has_failed:
                self._looked()
            if has_failed:
                await asyncio.sleep(_RETRY_S)
