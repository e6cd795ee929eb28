"""Where error words about schemas meet Confluent's numbers. Its clients know these, and this form, alone."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from goqueue.base.errors import GoQueueError, InvalidField, InvalidJson
from goqueue.core.schemas import errors
from goqueue.edge.rest.errors import status_of
from goqueue.edge.rest.operations import json

MEDIA_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_WEIGHT: Final = re.compile(r"\bq\s*=\s*([01](?:\.[0-9]{0,3})?)")

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
    errors.SchemaTooLarge: 42209,
    errors.InvalidSchemaVersion: 42202,
    errors.InvalidCompatibility: 42203,
    errors.InvalidMode: 42204,
    errors.RegistryReadOnly: 42205,
    errors.SchemaReferenced: 42206,
    errors.InvalidSubject: 42208,
    InvalidField: 422,
    InvalidJson: 400,
}


class RegistryErrorOut(msgspec.Struct, frozen=True):
    """What Confluent's clients are told of an error. The number's first three digits are the HTTP status."""

    error_code: int
    message: str


class Text(msgspec.Struct, frozen=True):
    """An answer that is sent as it is."""

    text: str


def number_of(error: GoQueueError) -> int:
    """Confluent's number of the word; its first three digits are the HTTP status."""
    return NUMBERS.get(type(error)) or status_of(error)


def confluent(handler: Callable[[Any, Request], Awaitable[object]]) -> Any:
    """A route whose answer and errors have Confluent's form."""

    @wraps(handler)
    async def answer(self: Any, request: Request) -> Response:
        media_type = accepted(request.headers.get("accept", ""))
        try:
            reply = await handler(self, request)
        except GoQueueError as error:
            number = number_of(error)
            return json(RegistryErrorOut(number, _told(error)), int(str(number)[:3]), media_type)
        return Response(reply.text, 200, None, media_type) if isinstance(reply, Text) else json(reply, 200, media_type)

    return answer


def accepted(header: str) -> str:
    """The one of the registry's media types that the client likes best; the first of them for those that name none."""
    best, chosen = 0.0, MEDIA_TYPES[0]
    for one in header[:1_000].split(","):
        named, _, rest = one.partition(";")
        if named.strip().lower() in MEDIA_TYPES and (weight := _weight(rest)) > best:
            best, chosen = weight, named.strip().lower()
    return chosen


def _weight(parameters: str) -> float:
    found = _WEIGHT.search(parameters)
    return 1.0 if found is None else float(found[1])


def _told(error: GoQueueError) -> str:
    """In Confluent's words where clients look for them."""
    if isinstance(error, errors.InvalidSchema) and not error.message.startswith(
        ("Invalid schema", "Register", "Version")
    ):
        return f"Invalid schema, details: {error.message}"
    return error.message
