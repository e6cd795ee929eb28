"""Syncs of single logs, off the loop: one of a log at a time, whoever asks for it.

A second sync that began while the first still makes a file's name durable would promise what only the first can keep.
"""

from __future__ import annotations

import asyncio
import logging

from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.log.home import NO_RESOURCES
from goqueue.log.jobs import SyncJob

logger = logging.getLogger(__name__)


class LogSyncs:
    """A failed sync makes the partition read-only: its pages may be gone."""

    def __init__(self, offload: Offload) -> None:
        self.offload = offload
        self._running: dict[Partition, asyncio.Future[None]] = {}

    def under_way(self, partition: Partition) -> asyncio.Future[None] | None:
        """The one that runs."""
        return self._running.get(partition)

    async def sync(self, partition: Partition) -> bool:
        """Makes all that the log holds now safe in its own files; False if that did not work."""
        while (other := self._running.get(partition)) is not None:
            await asyncio.wait([other])
        if (job := partition.log.begin_sync()) is None:
            return partition.log.failure is None
        self._running[partition] = done = asyncio.get_running_loop().create_future()
        try:
            return await self._run(partition, job)
        finally:
            del self._running[partition]
            done.set_result(None)

    async def _run(self, partition: Partition, job: SyncJob) -> bool:
        try:
            await self.offload(job.run)
        except OSError as error:
            self._failed(partition, job, error)
            return False
        partition.log.finish_sync(job)
        partition.synced()
        return True

    def _failed(self, partition: Partition, job: SyncJob, error: OSError) -> None:
        if not job.sync_failed and any(segment not in partition.log.segments for segment, _, _ in job.parts):
            partition.log.refuse_sync(job, error)  # the log begins behind it by now: the next one leaves it out
        elif error.errno in NO_RESOURCES and not job.sync_failed:
            logger.warning("out of resources, sync tried again", extra={"partition": str(partition.at)})
            partition.log.refuse_sync(job, error)
        elif not partition.is_closed:
            partition.log.fail(error)
