"""Where error words about schemas meet Confluent's numbers. Its clients know these, and this form, alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from goqueue.base.errors import GoQueueError, InvalidField, InvalidJson
from goqueue.core.schemas import errors
from goqueue.edge.rest.errors import status_of
from goqueue.edge.rest.operations import json

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"

NUMBERS: Final[dict[type[GoQueueError], int]] = {
    errors.UnknownSubject: 40401,
    errors.UnknownSchemaVersion: 40402,
    errors.UnknownSchema: 40403,
    errors.SubjectDeleted: 40404,
    errors.SubjectNotDeleted: 40405,
    errors.SchemaVersionDeleted: 40406,
    errors.SchemaVersionNotDeleted: 40407,
    errors.NoSubjectConfig: 40408,
    errors.NoSubjectMode: 40409,
    errors.IncompatibleSchema: 409,
    errors.InvalidSchema: 42201,
    errors.InvalidSchemaVersion: 42202,
    errors.InvalidCompatibility: 42203,
    errors.InvalidMode: 42204,
    errors.RegistryReadOnly: 42205,
    errors.SchemaReferenced: 42206,
    errors.InvalidSubject: 42208,
    InvalidField: 422,
    InvalidJson: 400,
}


def number_of(error: GoQueueError) -> int:
    """Confluent's number of the word; its first three digits are the HTTP status."""
    return NUMBERS.get(type(error)) or status_of(error)


def confluent(handler: Callable[[Any, Request], Awaitable[object]]) -> Any:
    """A route whose answer and errors have Confluent's form."""

    @wraps(handler)
    async def answer(self: Any, request: Request) -> Response:
        try:
            return json(await handler(self, request), 200, MEDIA_TYPE)
        except GoQueueError as error:
            number = number_of(error)
            return json({"error_code": number, "message": error.message}, int(str(number)[:3]), MEDIA_TYPE)

    return answer
