"""The REST door as an ASGI application: routes, error mapping, request metrics, pages."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client import Counter, Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Mount, Route, Router
from starlette.types import Message, Receive, Scope, Send

from goqueue.base.errors import ForeignOrigin, GoQueueError, Invalid, UnknownHost, UnknownRoute
from goqueue.base.trace_context import parse_traceparent
from goqueue.edge.http.gate import refuse_other_sites
from goqueue.edge.http.guard import DoorGuard
from goqueue.edge.http.metering import metered
from goqueue.edge.rest import openapi
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.errors import internal_error, problem
from goqueue.edge.rest.operations import Handler, RestOperation
from goqueue.edge.security.http_login import HttpLogin
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.quotas import ClientQuotas

logger = logging.getLogger(__name__)

# A page may only load what this node serves, and run no script that is not a file of its own.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_KNOWN_MAX: Final = 4_096
_KNOWN_CHARS_MAX: Final = 512

Pages = Mapping[str, tuple[str, bytes]]  # path -> (media type, content)


def build_app(
    operations: Sequence[RestOperation],
    metrics: BrokerMetrics,
    pages: Pages,
    guard: DoorGuard[HttpLogin],
    quotas: ClientQuotas,
) -> RestApp:
    """Every operation, also under `/v1`; the descriptions; the given pages."""
    described = openapi.document(operations)
    served: dict[str, tuple[str, bytes]] = {
        **pages,
        "/openapi.json": ("application/json", msgspec.json.encode(described)),
        "/docs": ("text/html; charset=utf-8", openapi.page(operations).encode()),
    }
    routes = [Route(_path(one.path), _handler(one), methods=[one.method]) for one in operations]
    routes += [Route(_path(one.also + one.path), _handler(one), methods=[one.method]) for one in operations if one.also]
    routes += [Route(path, _page(*content)) for path, content in served.items()]
    versioned = Mount("/v1", routes=routes)
    public = {*served, *(one.path for one in operations if one.is_public)}
    router = Router([*routes, versioned], redirect_slashes=False)
    return RestApp(router, routes, metrics, guard, frozenset(public), quotas)


def _path(path: str) -> str:
    """The name of a subject or of an owner may hold slashes."""
    return path.replace("{subject}", "{subject:path}").replace("{owner}", "{owner:path}")


def _handler(operation: RestOperation) -> Handler:
    if not operation.consumes:
        return operation.handler

    async def serve(request: Request) -> Response:
        refuse_other_sites(request.scope["headers"])
        return await operation.handler(request)

    return serve


def _page(media_type: str, content: bytes):  # type: ignore[no-untyped-def]
    async def serve(request: Request) -> Response:
        return Response(content, 200, _PAGE_HEADERS, media_type)

    return serve


class _Found:
    """Routes of paths that were asked for, so that who asks the same again costs no search among all of them."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._known: dict[tuple[str, str], tuple[Route, Scope]] = {}

    def of(self, scope: Scope) -> tuple[Route, Scope] | None:
        """The route, and what it adds to the scope; None if none has the path with this method."""
        asked = (scope["method"], scope["path"])
        found = self._known.get(asked)
        if found is None:
            matches = ((route, *route.matches(scope)) for route in self._routes)
            found = next(((route, more) for route, match, more in matches if match is Match.FULL), None)
            if found is not None and len(scope["path"]) <= _KNOWN_CHARS_MAX:
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[asked] = found
        return found


class RestApp:
    """Answers errors in the door's own form and counts every request by its route."""

    def __init__(
        self,
        router: Router,
        routes: Sequence[Route],
        metrics: BrokerMetrics,
        guard: DoorGuard[HttpLogin],
        public: frozenset[str],
        quotas: ClientQuotas,
    ) -> None:
        """`public` are the paths that everybody may ask for."""
        self._quotas = quotas
        self._router = router
        self._routes = routes
        self._found = _Found(routes)
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._metrics = metrics
        self._gate, self._connections, self._login = guard
        self._public = public

    def behind(self, guard: DoorGuard[HttpLogin]) -> RestApp:
        """The same for another door."""
        return RestApp(self._router, self._routes, self._metrics, guard, self._public, self._quotas)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope["app"] = self
        try:
            self._gate.check(scope)
            self._connections.check_room()
            if scope["path"].removeprefix("/v1") in self._public or (self._login is None and not self._quotas.is_set):
                response = await self._response(scope, receive, sending)
                if response is not None:
                    status = response.status_code
                    await response(scope, receive, send)
            elif self._login is None:
                await self._whole(scope, receive, sending)
            else:
                await self._login.serve(scope, lambda: self._whole(scope, receive, sending))
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            if isinstance(error, UnknownHost | ForeignOrigin):
                self._connections.count(error.code)
            if status:
                raise  # the answer is under way; the connection must break
            answer = self._answer(error, scope)
            status = answer.status_code
            await answer(scope, receive, send)
        self._count(scope, status, time.perf_counter() - started)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer and its sending, which can go on for long."""
        if self._quotas.is_set:
            receive, send = metered(self._quotas, caller_of(Request(scope)), scope, receive, send)
        response = await self._response(scope, receive, send)
        if response is not None:
            await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """As the router does, which is asked only for what is rare, and then answers itself."""
        found = self._found.of(scope)
        if found is None:
            await self._router(scope, receive, send)
            return None
        route, more = found
        scope.update(route=route, endpoint=more["endpoint"], path_params=dict(more["path_params"]))
        response: Response = await route.endpoint(Request(scope, receive, send))
        return response

    def _answer(self, error: Exception, scope: Scope) -> Response:
        if isinstance(error, GoQueueError):
            return problem(error)
        if isinstance(error, HTTPException):
            return self._methods_told(error, scope) or _http_error(error, scope)
        logger.exception("request failed", exc_info=error, extra={"method": scope["method"], "path": scope["path"]})
        return internal_error()

    def _methods_told(self, error: HTTPException, scope: Scope) -> Response | None:
        """For a method that the path does not have: all that it has. `OPTIONS` asks for just that."""
        if error.status_code != 405:
            return None
        path = scope["path"].removeprefix("/v1") or "/"
        found = {method for route in self._routes if route.path_regex.match(path) for method in route.methods or ()}
        allowed = {"Allow": ", ".join(sorted({*found, "OPTIONS"}))}
        if scope["method"] == "OPTIONS":
            return Response(None, 204, allowed)
        answer = _http_error(error, scope)
        answer.headers.update(allowed)
        return answer

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = route.path if isinstance(route, Route) else "unknown"
        series = self._series.get((scope["method"], path, status))
        if series is None:
            requests = self._metrics.requests.labels(scope["method"], path, str(status))
            series = requests, self._metrics.request_seconds.labels(path)
            self._series[scope["method"], path, status] = series
        series[0].inc()
        series[1].observe(seconds, _exemplar(scope))


def _exemplar(scope: Scope) -> dict[str, str] | None:
    """The trace that the client says the request belongs to."""
    given = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
    context = None if given is None else parse_traceparent(given)
    return None if context is None or not context.is_sampled else {"trace_id": context.trace_id}


def _http_error(error: HTTPException, scope: Scope) -> Response:
    """What the router itself refuses: unknown paths and methods."""
    asked = f"{scope['method']} {scope['path']}"
    if error.status_code == 405:
        answer = problem(UnknownRoute(f"{asked} is not a thing here; see /docs."), 405)
    elif error.status_code == 404:
        answer = problem(UnknownRoute(f"There is no {asked}; see /docs."), 404)
    else:
        answer = problem(Invalid(error.detail), error.status_code)
    answer.headers.update(error.headers or {})
    return answer
