"""Changes of schemas, which the leader of the first shard makes. Who asked finds them at its own node afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.service.router import Router
from goqueue.service.schemas import Schemas


class RoutedSchemas:
    def __init__(self, router: Router, schemas: Schemas) -> None:
        self._router = router
        self._schemas = schemas

    async def change(self, verb: str, *args: Any, **named: Any) -> Any:
        answer = await self._router.ask_leader(self._leader, Schemas, verb, args, named, repeatable=False)
        with suppress(GoQueueError):  # it is done all the same
            if self._leader() != self._router.shards.node:
                mark: Offset = await self._router.ask_leader(self._leader, Schemas, "mark")
                await self._schemas.read_to(mark)
        return answer

    def _leader(self) -> int:
        return self._router.shards.leader(0)
