"""Where error words meet HTTP. The only such place."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from goqueue.base import errors
from goqueue.edge.http.connections import Rendered
from goqueue.edge.rest.operations import json

STATUS: Final[dict[type[errors.GoQueueError], int]] = {
    errors.Invalid: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.Gone: 416,
    errors.Damaged: 500,
    errors.Unavailable: 503,
    errors.Startup: 503,
    errors.Full: 507,
    errors.UnsupportedEncoding: 415,
    errors.UnknownHost: 421,
    errors.HeadTooLarge: 431,
    errors.UriTooLong: 414,
    errors.RequestTooSlow: 408,
    errors.QuotaExceeded: 403,
    errors.Throttled: 429,
}
_CHALLENGE: Final = 'Basic realm="goqueue", charset="UTF-8", Bearer realm="goqueue"'
_MEDIA_TYPE: Final = "application/problem+json"


def status_of(error: errors.GoQueueError) -> int:
    """The status of the nearest family."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem(error: errors.GoQueueError, status: int | None = None) -> Response:
    """The error as `application/problem+json`."""
    status = status or status_of(error)
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        **brief(error),
        **error.detail,
    }
    answer = json(body, status, _MEDIA_TYPE)
    if status in (429, 503):
        wait_ms = error.detail.get("retry_ms")
        answer.headers["Retry-After"] = str(-(-wait_ms // 1000)) if isinstance(wait_ms, int) else "1"
    if status == 401:
        answer.headers["WWW-Authenticate"] = _CHALLENGE
    return answer


def rendered(error: errors.GoQueueError) -> Rendered:
    """The same for what is refused before it is a request."""
    answer = problem(error)
    return Rendered(answer.status_code, _MEDIA_TYPE, bytes(answer.body))


def brief(error: errors.GoQueueError) -> dict[str, object]:
    """Code, sentence and field: what a single message's result carries."""
    told: dict[str, object] = {"code": error.code, "detail": error.message}
    if error.field is not None:
        told["field"] = error.field
    return told


def internal_error() -> Response:
    """What a caller is told of a bug: nothing but that it is logged."""
    body = {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "code": "internal",
        "detail": "The node failed to answer; its log has the reason.",
    }
    return json(body, 500, _MEDIA_TYPE)
