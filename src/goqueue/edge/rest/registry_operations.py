"""The form of all routes of the schema registry: their media types, their errors, and their second place."""

from __future__ import annotations

from typing import Any

from goqueue.edge.rest.operations import Param, RestOperation
from goqueue.edge.rest.schema_errors import MEDIA_TYPES, RegistryErrorOut


def registry_operation(
    method: Any,
    path: str,
    handler: Any,
    summary: str,
    reply: Any = None,
    body: Any = None,
    params: tuple[Param, ...] = (),
) -> RestOperation:
    return RestOperation(
        method,
        path,
        handler,
        summary,
        "schemas",
        reply,
        200,
        body,
        params,
        MEDIA_TYPES[0],
        also="/schemas",
        media_types=MEDIA_TYPES,
        error=RegistryErrorOut,
    )


def registry_get(
    path: str, handler: Any, summary: str, reply: Any = None, params: tuple[Param, ...] = ()
) -> RestOperation:
    return registry_operation("GET", path, handler, summary, reply, None, params)
