"""Syncs, at leisure, the logs of what the journal made safe, so that its space is free again.

The journal's two files take turns: while one is written to, the logs that have something in the other are synced. A log
whose sync fails keeps its file of the journal from being written over: after a restart that has what the log lacks.
"""

from __future__ import annotations

import asyncio

from goqueue.drive.log_syncs import LogSyncs
from goqueue.drive.partition import Partition
from goqueue.log.journal import LogJournal


class Settler:
    """`settle` every so often, and when the journal fills; one at a time."""

    def __init__(self, journal: LogJournal, syncs: LogSyncs) -> None:
        self._journal = journal
        self._syncs = syncs
        self._noted: dict[Partition, None] = {}  # with something in the file that is written to
        self._settling: dict[Partition, None] = {}  # with something in the other
        self._is_turned = False

    async def end(self) -> None:
        """Returns when every log is synced, and the journal says so, or when some could not be."""
        both = {**self._settling, **self._noted}
        if len(await self._sync(both)) == len(both):
            await self._syncs.offload(self._journal.close)

    def note(self, partition: Partition) -> None:
        """The journal has something of it."""
        self._noted[partition] = None

    def forget(self, partition: Partition) -> None:
        """The partition is being deleted."""
        self._noted.pop(partition, None)
        self._settling.pop(partition, None)

    async def settle(self) -> None:
        """One turn of the two files, if it is time for one."""
        if not self._is_turned and self._noted and self._journal.switch():
            self._settling, self._noted, self._is_turned = self._noted, {}, True
        if self._is_turned:
            await self._settle_other()
        if self._settling or not self._is_turned:
            await self._sync(self._noted)
        self._is_turned = self._is_turned and bool(self._settling)

    async def _settle_other(self) -> None:
        for partition in await self._sync(self._settling):
            self._settling.pop(partition, None)
        if not self._settling:
            self._journal.release()

    async def _sync(self, partitions: dict[Partition, None]) -> list[Partition]:
        """Those whose logs are safe now."""
        chosen = list(partitions)
        are_safe = await asyncio.gather(*(self._syncs.sync(one) for one in chosen))
        return [one for one, is_safe in zip(chosen, are_safe, strict=True) if is_safe]
