"""Topics as all nodes know them: every node has their records, and what is in a partition its leader says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from goqueue.api.topics import UNKNOWN, PartitionInfo, TopicInfo, TopicSummary
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.service.router import RetryTime, Router, together
from goqueue.service.topics import Topics

_ANSWER_S: Final = 2.0


class RoutedTopics:
    """The verbs of `Topics` that show what topics hold."""

    def __init__(self, router: Router, topics: Topics) -> None:
        self._router = router
        self._topics = topics

    async def describe(self, name: str) -> TopicInfo:
        """A partition whose leader is not heard in time shows no offsets: a reader who stops at them would take it for
        empty."""
        known = self._topics.describe(name)
        infos: dict[int, PartitionInfo] = {}
        time = RetryTime(_ANSWER_S)
        while True:
            changed = self._router.changed
            left = [one.partition for one in known.partitions if one.partition not in infos]
            infos |= await self._told(name, left, time.left_s)
            if len(infos) == len(known.partitions) or not time.left_s:
                break
            await time.pause(changed)
        partitions = [infos.get(one.partition) or _unheard(one) for one in known.partitions]
        messages, size = sum(one.messages for one in partitions), sum(one.size_bytes for one in partitions)
        return replace(known, messages=messages, size_bytes=size, partitions=partitions)

    async def _told(self, name: str, partitions: Sequence[int], within_s: float) -> dict[int, PartitionInfo]:
        """What leaders say now."""
        by_node: dict[int, list[int]] = {}
        for number in partitions:
            with suppress(GoQueueError):
                by_node.setdefault(self._router.shards.leader_of(TopicPartition(name, number)), []).append(number)
        asking = (self._try(node, "partitions", [name, some], within_s) for node, some in by_node.items())
        return {one.partition: one for part in await together(asking) for one in part}

    async def list(self) -> list[TopicSummary]:
        try:
            nodes = self._router.shards.leaders()
        except GoQueueError:
            nodes = self._router.shards.nodes()
        told = await together(self._try(node, "led", [], _ANSWER_S) for node in nodes)
        found: dict[str, list[TopicSummary]] = {}
        for one in (one for part in told for one in part):
            found.setdefault(one.id, []).append(one)
        return [_summed(one, found.get(one.id, [])) for one in self._topics.list()]

    async def _try(self, node: int, verb: str, args: Sequence[Any], within_s: float) -> Sequence[Any]:
        try:
            found: Sequence[Any] = await self._router.ask(node, Topics, verb, args, {}, within_s)
            return found
        except GoQueueError:
            return []


def _unheard(known: PartitionInfo) -> PartitionInfo:
    offsets = dict.fromkeys(("start_offset", "end_offset", "high_watermark"), UNKNOWN)
    return replace(known, **offsets, messages=0, size_bytes=0, writable=False)


def _summed(known: TopicSummary, parts: Sequence[TopicSummary]) -> TopicSummary:
    messages, size = sum(one.messages for one in parts), sum(one.size_bytes for one in parts)
    return replace(known, messages=messages, size_bytes=size)
