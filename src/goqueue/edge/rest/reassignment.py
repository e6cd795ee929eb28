"""Routes that move shards between nodes, empty nodes, and take them out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.cluster import CancelledOut, MoveIn, MoveListOut, MovePlanOut, RestartSafety, ThrottleIn, moves_out
from goqueue.base.errors import UnknownNode
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.service.front import Front
from goqueue.service.reassignment import Reassignments

_NUMBER_MAX = 2**31 - 1
_SHARD = Param("shard", "Only this shard; default: all that move.", "integer")


class ReassignmentRoutes:
    def __init__(self, moves: Front[Reassignments], bodies: Bodies) -> None:
        self._moves = moves
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


def _node(request: Request) -> int:
    Query(request)
    given = request.path_params["node"]
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise UnknownNode(f"Node {given[:20]} does not belong to the cluster.", field="node")
    return int(given)
