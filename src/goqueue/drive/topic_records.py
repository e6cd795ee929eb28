"""The records of topics in the metadata: each is written together with the shards that it needs and that are new."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from goqueue.base.errors import DiskFull, MetadataConflict
from goqueue.base.metadata import Commit, Revision
from goqueue.core.cluster.placement import placed
from goqueue.core.cluster.records import SHARDS, TOPICS, ShardRecord, TopicRecord, encode
from goqueue.core.cluster.shard_choice import AS_USUAL, Placing
from goqueue.drive.image_follower import ImageFollower

SINGLE: Final = frozenset({"__goqueue_schemas"})  # one partition, which every node has
SINGLE_SHARD: Final = 0  # theirs
_RETRY_S: Final = 0.02
_TRIES: Final = 20
_LOOKS: Final = 10  # for what another node wrote


class TopicRecords:
    """Whoever writes sees to it that one change comes after the other."""

    def __init__(self, metadata: ImageFollower, own: Collection[str], factor: int) -> None:
        """`own` are the names of the broker's own topics; `factor` is how many replicas a topic of a cluster has that
        does not say."""
        self._metadata = metadata
        self._own = own
        self._factor = factor

    def check_placing(self, record: TopicRecord, placing: Placing) -> int:
        """How many replicas the topic would have; raises if it could not be placed like that."""
        found, added = placed(self._metadata.image, record, placing, self._factor)
        shard = found.shard_of(0)
        return (added.get(shard) or self._metadata.image.shard(shard)).wanted

    def own_shards(self, name: str) -> tuple[int, ...]:
        """One of the broker's own topics has a partition in each shard, but for what there is one of."""
        return (SINGLE_SHARD,) if name in SINGLE else tuple(self._metadata.image.shards())

    async def write(
        self, record: TopicRecord, before: Revision | None = None, placing: Placing = AS_USUAL
    ) -> TopicRecord:
        """With a shard for each partition, durable. `DiskFull`, or `MetadataConflict` if it was written since."""
        image, key = self._metadata.image, TOPICS + record.name
        record, added = placed(image, record, placing, self._factor)
        puts = {key: encode(record), **self._new_shards(added)}
        modified = {one: image.modified(one) for one in puts}
        if before is not None:
            modified[key] = before
        await self._metadata.commit(Commit(puts, modified=modified))
        return record

    def _new_shards(self, added: Mapping[int, ShardRecord]) -> dict[str, str]:
        """Each with a partition of the broker's own topics."""
        puts = {f"{SHARDS}{shard}": encode(record) for shard, record in added.items()}
        for name in self._own if added else ():
            if name not in SINGLE and (own := self._metadata.image.topic(name)) is not None:
                shards = (*own.shards, *added)
                puts[TOPICS + name] = encode(msgspec.structs.replace(own, partitions=len(shards), shards=shards))
        return puts

    async def create(self, record: TopicRecord, before: Revision, placing: Placing) -> TopicRecord | None:
        """The same for a topic that is new; None if another node was first."""
        for _ in range(_TRIES):
            try:
                return await self.write(record, before, placing)
            except MetadataConflict:
                if await self._is_taken(record.name):
                    break
        return None

    async def _is_taken(self, name: str) -> bool:
        """After a conflict: another node made the topic. If not, the shards that it was to lie in are others by now."""
        for _ in range(_LOOKS):
            if self._metadata.image.topic(name) is not None:
                return True
            await asyncio.sleep(_RETRY_S)
        return False

    async def note_deletion(self, record: TopicRecord) -> None:
        """Who deletes a topic may do it because the disk is full. The record goes at once then, which needs no room; a
        crash before the log is gone too leaves it behind as files of unknown origin."""
        try:
            await self.write(msgspec.structs.replace(record, deleting=True))
        except DiskFull:
            await self._metadata.commit(Commit(deletes=[TOPICS + record.name]))
