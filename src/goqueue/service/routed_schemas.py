"""Changes of schemas, which the leader of the first shard makes. Who asked finds them at every node afterwards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.service.router import Router
from goqueue.service.schemas import Schemas

_KNOWN_S: Final = 2.0


class RoutedSchemas:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def change(self, verb: str, *args: Any, **named: Any) -> Any:
        answer = await self._router.ask_leader(self._leader, Schemas, verb, args, named, repeatable=False)
        with suppress(GoQueueError):  # it is done all the same
            mark: Offset = await self._router.ask_leader(self._leader, Schemas, "mark")
            others = {*self._router.shards.nodes()} - {self._leader()}
            await asyncio.gather(*(self._known_at(node, mark) for node in others))
        return answer

    async def _known_at(self, node: int, mark: Offset) -> None:
        """What a node validates is checked against schemas that it knows. One that takes too long hears of it later."""
        with suppress(GoQueueError):
            await self._router.ask(node, Schemas, "read_to", [mark], within_s=_KNOWN_S)

    def _leader(self) -> int:
        return self._router.shards.leader(0)
