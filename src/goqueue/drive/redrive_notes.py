"""One small durable note for each redrive, so that a start knows what was under way and what was done before."""

from __future__ import annotations

import logging
from typing import Final

from goqueue.core.redrive import RedriveTask
from goqueue.drive.offload import Offload
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full

logger = logging.getLogger(__name__)

_HOME: Final = "redrives"
_SUFFIX: Final = ".redrive"


class RedriveNotes:
    """Reads and writes them off the loop."""

    def __init__(self, disk: Disk, offload: Offload) -> None:
        self._disk = disk
        self._offload = offload

    async def load(self) -> list[RedriveTask]:
        """All of them, the oldest first. What cannot be read is reported and left alone."""
        return await self._offload(self._load)

    async def save(self, task: RedriveTask) -> None:
        """Safe when it returns; `DiskFull` if there is no room."""
        await self._offload(lambda: self._save(task))

    async def remove(self, task_id: str) -> None:
        await self._offload(lambda: self._disk.remove(f"{_HOME}/{task_id}{_SUFFIX}"))

    def _load(self) -> list[RedriveTask]:
        found: list[RedriveTask] = []
        for name in self._disk.names(_HOME):
            if name.endswith(_SUFFIX):
                task = decode_crc_json(self._disk.read_file(f"{_HOME}/{name}"), RedriveTask)
                if task is None:
                    logger.error("the note of a redrive cannot be read", extra={"file": f"{_HOME}/{name}"})
                else:
                    found.append(task)
        return sorted(found, key=lambda task: (task.started_ms, task.id))

    def _save(self, task: RedriveTask) -> None:
        with refused_when_full():
            if not self._disk.is_dir(_HOME):
                self._disk.make_dirs(_HOME)
                self._disk.sync_dir("")
            self._disk.write_file(f"{_HOME}/{task.id}{_SUFFIX}", encode_crc_json(task))
