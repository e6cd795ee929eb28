"""What other nodes ask of this node's leases, for consumers that came in through them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.service.leased_run import LeasedRun
from goqueue.service.leasing import Leasing
from goqueue.service.member_news import MemberNews

_ENDED_MAX: Final = 10_000


class PeerLeasing:
    """The verbs."""

    def __init__(self, leasing: Leasing, news: MemberNews, told: Callable[[str], Awaitable[None]]) -> None:
        """`told` returns when a group knows what was done of it here."""
        self._leasing = leasing
        self._told = told
        self._news = news
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._ended: dict[str, None] = {}  # takes that are over before they began, the oldest first

    async def take(self, token: str, take: Take) -> list[LeasedRun]:
        """Waits until there is something, or the caller has enough: then it is answered all the same, so that no lease
        is given that nobody hears of."""
        enough = self._waiting[token] = asyncio.get_running_loop().create_future()
        if token in self._ended:
            enough.set_result(None)
        try:
            return await self._leasing.take_runs(take, enough)
        finally:
            del self._waiting[token]

    def enough(self, token: str) -> None:
        """Of the take with that token, which may come yet: they are not sent on one connection."""
        waiting = self._waiting.get(token)
        if waiting is None:
            self._ended[token] = None
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]
        elif not waiting.done():
            waiting.set_result(None)

    def in_flight(self, group: str, owner: str) -> int:
        return self._leasing.in_flight(group, owner)

    async def ack_held(
        self, group: str, owner: str, nonces: frozenset[str], among: Sequence[TopicPartition] | None
    ) -> None:
        """Of partitions that the owner gives up, the group knows it before another member gets them."""
        await self._leasing.ack_held(group, owner, nonces, among)
        if among is not None:
            await self._told(group)

    async def told(self, group: str) -> None:
        """Returns when the group knows what was done of it here, or cannot be told now."""
        await self._told(group)

    def release(self, group: str, owner: str, among: Sequence[TopicPartition] | None, is_failure: bool = False) -> None:
        if among is None:
            self._news.forget(group, owner)
        self._leasing.release(group, owner, among, is_failure)

    def begin_at_end(self, group: str, partitions: Sequence[TopicPartition]) -> None:
        self._leasing.begin_at_end(group, partitions)
