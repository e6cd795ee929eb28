"""Members that answer for their messages themselves: the node that keeps their group hears of it from the nodes where
the messages are."""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.service.consume import Consuming
from goqueue.service.router import Router

_TOLD_MAX: Final = 10_000


class MemberNews:
    """Told once for each member, until it joins again."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._told: dict[tuple[str, str], asyncio.Future[None]] = {}

    def answered(self, group: str, owner: str) -> None:
        if (group, owner) not in self._told:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told[group, owner] = asyncio.ensure_future(self._tell(group, owner))

    def forget(self, group: str, owner: str) -> None:
        """It is another one from now on."""
        self._told.pop((group, owner), None)

    async def _tell(self, group: str, owner: str) -> None:
        find = lambda: self._router.shards.leader_of_id(group)  # noqa: E731
        try:
            await self._router.ask_leader(find, Consuming, "answered", [group, owner])
        except GoQueueError:
            self.forget(group, owner)  # the next answer tries again
