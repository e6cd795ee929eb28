"""Routes of the queues' numbers."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.service.front import Front, answer_of
from goqueue.service.queue_stats import LaneNumbers, QueueStats, Reliability

_PARAMS = (Param("group", "Only this group."), Param("topic", "Only this topic."))


class TotalsOut(msgspec.Struct, frozen=True):
    """All groups and topics together."""

    acked: int
    nacked: int
    rejected: int
    expired_leases: int
    dead_letters: dict[str, int]
    ready: int
    in_flight: int
    waiting: int


class ReliabilityOut(msgspec.Struct, frozen=True):
    """Counts are since a group began in a topic; `ready`, `in_flight` and `waiting` are now."""

    totals: TotalsOut
    queues: list[Reliability]


class PriorityOut(msgspec.Struct, frozen=True):
    """Lanes that hold or held something."""

    lanes: list[LaneNumbers]


class QueueStatsRoutes:
    def __init__(self, stats: Front[QueueStats]) -> None:
        self._stats = stats

    def operations(self) -> list[RestOperation]:
        tag = "queue"
        reliability, priority = "/reliability/stats", "/priority/stats"
        return [
            RestOperation(
                "GET", reliability, self.reliability, "Queues in numbers", tag, ReliabilityOut, params=_PARAMS
            ),
            RestOperation("GET", priority, self.priority, "Priorities in numbers", tag, PriorityOut, params=_PARAMS),
        ]

    async def reliability(self, request: Request) -> Response:
        chosen = _chosen(request)
        await self._stats.by(caller_of(request)).look(*chosen)
        queues = await answer_of(self._stats.by(caller_of(request)).reliability(*chosen))
        return json(ReliabilityOut(_totals(queues), queues))

    async def priority(self, request: Request) -> Response:
        return json(PriorityOut(await self._stats.by(caller_of(request)).lanes(*_chosen(request))))


def _chosen(request: Request) -> tuple[str | None, str | None]:
    query = Query(request, "group", "topic")
    group, topic = (query.text(name, "") or None for name in ("group", "topic"))
    return group, topic


def _totals(queues: list[Reliability]) -> TotalsOut:
    dead: dict[str, int] = {}
    for one in queues:
        for reason, count in one.dead_letters.items():
            dead[reason] = dead.get(reason, 0) + count
    return TotalsOut(
        sum(one.acked for one in queues),
        sum(one.nacked for one in queues),
        sum(one.rejected for one in queues),
        sum(one.expired_leases for one in queues),
        dead,
        sum(one.ready for one in queues),
        sum(one.in_flight for one in queues),
        sum(one.waiting for one in queues),
    )
