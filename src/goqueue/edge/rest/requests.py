"""Reading requests: bodies within limits, JSON into types, query parameters by name. Mistakes name their field."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, Final, NoReturn, Protocol, TypeVar

import msgspec
from prometheus_client import Gauge
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from goqueue.base.begun import Begun
from goqueue.base.choices import choices_at, listed
from goqueue.base.commands import Isolation
from goqueue.base.decoders import from_json
from goqueue.base.errors import BodyTooLarge, GoQueueError, InvalidField, InvalidJson, Overloaded, UnsupportedEncoding
from goqueue.base.limits import KIB
from goqueue.base.times import parse_duration_ms
from goqueue.edge.http.cycle import watch_of
from goqueue.edge.http.json_size import CHECKED_BYTES_MIN, check_elements

T = TypeVar("T")
_NO_ROOM: Final = "Too many request bodies are under way; try again in a moment."
_PATIENCE_SHARE: Final = 20  # of the time that a body may stand still, until it may be dropped to make room for others
_MOVED_BYTES: Final = 64 * KIB  # a body that grew by less stands still
_QUERIES_KEPT: Final = 1_024
_QUERY_KEPT_BYTES_MAX: Final = 512
_TOLD_MAX: Final = 300  # characters of an error that come from the request
_PATH: Final = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")


class BodyLimits(Protocol):
    """The settings of a door that bound its bodies."""

    @property
    def body_bytes_max(self) -> int: ...

    @property
    def body_bytes_total_max(self) -> int: ...

    @property
    def body_stall_ms(self) -> int: ...


class Bodies:
    """Holds at most so many body bytes at once, for all requests together. Bytes count when they have arrived.

    If there is no room for more, a body that hardly goes on makes room: its request is refused, not the others.
    """

    def __init__(self, settings: BodyLimits, held_bytes: Gauge) -> None:
        self.one_max = settings.body_bytes_max
        self._all_max = settings.body_bytes_total_max
        self._patience_s = settings.body_stall_ms / 1000 / _PATIENCE_SHARE
        self._held = 0
        self._arriving: dict[BodyReader, None] = {}
        held_bytes.set_function(lambda: self._held)

    def read(self, request: Request) -> BodyReader:
        """`async with` gives the whole body; its bytes count until the block is left."""
        return BodyReader(self, request)

    def begin(self, reader: BodyReader) -> None:
        self._arriving[reader] = None

    def end(self, reader: BodyReader) -> None:
        self._arriving.pop(reader, None)

    def take(self, size: int, reader: BodyReader) -> None:
        while self._held + size > self._all_max:
            if not self._drop_slowest(reader):
                raise Overloaded(_NO_ROOM)
        self._held += size

    def give_back(self, size: int) -> None:
        self._held -= size

    def _drop_slowest(self, asker: BodyReader) -> bool:
        slowest = min(self._arriving, key=lambda reader: reader.moved_at, default=asker)
        if slowest is asker or time.monotonic() - slowest.moved_at < self._patience_s:
            return False
        slowest.drop()
        return True


class BodyReader:
    """One body on its way."""

    def __init__(self, bodies: Bodies, request: Request) -> None:
        self._bodies = bodies
        self._request = request
        self._parts: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[object] | None = None  # while it waits for more
        self._is_dropped = False
        self._moved_size = 0
        self.moved_at = 0.0

    async def __aenter__(self) -> bytes:
        self._check_head()
        try:
            more = self._add(await self._request.receive())
            if more:
                await self._read_on()
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = []
            if len(body) >= CHECKED_BYTES_MIN:
                await check_elements(body)
        except BaseException:
            self._give_back()
            raise
        return body

    async def __aexit__(self, *error: object) -> None:
        self._give_back()

    def _check_head(self) -> None:
        for name, value in self._request.scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:20]) > self._bodies.one_max:
                self._refuse_size()
            if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                raise UnsupportedEncoding("Compressed bodies are not read here; send the body as it is.")

    def _refuse_size(self) -> NoReturn:
        raise BodyTooLarge(f"The body is over the limit of {self._bodies.one_max} bytes; send less at once.")

    async def _read_on(self) -> None:
        self.moved_at, self._moved_size = time.monotonic(), self._size
        self._bodies.begin(self)
        self._task = asyncio.current_task()
        try:
            while self._add(await self._request.receive()):
                pass
        except asyncio.CancelledError:
            if not self._is_dropped or self._task is None or self._task.uncancel():
                raise
            raise Overloaded(_NO_ROOM) from None
        finally:
            self._task = None
            self._bodies.end(self)

    def drop(self) -> None:
        """Makes room at once; the request is told when its turn comes."""
        self._bodies.end(self)
        self._give_back()
        self._is_dropped = True
        if self._task is not None:
            self._task.cancel()

    def _add(self, message: Message) -> bool:
        """Whether more will come."""
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        if self._size + len(part) > self._bodies.one_max:
            self._refuse_size()
        self._bodies.take(len(part), self)
        self._size += len(part)
        self._parts.append(part)
        if self._size - self._moved_size >= _MOVED_BYTES:
            self._moved_size, self.moved_at = self._size, time.monotonic()
        return bool(message.get("more_body", False))

    def _give_back(self) -> None:
        self._bodies.give_back(self._size)
        self._size = 0
        self._parts = []


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Gives the work up when the client has gone, so that nothing is handed out to nobody."""
    begun = Begun(work)
    if begun.results:
        return begun.results[0]
    watch, task = watch_of(request.scope), asyncio.current_task()
    if watch is None or task is None:
        return await _beside(request, begun)
    is_gone = False

    def leave() -> None:
        nonlocal is_gone
        is_gone = True
        task.cancel()

    watch(leave)
    try:
        return await begun
    except asyncio.CancelledError:
        if not is_gone or task.cancelling() > 1:
            raise
        raise ClientDisconnect from None
    finally:
        watch(None)
        if is_gone:
            task.uncancel()


async def _beside(request: Request, begun: Begun[T]) -> T:
    """With another server, which has to be asked for what comes next."""
    working = asyncio.ensure_future(begun)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, GoQueueError):
                await task


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def decode(body: bytes, kind: type[T]) -> T:
    """JSON as a type."""
    if not body:
        raise InvalidJson("The body is empty; send JSON.")
    try:
        return from_json(body, kind)
    except msgspec.ValidationError as error:
        raise field_error(str(error), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"The body is not JSON: {error}.") from None


def field_error(told: str, kind: Any) -> InvalidField:
    path = _PATH.search(told)
    sentence = told[: path.start()] if path else told
    field = path[1] if path else ""
    if named := _UNKNOWN.match(sentence) or _MISSING.match(sentence):
        field = f"{field}.{named[1]}".lstrip(".")
    words = choices_at(kind, field)
    sentence, field = _short(sentence), _short(field)
    return InvalidField(f"{sentence}; use {listed(words)}." if words else f"{sentence}.", field=field or None)


def _short(text: str) -> str:
    """What was given is told again, but not all of it."""
    return text if len(text) <= _TOLD_MAX else f"{text[: _TOLD_MAX // 2]}…{text[-_TOLD_MAX // 2 :]}"


@lru_cache(_QUERIES_KEPT)
def _kept_params(query: bytes) -> QueryParams:
    return QueryParams(query)


def _query_params(query: bytes) -> QueryParams:
    """Who polls asks the same again and again."""
    return _kept_params(query) if len(query) <= _QUERY_KEPT_BYTES_MAX else QueryParams(query)


class Query:
    """A request's query parameters; those not asked for are errors."""

    def __init__(self, request: Request, *known: str) -> None:
        self._given = _query_params(request.scope["query_string"])
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
    value = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None
    if value is None or not low <= value <= high:
        raise InvalidField(f"{field} is a whole number from {low} to {high}, not {text!r}.", field=field)
    return value
