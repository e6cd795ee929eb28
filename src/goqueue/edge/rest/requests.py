"""Reading requests: bodies within limits, JSON into types, query parameters by name. Mistakes name their field."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import msgspec
from starlette.requests import Request

from goqueue.base.choices import choices_at, listed
from goqueue.base.commands import Isolation
from goqueue.base.errors import BodyTooLarge, InvalidField, InvalidJson, Overloaded
from goqueue.base.times import parse_duration_ms

T = TypeVar("T")
_PATH: Final = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")


class BodyLimits(Protocol):
    """The settings of a door that bound its bodies."""

    @property
    def body_bytes_max(self) -> int: ...

    @property
    def body_bytes_total_max(self) -> int: ...


class Bodies:
    """Holds at most so many body bytes at once, for all requests together."""

    def __init__(self, settings: BodyLimits) -> None:
        self._one_max = settings.body_bytes_max
        self._all_max = settings.body_bytes_total_max
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body; its bytes count until the block is left."""
        announced = request.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() else 0
        self._take(size, size)
        held = size
        try:
            parts: list[bytes] = []
            got = 0
            async for chunk in request.stream():
                got += len(chunk)
                if got > held:
                    self._take(got - held, got)
                    held = got
                parts.append(chunk)
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self._held -= held

    def _take(self, more: int, whole: int) -> None:
        if whole > self._one_max:
            raise BodyTooLarge(f"The body is over the limit of {self._one_max} bytes; send less at once.")
        if self._held + more > self._all_max:
            raise Overloaded("Too many request bodies are under way; try again in a moment.")
        self._held += more


def decode(body: bytes, kind: type[T]) -> T:
    """JSON as a type."""
    if not body:
        raise InvalidJson("The body is empty; send JSON.")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as why:
        raise _field_error(str(why), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise InvalidJson(f"The body is not JSON: {why}.") from None


def _field_error(told: str, kind: Any) -> InvalidField:
    path = _PATH.search(told)
    sentence = told[: path.start()] if path else told
    field = path[1] if path else ""
    if named := _UNKNOWN.match(sentence) or _MISSING.match(sentence):
        field = f"{field}.{named[1]}".lstrip(".")
    words = choices_at(kind, field)
    return InvalidField(f"{sentence}; use {listed(words)}." if words else f"{sentence}.", field=field or None)


class Query:
    """A request's query parameters; those not asked for are errors."""

    def __init__(self, request: Request, *known: str) -> None:
        self._given = request.query_params
        for name in self._given:
            if name not in known:
                listed = f"known are {', '.join(known)}" if known else "this route takes none"
                raise InvalidField(f"The query parameter {name!r} is unknown; {listed}.", field=name)
        if len(self._given.multi_items()) > len(self._given):
            raise InvalidField("A query parameter is given twice.", field="query")

    def text(self, name: str, default: str) -> str:
        return self._given.get(name, default)

    def has(self, name: str) -> bool:
        return name in self._given

    def number(self, name: str, default: int, low: int, high: int) -> int:
        return number(self._given.get(name, str(default)), name, low, high)

    def flag(self, name: str) -> bool:
        given = self._given.get(name, "false").lower()
        if given not in ("true", "false", "1", "0", ""):
            raise InvalidField(f"{name} is true or false.", field=name)
        return given in ("true", "1", "")

    def duration_ms(self, name: str, high_ms: int) -> int:
        """How long to wait; more than the node allows is cut to that."""
        return min(parse_duration_ms(self._given.get(name, "0"), name), high_ms)

    def isolation(self) -> Isolation:
        given = self._given.get("isolation", Isolation.READ_COMMITTED.value)
        try:
            return Isolation(given)
        except ValueError:
            raise InvalidField("isolation is read_committed or read_uncommitted.", field="isolation") from None


def number(text: str, field: str, low: int, high: int) -> int:
    """A whole number of the path or query."""
    value = int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
    if value is None or not low <= value <= high:
        raise InvalidField(f"{field} is a whole number from {low} to {high}, not {text!r}.", field=field)
    return value
