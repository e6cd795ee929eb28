"""Producer ids: never given twice, over restarts too. A block is reserved durably, then handed out from memory."""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.base.errors import MetadataConflict
from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import PRODUCER_IDS, ReservedIds, encode
from goqueue.drive.image_follower import ImageFollower

_BLOCK: Final = 1_000


class ProducerIds:
    """The verb behind InitProducerId."""

    def __init__(self, metadata: ImageFollower) -> None:
        self._metadata = metadata
        self._lock = asyncio.Lock()
        self._next = 0
        self._below = 0

    async def next_id(self) -> int:
        async with self._lock:
            while self._next >= self._below:
                await self._reserve()
            given, self._next = self._next, self._next + 1
            return given

    async def _reserve(self) -> None:
        """Of two nodes that want the same block, one gets it; the other looks again."""
        image = self._metadata.image
        first = image.producer_ids_below
        block = encode(ReservedIds(first + _BLOCK))
        try:
            await self._metadata.commit(
                Commit({PRODUCER_IDS: block}, modified={PRODUCER_IDS: image.modified(PRODUCER_IDS)})
            )
        except MetadataConflict:
            return
        self._next, self._below = first, first + _BLOCK
