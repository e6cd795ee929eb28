"""Routes about the node itself: health, version, statistics, metrics."""

from __future__ import annotations

import platform

from starlette.requests import Request
from starlette.responses import Response

from goqueue import __version__
from goqueue.api.node import BrokerVersion, CheckOut, HealthOut, ReadyOut
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.service.front import Front, answer_of
from goqueue.service.health import Health, Stats
from goqueue.service.metrics_page import MetricsPage


class NodeRoutes:
    def __init__(self, health: Front[Health], metrics: Front[MetricsPage]) -> None:
        self._health = health
        self._metrics = metrics

    def operations(self) -> list[RestOperation]:
        tag = "node"
        verbose = Param("verbose", "List every check.", "boolean")
        return [
            RestOperation("GET", "/healthz", self.alive, "Is the process serving", tag, HealthOut, is_public=True),
            RestOperation(
                "GET", "/livez", self.alive, "The same, by its Kubernetes name", tag, HealthOut, is_public=True
            ),
            RestOperation(
                "GET",
                "/readyz",
                self.ready,
                "Does the node take work",
                tag,
                ReadyOut,
                params=(verbose,),
                is_public=True,
            ),
            RestOperation("GET", "/version", self.version, "BrokerVersion", tag, BrokerVersion),
            RestOperation("GET", "/stats", self.stats, "The node at a glance", tag, Stats),
            RestOperation("GET", "/metrics", self.metrics, "Prometheus metrics", tag, None, media_type="text/plain"),
        ]

    async def alive(self, request: Request) -> Response:
        Query(request)
        return json(HealthOut("ok"))

    async def ready(self, request: Request) -> Response:
        verbose = Query(request, "verbose").flag("verbose")
        checks = self._health.by(caller_of(request)).checks()
        ok = all(check.ok for check in checks)
        shown = {check.name: CheckOut(check.ok, check.detail) for check in checks if verbose or not check.ok}
        return json(ReadyOut("ready" if ok else "not ready", shown or None), 200 if ok else 503)

    async def version(self, request: Request) -> Response:
        Query(request)
        return json(BrokerVersion("goqueue", __version__, platform.python_version()))

    async def stats(self, request: Request) -> Response:
        Query(request)
        return json(await answer_of(self._health.by(caller_of(request)).stats()))

    async def metrics(self, request: Request) -> Response:
        Query(request)
        found = await self._metrics.by(caller_of(request)).text(request.headers.get("accept", ""))
        return Response(found.text, 200, None, found.media_type)
