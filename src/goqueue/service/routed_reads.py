"""Reading for all nodes: pages of messages, offsets, and how far groups are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from goqueue.base.commands import Browse, Isolation, MessagePage
from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import ROUTED_S
from goqueue.core.groups.records import OffsetCommitted
from goqueue.service.browse import Browsing, merged_page
from goqueue.service.groups import Groups, PartitionLag, lag_of
from goqueue.service.peer_leasing import PeerLeasing
from goqueue.service.router import Router, together
from goqueue.service.topics import Topics

Parts = list[tuple[int, dict[int, Offset]]]  # nodes, and where reading goes on in their partitions


class RoutedBrowsing:
    """The verbs of `Browsing`."""

    def __init__(self, router: Router, topics: Topics) -> None:
        self._router = router
        self._topics = topics

    async def offsets_from(
        self, topic: str, place: str | Millis, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> dict[int, Offset]:
        numbers = range(len(self._topics.require(topic).partitions))

        async def once(left_s: float) -> list[dict[int, Offset]]:
            parts = self._parts(topic, dict.fromkeys(numbers, 0))
            return await together(
                self._router.ask(node, Browsing, "offsets_from", [topic, place, isolation, [*some]], {}, left_s)
                for node, some in parts
            )

        found = dict[int, Offset]()
        for some in await self._router.persist(once, ROUTED_S):
            found |= some
        return {number: found[number] for number in numbers}

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        at = self._topics.require(topic).partition(partition).at
        find = lambda: self._router.shards.leader_of(at)  # noqa: E731
        found: Offset = await self._router.ask_leader(find, Browsing, "high_watermark", [topic, partition])
        return found

    async def marks(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[Offset, Offset]]:
        """Start and high watermark of each."""

        async def of(node: int, some: list[TopicPartition], left_s: float) -> list[tuple[Offset, Offset]]:
            found: list[tuple[Offset, Offset]] = await self._router.ask(node, Browsing, "marks", [some], {}, left_s)
            return found

        async def once(left_s: float) -> dict[TopicPartition, tuple[Offset, Offset]]:
            parts = self._by_node(places)
            told = await together(of(node, some, left_s) for node, some in parts)
            return {
                at: marks
                for (_, some), one in zip(parts, told, strict=True)
                for at, marks in zip(some, one, strict=True)
            }

        return await self._router.persist(once, ROUTED_S)

    def _by_node(self, places: Sequence[TopicPartition]) -> list[tuple[int, list[TopicPartition]]]:
        found: dict[int, list[TopicPartition]] = {}
        for at in places:
            found.setdefault(self._router.shards.leader_of(at), []).append(at)
        return list(found.items())

    # --- pages -----------------------------------------------------------------------------------------------

    async def read(self, command: Browse) -> MessagePage:
        """As `Browsing.read`. It waits at all nodes, and has what comes first."""
        if not command.offsets:
            raise InvalidField("No partition to read from.", field="from")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + command.wait_ms_max / 1000

        async def once(_: float) -> MessagePage:
            return await self._read(command, deadline)

        return await self._router.persist(once, command.wait_ms_max / 1000 + ROUTED_S)

    async def _read(self, command: Browse, deadline: float) -> MessagePage:
        parts = self._parts(command.topic, command.offsets)
        if len(parts) == 1:
            return await self._ask(parts[0][0], command, self._left_ms(deadline))
        page = _merged(command, await asyncio.gather(*self._all(parts, command, 0), return_exceptions=True))
        left_ms = self._left_ms(deadline)
        if page.messages or page.skipped or not left_ms:
            return page
        return await self._wait(parts, command, left_ms)

    async def _wait(self, parts: Parts, command: Browse, left_ms: Millis) -> MessagePage:
        tasks = [asyncio.ensure_future(one) for one in self._all(parts, command, left_ms)]
        try:
            await asyncio.wait([*tasks, self._router.moved], return_when=asyncio.FIRST_COMPLETED)
            answers = [_outcome(task) for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
        return _merged(command, answers)

    def _all(self, parts: Parts, command: Browse, wait_ms: Millis) -> list[Any]:
        return [self._ask(node, replace(command, offsets=some), wait_ms) for node, some in parts]

    async def _ask(self, node: int, command: Browse, wait_ms: Millis) -> MessagePage:
        asked, within_s = replace(command, wait_ms_max=wait_ms), wait_ms / 1000 + ROUTED_S
        page: MessagePage = await self._router.ask(node, Browsing, "read", [asked], {}, within_s)
        return page

    def _parts(self, topic: str, offsets: dict[int, Offset]) -> Parts:
        found: dict[int, dict[int, Offset]] = {}
        for number, offset in offsets.items():
            node = self._router.shards.leader_of(TopicPartition(topic, number))
            found.setdefault(node, {})[number] = offset
        return list(found.items())

    def _left_ms(self, deadline: float) -> Millis:
        return max(0, round((deadline - asyncio.get_running_loop().time()) * 1000))


def _outcome(task: asyncio.Future[MessagePage]) -> MessagePage | BaseException:
    error = task.exception()
    return task.result() if error is None else error


def _merged(command: Browse, answers: Sequence[MessagePage | BaseException]) -> MessagePage:
    """An error is told if nothing else can be; reading goes on from where it was in partitions that told nothing."""
    pages = [one for one in answers if isinstance(one, MessagePage)]
    page = merged_page(pages, command.limit, command.bytes_max)
    errors = [one for one in answers if isinstance(one, BaseException)]
    for error in errors:
        if not isinstance(error, GoQueueError) or not (page.messages or page.skipped):
            raise error
    return replace(page, next_offsets={**command.offsets, **page.next_offsets})


class RoutedGroups:
    """What a group's node cannot say alone."""

    def __init__(self, router: Router, topics: Topics, browsing: RoutedBrowsing) -> None:
        self._router = router
        self._topics = topics
        self._browsing = browsing

    async def lag(self, group: str) -> list[PartitionLag]:
        """As everything that was done before shows it, wherever that was."""
        with suppress(GoQueueError):
            await self._router.ask_all(self._router.shards.leaders, PeerLeasing, "told", [group])
        find = lambda: self._router.shards.leader_of_id(group)  # noqa: E731
        found: list[OffsetCommitted] = await self._router.ask_leader(find, Groups, "progress", [group])
        known = {TopicPartition(one.topic, one.partition): one for one in found if self._exists(one)}
        marks = await self._browsing.marks(list(known))
        return [lag_of(one, *marks[at]) for at, one in known.items()]

    def _exists(self, one: OffsetCommitted) -> bool:
        topic = self._topics.find(one.topic)
        return topic is not None and one.partition < len(topic.partitions)
