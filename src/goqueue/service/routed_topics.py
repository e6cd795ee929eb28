"""Topics as all nodes know them: every node has their records, and what is in a partition its leader says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from goqueue.api.topics import PartitionInfo, TopicInfo, TopicSummary
from goqueue.base.errors import GoQueueError
from goqueue.service.router import Router, together
from goqueue.service.topics import Topics

_ANSWER_S: Final = 2.0


class RoutedTopics:
    """The verbs of `Topics` that show what topics hold. Where a leader does not answer it is what this node knows."""

    def __init__(self, router: Router, topics: Topics) -> None:
        self._router = router
        self._topics = topics

    async def describe(self, name: str) -> TopicInfo:
        known = self._topics.describe(name)
        by_node: dict[int, list[int]] = {}
        for one in self._topics.require(name).partitions:
            try:
                by_node.setdefault(self._router.shards.leader_of(one.at), []).append(one.at.partition)
            except GoQueueError:
                continue
        told = await together(self._try(node, "partitions", [name, some]) for node, some in by_node.items())
        infos: dict[int, PartitionInfo] = {one.partition: one for part in told for one in part}
        partitions = [infos.get(one.partition, one) for one in known.partitions]
        messages, size = sum(one.messages for one in partitions), sum(one.size_bytes for one in partitions)
        return replace(known, messages=messages, size_bytes=size, partitions=partitions)

    async def list(self) -> list[TopicSummary]:
        try:
            nodes = self._router.shards.leaders()
        except GoQueueError:
            nodes = self._router.shards.nodes()
        told = await together(self._try(node, "led", []) for node in nodes)
        found: dict[str, list[TopicSummary]] = {}
        for one in (one for part in told for one in part):
            found.setdefault(one.id, []).append(one)
        return [_summed(one, found.get(one.id, [])) for one in self._topics.list()]

    async def _try(self, node: int, verb: str, args: Sequence[Any]) -> Sequence[Any]:
        try:
            found: Sequence[Any] = await self._router.ask(node, Topics, verb, args, {}, _ANSWER_S)
            return found
        except GoQueueError:
            return []


def _summed(known: TopicSummary, parts: Sequence[TopicSummary]) -> TopicSummary:
    messages, size = sum(one.messages for one in parts), sum(one.size_bytes for one in parts)
    return replace(known, messages=messages, size_bytes=size)
