"""gRPC's health protocol: whether the node is fit to serve, asked once or watched."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, TypeAlias

from grpc_health.v1 import health_pb2

from goqueue.base.errors import NotFound
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send
from goqueue.service.front import Front
from goqueue.service.health import Health

SERVICE: Final = "grpc.health.v1.Health"
_LOOK_S: Final = 0.5
_Response: TypeAlias = health_pb2.HealthCheckResponse


class HealthMethods:
    def __init__(self, health: Front[Health], services: Collection[str]) -> None:
        self._health = health
        self._services = frozenset({"", *services})

    def methods(self) -> list[GrpcMethod]:
        request = health_pb2.HealthCheckRequest
        return [
            GrpcMethod(f"{SERVICE}/Check", request, self.check, is_public=True),
            GrpcMethod(f"{SERVICE}/Watch", request, self.watch, "answers", is_wait=True, is_public=True),
        ]

    async def check(self, request: health_pb2.HealthCheckRequest, call: GrpcCall) -> _Response:
        if request.service not in self._services:
            raise NotFound(f"There is no service {request.service[:100]!r}.", field="service")
        return _Response(status=self._status(request.service, call))

    async def watch(self, request: health_pb2.HealthCheckRequest, call: GrpcCall, send: Send) -> None:
        """Tells at once, and then whenever it changes; also of a service that is not there."""
        told = None
        while not self._health.by(call.caller).stopping:
            status = self._status(request.service, call)
            if status != told:
                await send(_Response(status=status))
                told = status
            await asyncio.sleep(_LOOK_S)
        await send(_Response(status=_Response.NOT_SERVING))

    def _status(self, service: str, call: GrpcCall) -> int:
        if service not in self._services:
            return int(_Response.SERVICE_UNKNOWN)
        is_fit = all(check.ok for check in self._health.by(call.caller).checks())
        return int(_Response.SERVING if is_fit else _Response.NOT_SERVING)
