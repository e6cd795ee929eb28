"""Routes that move shards between nodes, empty nodes, and take them out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.cluster import (
    CancelledOut,
    HandedOver,
    MoveIn,
    MoveListOut,
    MovePlanOut,
    RestartSafety,
    ThrottleIn,
    moves_out,
)
from goqueue.base.errors import UnknownNode
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.service.departure import Departure
from goqueue.service.front import Front
from goqueue.service.reassignment import Reassignments

_NUMBER_MAX = 2**31 - 1
_WAIT_MS_MAX = 600_000
_TIMEOUT = Param("timeout", "How long to wait until the others can do without the node, at most 10 min; default: not.")
_UNCLEAN = Param(
    "unclean", "Where nobody leads: one that lacks something, if every topic of the shard allows it.", "boolean"
)
_SHARD = Param("shard", "Only this shard; default: all that move.", "integer")


class ReassignmentRoutes:
    def __init__(self, moves: Front[Reassignments], departure: Front[Departure], bodies: Bodies) -> None:
        self._moves = moves
        self._departure = departure
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, base, node = "cluster", "/admin/reassignment", "/cluster/nodes/{node}"
        return [
            RestOperation(
                "POST", base, self.begin, "Move shards, drain a node, rebalance", tag, MovePlanOut, 202, MoveIn
            ),
            RestOperation("GET", base, self.moves, "Moves under way", tag, MoveListOut),
            RestOperation("PATCH", base, self.throttle, "Limit what moves copy", tag, MoveListOut, body=ThrottleIn),
            RestOperation("DELETE", base, self.cancel, "Turn moves back", tag, CancelledOut, params=(_SHARD,)),
            RestOperation("DELETE", node, self.remove, "Take a node out of the cluster", tag, status=204),
            RestOperation("POST", f"{node}/fill", self.fill, "Let a drained node hold shards again", tag, status=204),
            RestOperation(
                "GET", f"{node}/restart-safe", self.restart_safe, "Whether a node may go", tag, RestartSafety
            ),
            RestOperation(
                "POST",
                f"{node}/hand-over",
                self.hand_over,
                "Hand over what the node leads",
                tag,
                HandedOver,
                params=(_TIMEOUT,),
            ),
            RestOperation(
                "POST",
                "/cluster/shards/{shard}/elect",
                self.elect,
                "Let the preferred replica lead",
                tag,
                status=204,
                params=(_UNCLEAN,),
            ),
            RestOperation("DELETE", f"{node}/hand-over", self.stay, "Let the node lead again", tag, status=204),
        ]

    async def begin(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body or b"{}", MoveIn)
        moves = self._moves.by(caller_of(request))
        if given.dry_run:
            return json(await moves.plan(given))
        return json(await moves.begin(given), 202)

    async def moves(self, request: Request) -> Response:
        Query(request)
        moves = self._moves.by(caller_of(request))
        return json(moves_out(await moves.moves(), moves.throttled()))

    async def throttle(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, ThrottleIn)
        moves = self._moves.by(caller_of(request))
        await moves.throttle(given.throttle)
        return json(moves_out(await moves.moves(), given.throttle))

    async def cancel(self, request: Request) -> Response:
        query = Query(request, "shard")
        chosen = [number(query.text("shard", ""), "shard", 0, _NUMBER_MAX)] if query.has("shard") else []
        return json(CancelledOut(await self._moves.by(caller_of(request)).cancel(chosen)))

    async def remove(self, request: Request) -> Response:
        await self._moves.by(caller_of(request)).remove(_node(request))
        return Response(status_code=204)

    async def fill(self, request: Request) -> Response:
        await self._moves.by(caller_of(request)).fill(_node(request))
        return Response(status_code=204)

    async def restart_safe(self, request: Request) -> Response:
        return json(self._moves.by(caller_of(request)).restart_safe(_node(request)))

    async def hand_over(self, request: Request) -> Response:
        node, within_ms = _node(request, "timeout"), Query(request, "timeout").duration_ms("timeout", _WAIT_MS_MAX)
        return json(await self._departure.by(caller_of(request)).leave(node, within_ms))

    async def elect(self, request: Request) -> Response:
        is_unclean = Query(request, "unclean").flag("unclean")
        shard = number(request.path_params["shard"], "shard", 0, _NUMBER_MAX)
        await self._moves.by(caller_of(request)).elect(shard, is_unclean)
        return Response(status_code=204)

    async def stay(self, request: Request) -> Response:
        await self._departure.by(caller_of(request)).stay(_node(request))
        return Response(status_code=204)


def _node(request: Request, *params: str) -> int:
    Query(request, *params)
    given = request.path_params["node"]
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise UnknownNode(f"Node {given[:20]} does not belong to the cluster.", field="node")
    return int(given)
