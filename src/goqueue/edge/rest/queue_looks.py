"""Looking into a queue: who holds what, and what comes next. Nothing is taken."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.console import LeaseListOut, LeaseOut, PeekOut
from goqueue.base.limits import LEASES_LISTED_MAX, PEEKED_MAX
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.edge.rest.translate import messages_out
from goqueue.service.front import Front, answer_of
from goqueue.service.queue_stats import QueueStats

_LEASES: Final = (Param("limit", f"At most this many, 1 to {LEASES_LISTED_MAX:,}; default 100.", "integer"),)
_PEEK: Final = (Param("limit", f"At most this many, 1 to {PEEKED_MAX}; default 10.", "integer"),)


class QueueLookRoutes:
    def __init__(self, stats: Front[QueueStats]) -> None:
        self._stats = stats

    def operations(self) -> list[RestOperation]:
        tag, queue = "queue", "/queues/{group}/{topic}"
        leases, peek = f"{queue}/leases", f"{queue}/peek"
        return [
            RestOperation("GET", leases, self.leases, "Who holds what of a queue", tag, LeaseListOut, params=_LEASES),
            RestOperation("GET", peek, self.peek, "What a queue hands out next", tag, PeekOut, params=_PEEK),
        ]

    async def leases(self, request: Request) -> Response:
        limit = Query(request, "limit").number("limit", 100, 1, LEASES_LISTED_MAX)
        stats = self._stats.by(caller_of(request))
        found = await answer_of(stats.leases(*_queue(request), limit))
        lines = [
            LeaseOut(*(getattr(one, name) for name in one.__struct_fields__))
            for one in sorted(found, key=lambda one: one.until_ms)[:limit]
        ]
        return json(LeaseListOut(lines))

    async def peek(self, request: Request) -> Response:
        limit = Query(request, "limit").number("limit", 10, 1, PEEKED_MAX)
        found = await self._stats.by(caller_of(request)).peek(*_queue(request), limit)
        return json(PeekOut(await messages_out(found[:limit])))


def _queue(request: Request) -> tuple[str, str]:
    return request.path_params["group"], request.path_params["topic"]
