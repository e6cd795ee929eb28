"""What requests to the schema registry say in their paths and queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from starlette.requests import Request

from goqueue.base.errors import InvalidField
from goqueue.core.schemas.errors import InvalidSchemaVersion, UnknownSchema, UnknownSubject
from goqueue.core.schemas.model import GLOBAL, LATEST

T = TypeVar("T")
_NUMBER_MAX: Final = 2**31 - 1
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,12}")


def subject_of(request: Request) -> str:
    """The registry's own settings have no subject. A context may be named if it is the only one."""
    given = str(request.path_params.get("subject", GLOBAL)).removeprefix(":.:")
    if not given and "subject" in request.path_params:
        raise UnknownSubject("A subject has a name.", field="subject")
    return given


def flag(request: Request, *names: str) -> bool:
    return any(request.query_params.get(name, "false").lower() in ("true", "1", "") for name in names)


def form(request: Request) -> str:
    return request.query_params.get("format", "")


def is_shown(is_deleted: bool, deleted: bool, only: bool) -> bool:
    return is_deleted if only else deleted or not is_deleted


def page(request: Request, found: Sequence[T]) -> list[T]:
    bounds: list[int] = []
    for name, default in (("offset", "0"), ("limit", "-1")):
        text = request.query_params.get(name, default)
        if not text.removeprefix("-").isdecimal() or len(text) > 10:
            raise InvalidField(f"{name} is a whole number.", field=name)
        bounds.append(int(text))
    start, count = max(0, bounds[0]), bounds[1]
    return list(found[start:] if count < 0 else found[start : start + count])


def number_of(text: str) -> int:
    """A version: `latest` and -1 are the newest."""
    given = text.strip()
    if given.lower() == "latest":
        return LATEST
    if not _WHOLE.fullmatch(given) or not (1 <= int(given) <= _NUMBER_MAX or int(given) == LATEST):
        message = (
            f"The specified version '{text[:40]}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"'
        )
        raise InvalidSchemaVersion(message, field="version")
    return int(given)


def id_of(request: Request) -> int:
    text = request.path_params["id"]
    if not text.isdecimal() or len(text) > 10:
        raise UnknownSchema(f"Schema {text[:40]} not found", field="id")
    return int(text)
