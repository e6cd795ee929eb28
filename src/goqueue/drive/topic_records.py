"""The records of topics in the metadata: each is written together with the shards that it needs and that are new.

The record of a topic's tenant is written along whenever the topic is made or gets partitions: of two nodes that do so
at once one has to begin again, and then counts what the other made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from goqueue.base.errors import DiskFull, MetadataConflict, UnknownTopic
from goqueue.base.limits import GONE_TOPICS_MAX
from goqueue.base.metadata import Commit
from goqueue.base.tenants import tenant_of
from goqueue.core.cluster.placement import is_alone, placed
from goqueue.core.cluster.records import (
    GONE_TOPICS,
    SHARDS,
    TENANTS,
    TOPICS,
    GoneTopic,
    ShardRecord,
    TopicRecord,
    encode,
)
from goqueue.core.cluster.shard_choice import AS_USUAL, Placing
from goqueue.drive.image_follower import ImageFollower

SINGLE: Final = frozenset({"__goqueue_schemas"})  # one partition, which every node has
SINGLE_SHARD: Final = 0  # theirs
_RETRY_S: Final = 0.02
_TRIES: Final = 20
_LOOKS: Final = 10  # for what another node wrote
_FORGOTTEN_MAX: Final = 16  # in one commit


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

    async def write(self, record: TopicRecord) -> TopicRecord:
        """With a shard for each partition, durable. `DiskFull`, or `MetadataConflict` if it was written since."""
        written, commit = self._prepared(record, AS_USUAL)
        await self._metadata.commit(commit)
        return written

    def _prepared(self, record: TopicRecord, placing: Placing) -> tuple[TopicRecord, Commit]:
        image = self._metadata.image
        record, added = placed(image, record, placing, self._factor)
        puts = {TOPICS + record.name: encode(record), **self._new_shards(added), **self._tenant_put(record)}
        return record, Commit(puts, modified={one: image.modified(one) for one in puts})

    def _tenant_put(self, record: TopicRecord) -> dict[str, str]:
        """As it is, if the topic grows."""
        known, tenant = self._metadata.image.topic(record.name), self._metadata.image.tenant(tenant_of(record.name))
        if tenant is None or record.partitions <= (0 if known is None else known.partitions):
            return {}
        return {TENANTS + tenant.name: encode(tenant)}

    def _new_shards(self, added: Mapping[int, ShardRecord]) -> dict[str, str]:
        """Each with a partition of the broker's own topics."""
        puts = {f"{SHARDS}{shard}": encode(record) for shard, record in added.items()}
        for name in self._own if added else ():
            if name not in SINGLE and (own := self._metadata.image.topic(name)) is not None:
                shards = (*own.shards, *added)
                puts[TOPICS + name] = encode(msgspec.structs.replace(own, partitions=len(shards), shards=shards))
        return puts

    async def create(self, record: TopicRecord, placing: Placing, check: Callable[[str], object]) -> TopicRecord | None:
        """The same for a topic that is new; None if another node was first. What has changed since `check` allowed it
        is checked again."""
        image = self._metadata.image

        def decide() -> TopicRecord | None:
            if image.topic(record.name) is not None:
                return None
            check(record.name)
            return record

        return await self._write_anew(decide, placing)

    async def change(
        self, known: TopicRecord, decide: Callable[[TopicRecord], TopicRecord], placing: Placing
    ) -> TopicRecord:
        """What is decided about the topic as it is by now."""

        def decided() -> TopicRecord:
            current = self._metadata.image.topic(known.name)
            if current is None or current.deleting or current.id != known.id:
                raise UnknownTopic(f"The topic {known.name!r} was deleted meanwhile.", field="topic")
            return decide(current)

        written = await self._write_anew(decided, placing)
        assert written is not None  # it was decided
        return written

    async def _write_anew(self, decide: Callable[[], TopicRecord | None], placing: Placing) -> TopicRecord | None:
        """Decides again after each conflict, about what is there then."""
        for left in reversed(range(_TRIES)):
            record = decide()
            if record is None:
                return None
            written, commit = self._prepared(record, placing)
            try:
                await self._metadata.commit(commit)
            except MetadataConflict:
                if not left:
                    raise
                await self._until_seen(commit)
            else:
                return written
        return None

    async def _until_seen(self, commit: Commit) -> None:
        """After a conflict: what another node wrote is in the image, or it has taken long."""
        image = self._metadata.image
        for _ in range(_LOOKS):
            if any(image.modified(key) != revision for key, revision in commit.modified.items()):
                return
            await asyncio.sleep(_RETRY_S)

    async def note_deletion(self, record: TopicRecord) -> None:
        """Who deletes a topic may do it because the disk is full. The record goes at once then, which needs no room; a
        crash before the log is gone too leaves it behind as files of unknown origin."""
        try:
            await self.write(msgspec.structs.replace(record, deleting=True))
        except DiskFull:
            await self._metadata.commit(Commit(deletes=[TOPICS + record.name]))

    async def delete(self, record: TopicRecord) -> None:
        """In a cluster its id is kept for a long while: nodes that are away know by it that their files may go."""
        image = self._metadata.image
        deletes, puts = [TOPICS + record.name], dict[str, str]()
        if not is_alone(image):
            puts[GONE_TOPICS + record.id] = encode(GoneTopic(record.name))
            gone = image.gone_topics()
            oldest = gone[: min(_FORGOTTEN_MAX, max(0, len(gone) + 1 - GONE_TOPICS_MAX))]
            deletes += [GONE_TOPICS + one for one in oldest]
        await self._metadata.commit(Commit(puts, deletes=deletes))
