"""Logs of deleted topics: set aside at once, and freed behind everybody's back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from goqueue.drive.offload import Offload
from goqueue.drive.partition_opener import LOGS
from goqueue.log.disk import Disk
from goqueue.log.held_logs import HeldLogs
from goqueue.log.notes import topic_of

logger = logging.getLogger(__name__)

TRASH: Final = "trash"


def aside(topic_id: str, partition: int) -> str:
    """Where the files of a deleted partition are until they are freed."""
    return f"{TRASH}/{topic_id}/{partition}"


class TopicTrash:
    def __init__(self, disk: Disk, held: HeldLogs, offload: Offload) -> None:
        self._disk = disk
        self._held = held
        self._offload = offload
        self._emptying: set[asyncio.Task[None]] = set()

    def throw_away(self, name: str, topic_id: str) -> None:
        """Blocks."""
        if self._disk.is_dir(f"{LOGS}/{name}"):
            self._disk.remove_tree(f"{TRASH}/{topic_id}")
            self._disk.rename(f"{LOGS}/{name}", f"{TRASH}/{topic_id}")
            self._disk.sync_dir(LOGS)
        self._held.forget(topic_id)

    def throw_away_gone(self, gone: Collection[str]) -> None:
        """Whatever belongs to topics with these ids, under any name. Blocks."""
        for name in self._disk.names(LOGS):
            home = f"{LOGS}/{name}"
            found = {number: topic_of(self._disk, f"{home}/{number}") for number in self._disk.names(home)}
            theirs = [number for number, topic_id in found.items() if topic_id in gone]
            for number in theirs:
                logger.warning("a log of a deleted topic is freed", extra={"path": f"{home}/{number}"})
                path = f"{TRASH}/{found[number]}"
                self._disk.make_dirs(path)
                self._disk.remove_tree(f"{path}/{number}")
                self._disk.rename(f"{home}/{number}", f"{path}/{number}")
                self._held.forget(found[number])
            if theirs:
                self._disk.sync_dir(home)
            if theirs and len(theirs) == len(found):
                self._disk.remove_tree(home)
                self._disk.sync_dir(LOGS)

    def empty(self) -> None:
        task = asyncio.create_task(self._empty())
        self._emptying.add(task)
        task.add_done_callback(self._emptying.discard)

    async def _empty(self) -> None:
        for name in self._disk.names(TRASH):
            await self._offload(lambda name=name: self._disk.remove_tree(f"{TRASH}/{name}"))  # type: ignore[misc]

    async def close(self) -> None:
        for task in list(self._emptying):
            await task
