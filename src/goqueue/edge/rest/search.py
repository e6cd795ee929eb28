"""Searching a topic: a stretch of it is looked through for each request, and the answer says where to go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.console import SearchOut
from goqueue.base.commands import Browse, Caller, Isolation, Stored
from goqueue.base.errors import InvalidField
from goqueue.base.ids import Offset
from goqueue.base.json_path import JsonPath
from goqueue.base.limits import PAGE_BYTES_MAX, SEARCHED_MESSAGES_MAX, SEARCHED_SECONDS_MAX, SMALL_PAGE_BYTES_MAX
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.decoding import SchemaDecoding
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.edge.rest.translate import cursor_out, messages_out, place_in
from goqueue.service.browse import Browsing
from goqueue.service.front import Front
from goqueue.service.time_slices import TimeSlices

_LIMIT_MAX: Final = 1_000
_STRETCH: Final = 200  # messages between two looks at the clock
_PARTITION_MAX: Final = 2**31 - 1
_PARAMS: Final = (
    Param("key", "With this key."),
    Param("header", "With this header, as `name:value`, or as `name` alone."),
    Param("path", "JSON values with this in them: `$.order.id=42`, or `$.order.id` alone. Values are decoded first."),
    Param("text", "With this text in the value."),
    Param("from", "Where to begin: `earliest` (default), a point in time, or `next` of the answer before."),
    Param("partition", "Only this one.", "integer"),
    Param("limit", "At most this many found, 1 to 1,000; default 100.", "integer"),
)


class SearchRoutes:
    def __init__(self, browsing: Front[Browsing], decoding: SchemaDecoding) -> None:
        self._browsing = browsing
        self._decoding = decoding

    def operations(self) -> list[RestOperation]:
        path = "/topics/{topic}/search"
        return [RestOperation("GET", path, self.search, "Search messages", "messages", SearchOut, params=_PARAMS)]

    async def search(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _PARAMS))
        caller, topic = caller_of(request), request.path_params["topic"]
        wanted = _Wanted(query)
        limit = query.number("limit", 100, 1, _LIMIT_MAX)
        offsets = await self._start(caller, topic, query)
        found: list[Stored] = []
        left = PAGE_BYTES_MAX
        scanned, until, slices = 0, time.monotonic() + SEARCHED_SECONDS_MAX, TimeSlices()
        while True:
            command = Browse(topic, offsets, _STRETCH, 0, Isolation.READ_COMMITTED, caller, SMALL_PAGE_BYTES_MAX)
            page = await self._browsing.by(caller).read(command)
            for place, message in enumerate(page.messages):
                offsets = {**offsets, message.partition: message.offset + 1}
                if wanted.fits(message) and await self._has_path(caller, message, wanted.path):
                    found.append(message)
                    left -= len(message.key or b"") + len(message.value or b"")
                await slices.pause()
                if len(found) >= limit or left <= 0:
                    told = await messages_out(found)
                    return json(SearchOut(told, scanned + place + 1, cursor_out(offsets)))
            scanned += len(page.messages)
            is_end = not page.messages and page.next_offsets == offsets
            offsets = page.next_offsets
            if is_end or scanned >= SEARCHED_MESSAGES_MAX or time.monotonic() > until:
                after = None if is_end else cursor_out(offsets)
                return json(SearchOut(await messages_out(found), scanned, after))

    async def _start(self, caller: Caller, topic: str, query: Query) -> dict[int, Offset]:
        place = place_in(query.text("from", "earliest"))
        browsing = self._browsing.by(caller)
        if isinstance(place, dict):
            for partition in place:
                browsing.check_partition(topic, partition)
            offsets = place
        else:
            offsets = await browsing.offsets_from(topic, place, Isolation.READ_COMMITTED)
        if query.has("partition"):
            one = query.number("partition", 0, 0, _PARTITION_MAX)
            browsing.check_partition(topic, one)
            offsets = {one: offsets.get(one, 0)}
        return offsets

    async def _has_path(self, caller: Caller, message: Stored, path: JsonPath | None) -> bool:
        if path is None:
            return True
        if message.value is None:
            return False
        value = _json(message.value)
        if value is None:
            told = await self._decoding.of_message(caller, message.value, message.headers)
            value = None if told is None else _json(told.encode())
        return value is not None and path.matches(value)


def _json(data: bytes) -> Any:
    """None if it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Wanted:
    """What can be told without looking into the value as JSON."""

    def __init__(self, query: Query) -> None:
        self._key = query.text("key", "").encode() if query.has("key") else None
        name, colon, value = query.text("header", "").partition(":")
        self._header = name
        self._value = value.strip().encode() if colon else None
        self._text = query.text("text", "").encode()
        self.path = JsonPath(query.text("path", "")) if query.text("path", "") else None
        if query.has("header") and not name:
            raise InvalidField("A header is asked for as name:value.", field="header")

    def fits(self, message: Stored) -> bool:
        return (
            (self._key is None or message.key == self._key)
            and (not self._header or self._has_header(message.headers))
            and (not self._text or (message.value is not None and self._text in message.value))
        )

    def _has_header(self, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        return any(name == self._header and (self._value is None or value == self._value) for name, value in headers)
