"""REST's door of a node that waits for its cluster: it says that it is alive and not ready, until it serves."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from goqueue.api.node import CheckOut, HealthOut, ReadyOut
from goqueue.base.errors import NotLoaded
from goqueue.edge.rest.errors import problem
from goqueue.edge.rest.operations import json

_WAITING = "not in the cluster yet; the node waits for the metadata store or for other nodes"


class RestEntrance:
    """`open` once, with the whole door."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None

    def open(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _answer(scope["path"].removeprefix("/v1"))(scope, receive, send)


def _answer(path: str) -> ASGIApp:
    if path in ("/healthz", "/livez"):
        return json(HealthOut("ok"))
    if path == "/readyz":
        return json(ReadyOut("not ready", {"cluster": CheckOut(ok=False, detail=_WAITING)}), 503)
    return problem(NotLoaded("The node is not in its cluster yet; try again in a moment."))
