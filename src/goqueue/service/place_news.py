"""Where groups stand, told to another shard: the last word of each place counts, and it is told until it is heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from goqueue.base.errors import FencedEpoch, GoQueueError
from goqueue.base.ids import Epoch, Offset, TopicPartition
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.epoch_fence import EpochFence

logger = logging.getLogger(__name__)

_TELL_S: Final = 0.02
_LOOK_S: Final = 0.005
_LOOKS: Final = 100
_AGAIN_S: Final = 1.0  # at most, between tries

Place = tuple[str, TopicPartition]  # of a group


class PlaceOffset(msgspec.Struct, frozen=True):
    """A group is at this offset of a partition."""

    group: str
    at: TopicPartition
    offset: Offset


class PlaceNews(msgspec.Struct, frozen=True):
    """From the leader of a shard, in its epoch."""

    shard: int
    epoch: Epoch
    places: list[PlaceOffset]


Hear: TypeAlias = Callable[[Sequence[PlaceOffset]], Awaitable[None]]


class Outbox:
    """Of one kind of news. They go from the shard `from_shard` says to the one that `to_shard` says."""

    def __init__(
        self,
        elsewhere: Elsewhere,
        verb: str,
        from_shard: Callable[[PlaceOffset], int],
        to_shard: Callable[[PlaceOffset], int],
        hear: Hear,
    ) -> None:
        """`hear` is what is done with news from others: it returns when that is safe, and raises if it is to be told
        again."""
        self._elsewhere = elsewhere
        self._verb = verb
        self._from = from_shard
        self._to = to_shard
        self._hear = hear
        self._fence = EpochFence(elsewhere.shards)
        self._waiting: dict[tuple[int, int], dict[Place, PlaceOffset]] = {}  # by shards, from and to
        elsewhere.serve(verb, PlaceNews, self._heard)

    def put(self, news: PlaceOffset) -> None:
        self._beside(news)[news.group, news.at] = news

    def _beside(self, news: PlaceOffset) -> dict[Place, PlaceOffset]:
        """What waits to go the same way."""
        way = self._from(news), self._to(news)
        waiting = self._waiting.get(way)
        if waiting is None:
            waiting = self._waiting[way] = {}
            self._elsewhere.spawn(self._send(way, waiting))
        return waiting

    def tells(self, news: PlaceOffset) -> bool:
        """Whether something was put for the place and is not told yet: what comes after it must not be told before."""
        return (news.group, news.at) in self._waiting.get((self._from(news), self._to(news)), ())

    async def told(self, group: str) -> None:
        """Returns when what was put for a group is told, or cannot be now."""
        for _ in range(_LOOKS):
            if not any(group == known for waiting in self._waiting.values() for known, _ in waiting):
                return
            await asyncio.sleep(_LOOK_S)

    async def _send(self, way: tuple[int, int], waiting: dict[Place, PlaceOffset]) -> None:
        pause_s = _TELL_S
        try:
            while waiting and self._elsewhere.is_here(way[0]):  # a new leader tells its own
                await asyncio.sleep(pause_s)
                pause_s = _TELL_S if await self._try(way, waiting) else min(2 * pause_s, _AGAIN_S)
        finally:
            self._waiting.pop(way, None)

    async def _try(self, way: tuple[int, int], waiting: dict[Place, PlaceOffset]) -> bool:
        for place in [place for place, news in waiting.items() if self._to(news) != way[1]]:
            news = waiting.pop(place)
            self._beside(news).setdefault(place, news)  # the topic is gone, or another one: what was put since is newer
        told = dict(waiting)
        try:
            if self._elsewhere.is_here(way[1]):
                await self._hear(list(told.values()))
            else:
                body = PlaceNews(way[0], self._elsewhere.shards.epoch(way[0]), list(told.values()))
                await self._elsewhere.ask(way[1], self._verb, body, bool)
        except GoQueueError as error:
            logger.info("another shard is told again", extra={"verb": self._verb, "error": error.message})
            return False
        for place, news_of in told.items():
            if waiting.get(place) is news_of:
                del waiting[place]
        return True

    async def _heard(self, news: PlaceNews) -> bool:
        try:
            self._fence.check(news.shard, news.epoch)
        except FencedEpoch:
            return True  # whoever leads now tells what holds
        await self._hear(news.places)
        return True
