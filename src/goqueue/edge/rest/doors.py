"""The route that tells where the other doors are."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api import node
from goqueue.edge.doors import DoorAddresses
from goqueue.edge.rest.operations import RestOperation, json
from goqueue.edge.rest.requests import Query

_HOST: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?")


class DoorRoutes:
    def __init__(self, doors: DoorAddresses) -> None:
        self._doors = doors

    def operations(self) -> list[RestOperation]:
        return [RestOperation("GET", "/doors", self.show, "Where the doors are", "node", node.Doors)]

    async def show(self, request: Request) -> Response:
        Query(request)
        given = request.headers.get("host", "")
        match = _HOST.fullmatch(given)
        reached = (match[1] or match[2]) if match else request.scope["server"][0]
        rest = self._doors.rest_url(reached) or ""
        if match and self._doors.is_rest_everywhere:
            # With the port that the client used: another one may be mapped to ours.
            rest = f"{self._doors.scheme('rest')}://{given}"
        kafka, sqs, grpc = (
            found(reached) for found in (self._doors.kafka_address, self._doors.sqs_url, self._doors.grpc_address)
        )
        return json(node.Doors(rest, kafka, sqs, grpc))
