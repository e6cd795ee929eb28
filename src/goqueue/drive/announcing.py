"""What was changed through one node holds at once at any other, a topic or a setting: who changed it waits for them."""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.wire.node_frames import Hello

KNOWS_TOPIC: Final = "knows-topic"
KNOWS_METADATA: Final = "knows-metadata"
_WITHIN_S: Final = 2.0
_LOOK_S: Final = 0.005


class Announcing:
    """One for a node; answers the others as well."""

    def __init__(self, member: ClusterMember, metadata: ImageFollower, table: TopicTable) -> None:
        self._member = member
        self._metadata = metadata
        self._table = table
        member.verbs[KNOWS_TOPIC] = self._answer
        member.verbs[KNOWS_METADATA] = self._reached

    async def announce(self, topic: Topic) -> None:
        """Returns when every node that lives knows the topic as it is. One that takes too long hears of it later."""
        await self._tell(KNOWS_TOPIC, encode((topic.name, topic.record.id, len(topic.partitions))))

    async def announce_metadata(self) -> None:
        """The same for all that this node knows of the metadata."""
        await self._tell(KNOWS_METADATA, encode(self._metadata.image.revision))

    async def _tell(self, verb: str, body: bytes) -> None:
        calls = [self._member.peers.call(node, verb, body, _WITHIN_S) for node in self._member.others()]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(error, BaseException) and not isinstance(error, GoQueueError):
                raise error

    async def _reached(self, by: Hello, body: bytes) -> bytes:
        await self._metadata.reach(decode(body, int))
        return b""

    async def _answer(self, by: Hello, body: bytes) -> bytes:
        """The caller's time bounds it."""
        name, topic_id, partitions = decode(body, tuple[str, str, int])
        while not self._knows(name, topic_id, partitions):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        return b""

    def _knows(self, name: str, topic_id: str, partitions: int) -> bool:
        topic = self._table.get(name)
        return topic is not None and topic.record.id == topic_id and len(topic.partitions) >= partitions
