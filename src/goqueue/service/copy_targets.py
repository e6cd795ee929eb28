"""Where copies of messages go, at this node or at the one that leads their partition.

What a call that was not answered stored may be there all the same. Who looks for it waits first until everything that
was appended is safe, so that it is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.commands import Acks, Caller, PublishBatch
from goqueue.base.errors import NotFound, NotLoaded
from goqueue.base.ids import Offset, TopicPartition
from goqueue.core.dead_letter import told_view
from goqueue.core.delivery.records import ViewId
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.publish import Publish
from goqueue.service.redriven import AllCopies
from goqueue.service.topics import Topics

CALLER: Final = Caller("dead-letters")
STORE: Final = "copies.store"
FIND: Final = "copies.find"


class StoreCopies(msgspec.Struct, frozen=True):
    at: TopicPartition
    batches: list[bytes]


class FindCopies(msgspec.Struct, frozen=True):
    """Of which messages of the view there are copies, from an offset on."""

    at: TopicPartition
    begin: Offset
    view: ViewId


class CopyTargets:
    def __init__(
        self, topics: Topics, publish: Publish, feeds: LaneReaders, copies: AllCopies, elsewhere: Elsewhere
    ) -> None:
        self._topics = topics
        self._publish = publish
        self._feeds = feeds
        self._copies_of = copies.of
        self._elsewhere = elsewhere
        elsewhere.serve(STORE, StoreCopies, self._store)
        elsewhere.serve(FIND, FindCopies, self._find)

    def is_here(self, at: TopicPartition) -> bool:
        return self._elsewhere.is_alone or self._elsewhere.is_here(self._elsewhere.shards.of_partition(at))

    async def store(self, at: TopicPartition, batches: Sequence[bytes]) -> list[Offset]:
        """The offset of each batch, when all are safe."""
        asked = StoreCopies(at, list(batches))
        if self.is_here(at):
            return await self._store(asked)
        try:
            return await self._elsewhere.ask(self._shard(at), STORE, asked, list[Offset])
        except NotFound as error:
            raise NotLoaded(f"Its leader does not know {at} yet: {error.message}") from None

    async def settle(self, at: TopicPartition) -> None:
        """What was stored there is safe. Of another node's partitions that is so when they are looked through."""
        if self.is_here(at):
            await self._publish.wait_durable(at)

    async def copied(self, at: TopicPartition, begin: Offset, view: ViewId) -> list[Offset]:
        """The messages of the view that have copies there."""
        topic = self._topics.find(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            return []
        asked = FindCopies(at, begin, view)
        if self.is_here(at):
            return await self._look(asked)
        return await self._elsewhere.ask(self._shard(at), FIND, asked, list[Offset])

    def _shard(self, at: TopicPartition) -> int:
        return self._elsewhere.shards.of_partition(at)

    async def _store(self, asked: StoreCopies) -> list[Offset]:
        stored: list[Offset] = []
        for batch in asked.batches:
            command = PublishBatch(asked.at, batch, Acks.LEADER, CALLER, is_copy=True)
            stored.append(self._publish.append(command).base_offset)
        await self._publish.wait_durable(asked.at)
        return stored

    async def _find(self, asked: FindCopies) -> list[Offset]:
        """For another node."""
        self._topics.require(asked.at.topic).partition(asked.at.partition).check_led()
        await self._publish.wait_durable(asked.at)
        return await self._look(asked)

    async def _look(self, asked: FindCopies) -> list[Offset]:
        partition = self._topics.require(asked.at.topic).partition(asked.at.partition)
        origin, told = self._copies_of(asked.view).origin, told_view(asked.view)
        found: dict[Offset, None] = {}
        async for record in self._feeds.of(partition).everything(max(asked.begin, partition.start_offset)):
            source = origin(record.headers)
            if source is not None and source[0] == told:
                found[source[1]] = None
        return list(found)
