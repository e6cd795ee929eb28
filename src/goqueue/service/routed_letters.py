"""Dead letters for all nodes: each is looked at, deleted and redriven where its partition is led."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import ROUTED_S
from goqueue.core.dead_letter import DeadLetterFilter, StoredDeadLetter
from goqueue.service.dead_letter_view import (
    Cursor,
    DeadLetterView,
    ErrorCount,
    LetterPage,
    LetterStats,
    most_frequent,
)
from goqueue.service.router import Router, together
from goqueue.service.topics import Topics


class RoutedLetters:
    """The verbs of `DeadLetterView`."""

    def __init__(self, router: Router, letters: DeadLetterView, topics: Topics) -> None:
        self._router = router
        self._letters = letters
        self._topics = topics

    async def page(self, topic: str, chosen: DeadLetterFilter, begin: Cursor | None, limit: int) -> LetterPage:
        """Partition by partition, each from the node that leads it."""
        found: list[StoredDeadLetter] = []
        for at in self._places(topic):
            number = at.partition
            if begin is not None and number < begin[0]:
                continue
            first = begin if begin is not None and number == begin[0] else None
            args = [topic, chosen, first, limit - len(found), [number]]
            page: LetterPage = await self._at(at, "page", args)
            found += page.letters
            if page.next is not None:
                return LetterPage(found, page.next)
        return LetterPage(found, None)

    async def show(self, topic: str, number: int, offset: Offset) -> StoredDeadLetter:
        found: StoredDeadLetter = await self._at(self._place(topic, number), "show", [topic, number, offset])
        return found

    async def delete(self, topic: str, number: int, offset: Offset) -> None:
        await self._at(self._place(topic, number), "delete", [topic, number, offset])

    async def stats(self, topic: str) -> LetterStats:
        async def once(left_s: float) -> list[LetterStats]:
            by_node: dict[int, list[int]] = {}
            for at in self._places(topic):
                by_node.setdefault(self._router.shards.leader_of(at), []).append(at.partition)
            return await together(
                self._router.ask(node, DeadLetterView, "stats", [topic, some], {}, left_s)
                for node, some in by_node.items()
            )

        return _summed(self._letters.home_of(topic), await self._router.persist(once, ROUTED_S))

    async def _at(self, at: TopicPartition, verb: str, args: Sequence[Any]) -> Any:
        return await self._router.ask_leader(lambda: self._router.shards.leader_of(at), DeadLetterView, verb, args)

    def _place(self, topic: str, number: int) -> TopicPartition:
        return TopicPartition(self._letters.home_of(topic), number)

    def _places(self, topic: str) -> list[TopicPartition]:
        home = self._topics.find(self._letters.home_of(topic))
        return [] if home is None else [one.at for one in home.partitions]


def _summed(name: str, parts: Sequence[LetterStats]) -> LetterStats:
    reasons, groups, origins = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        reasons.update(part.by_reason)
        groups.update(part.by_group)
        origins.update(part.by_origin)
    oldest = min((one.oldest_ms for one in parts if one.oldest_ms is not None), default=None)
    newest = max((one.newest_ms for one in parts if one.newest_ms is not None), default=None)
    errors: dict[str, ErrorCount] = {}
    for one in (one for part in parts for one in part.fingerprints):
        known = errors.get(one.fingerprint, ErrorCount(one.fingerprint, one.example, 0))
        errors[one.fingerprint] = ErrorCount(one.fingerprint, known.example, known.count + one.count)
    told = most_frequent(errors.values())
    return LetterStats(name, reasons.total(), dict(reasons), dict(groups), dict(origins), oldest, newest, told)
