"""Asks the store for the changes of in-sync sets that this node wants for the shards that it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, MetadataConflict
from goqueue.base.metadata import Commit, Revision
from goqueue.core.cluster.records import NODES, SHARDS, encode
from goqueue.core.replication.leader import SetChange
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.leading_shard import LeadingShard

logger = logging.getLogger(__name__)

_BEHIND_S: Final = 2.0  # before a change is asked for again that the store said is out of date


class InSyncChanges:
    """A store that is slow with one shard holds up no other, nor who leads what: nobody waits for an answer."""

    def __init__(self, metadata: ImageFollower, leading: Mapping[int, LeadingShard], clock: Clock) -> None:
        """`leading` are the shards as they are now."""
        self._metadata = metadata
        self._leading = leading
        self._clock = clock
        self._asking: dict[LeadingShard, asyncio.Task[None]] = {}
        self._behind: dict[LeadingShard, tuple[Revision, float]] = {}  # what the store has a later record of, and when

    def look(self) -> None:
        """Asks for what is wanted now. A shard's change that was asked for is answered before the next."""
        self._behind = {led: behind for led, behind in self._behind.items() if led in self._leading.values()}
        for shard, leading in self._leading.items():
            if leading in self._asking:
                continue
            try:
                change = leading.wanted(self._living(shard), self._clock.now_ms())
            except (GoQueueError, OSError) as error:
                logger.warning("a shard's logs could not be looked at", extra={"shard": shard, "error": str(error)})
                continue
            if change is not None and self._is_due(leading, change.revision):
                self._asking[leading] = asyncio.get_running_loop().create_task(self._ask(shard, leading, change))

    async def stop(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _living(self, shard: int) -> dict[int, str]:
        """Nodes that may be in sync, with their starts."""
        nodes = self._metadata.image.nodes().items()
        return {number: one.incarnation for number, one in nodes if shard not in one.damaged and not one.closing}

    def _is_due(self, leading: LeadingShard, revision: Revision) -> bool:
        """Where the store has a later record, this node hears of it first, and decides anew."""
        refused, since_s = self._behind.get(leading, (-1, 0.0))
        return refused != revision or asyncio.get_running_loop().time() - since_s >= _BEHIND_S

    async def _ask(self, shard: int, leading: LeadingShard, change: SetChange) -> None:
        try:
            is_made = await self._is_made(shard, leading, change)
        finally:
            del self._asking[leading]
        if is_made:
            self.look()

    async def _is_made(self, shard: int, leading: LeadingShard, change: SetChange) -> bool:
        try:
            await self._metadata.commit(self._commit(shard, leading, change))
        except MetadataConflict:
            self._note_behind(shard, leading, change.revision)
            return False
        except GoQueueError as error:
            extra = {"shard": shard, "error": error.message}
            logger.warning("who is in sync is not written down yet; trying again", extra=extra)
            return False
        return True

    def _commit(self, shard: int, leading: LeadingShard, change: SetChange) -> Commit:
        """Who is added has to be there still when it is written: the next start of the node may have another disk. For
        one that is known to be gone the record is written as it is, since the change that was asked for before may be
        made as long as nobody writes it."""
        image, key = self._metadata.image, f"{SHARDS}{shard}"
        living, starts = image.nodes(), change.record.starts
        added = [node for node in change.record.in_sync if node not in leading.record.in_sync]
        if any(node not in living or living[node].incarnation != starts[node] for node in added):
            return Commit({key: encode(leading.record)}, modified={key: change.revision})
        there = {f"{NODES}{node}": image.created(f"{NODES}{node}") for node in added}
        return Commit({key: encode(change.record)}, modified={key: change.revision}, created=there)

    def _note_behind(self, shard: int, leading: LeadingShard, revision: Revision) -> None:
        """That another change came first is nothing; not to hear of it for long is."""
        if leading in self._behind and self._behind[leading][0] == revision:
            logger.warning("the store has a later record of a shard, of which nothing is heard", extra={"shard": shard})
        self._behind[leading] = (revision, asyncio.get_running_loop().time())
