"""Messages between JSON and the commands. Text stays text; what is not UTF-8 travels as base64 with a mark."""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request

from goqueue.api.messages import (
    BinaryValue,
    Encoding,
    HeaderOne,
    HeaderValue,
    MessageIn,
    MessageOut,
    RepeatIn,
)
from goqueue.base.commands import Headers, InputMessage, Repeat, Stored
from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.ids import Millis, Offset
from goqueue.base.priority import HEADER as PRIORITY_HEADER
from goqueue.base.priority import NAMES, lane_of, parse_priority, priority_of
from goqueue.base.times import parse_duration_ms, parse_time_ms
from goqueue.base.trace_context import TRACEPARENT, TRACESTATE, join_tracestate, parse_traceparent, within

_STRETCH: Final = 500
_NUMBER: Final = re.compile(r"\d{1,18}")


async def messages_in(given: Sequence[MessageIn], request: Request) -> list[InputMessage]:
    """Those that say nothing about a trace are part of the request's, if that has one. Many are read in stretches."""
    messages: list[InputMessage] = []
    for at in range(0, len(given), _STRETCH):
        if at:
            await asyncio.sleep(0)
        messages += [message_in(place, one) for place, one in enumerate(given[at : at + _STRETCH], at)]
    given_contexts = request.headers.getlist(TRACEPARENT)
    context = parse_traceparent(given_contexts[0].encode()) if len(given_contexts) == 1 else None
    if context is None:
        return messages
    state = join_tracestate(request.headers.getlist(TRACESTATE))
    return [replace(message, headers=within(message.headers, context, state)) for message in messages]


def message_in(place: int, given: MessageIn) -> InputMessage:
    """The message, or `InvalidField` that names the place."""
    try:
        return InputMessage(
            None if given.key is None else to_bytes(given.key, given.key_encoding, "key"),
            None if given.value is None else to_bytes(given.value, given.encoding, "value"),
            headers_in(given) if given.headers or given.priority is not None else (),
            given.partition,
            *(_times_in(given) if given.is_timed else ()),
        )
    except GoQueueError as error:
        error.field = f"messages[{place}].{error.field}"
        raise


def _times_in(given: MessageIn) -> tuple[Millis | None, Millis | None, Millis | None, Repeat | None, Millis | None]:
    return (
        time_in(given.timestamp, "timestamp"),
        time_in(given.deliver_at, "deliverAt"),
        duration_in(given.ttl, "ttl"),
        None if given.repeat is None else repeat_in(given.repeat),
        duration_in(given.delay, "delay"),
    )


def time_in(given: int | str | None, field: str) -> Millis | None:
    return parse_time_ms(given, field) if isinstance(given, str) else given


def duration_in(given: int | str | None, field: str) -> Millis | None:
    return parse_duration_ms(given, field) if isinstance(given, str) else given


def repeat_in(given: RepeatIn) -> Repeat:
    every = duration_in(given.every, "repeat.every")
    if every is not None and every <= 0:
        raise InvalidField("every is longer than nothing.", field="repeat.every")
    until = time_in(given.until, "repeat.until")
    return Repeat(given.cron or "", given.timezone or "", every or 0, given.times or 0, until or 0)


def to_bytes(text: str, encoding: Encoding, field: str) -> bytes:
    if encoding == "text":
        return text.encode()
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidField(f"The {field} is marked base64 but is not.", field=field) from None


def headers_in(given: MessageIn) -> Headers:
    pairs: list[tuple[str, bytes | None]] = []
    for name, value in given.headers.items():
        many = value if isinstance(value, list) else [value]
        pairs += [(name, _header_in(one)) for one in many]
    if given.priority is not None:
        number = parse_priority(given.priority)
        pairs = [pair for pair in pairs if pair[0] != PRIORITY_HEADER]
        pairs.append((PRIORITY_HEADER, str(number).encode()))
    return tuple(pairs)


def _header_in(value: HeaderOne) -> bytes | None:
    if isinstance(value, BinaryValue):
        return to_bytes(value.value, value.encoding, "headers")
    return None if value is None else value.encode()


def message_out(stored: Stored) -> MessageOut:
    key, key_encoding = from_bytes(stored.key)
    value, encoding = from_bytes(stored.value)
    headers = headers_out(stored.headers) if stored.headers else {}
    return MessageOut(
        stored.topic,
        stored.partition,
        stored.offset,
        stored.timestamp_ms,
        key,
        value,
        headers,
        NAMES[priority_of(stored.headers)],
        encoding,
        key_encoding,
    )


async def messages_out(messages: Sequence[Stored]) -> list[MessageOut]:
    """A long page is translated in stretches, so that others get their turn."""
    shown: list[MessageOut] = []
    for at in range(0, len(messages), _STRETCH):
        if at:
            await asyncio.sleep(0)
        shown += [message_out(one) for one in messages[at : at + _STRETCH]]
    return shown


def from_bytes(data: bytes | None) -> tuple[str | None, Encoding]:
    if data is None:
        return None, "text"
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"


def headers_out(headers: Headers) -> dict[str, HeaderValue]:
    """The priority's own header is not shown: it is the field `priority`. One that names no lane is shown."""
    shown: dict[str, list[HeaderOne]] = {}
    for name, value in headers:
        if name != PRIORITY_HEADER or lane_of(value) is None:
            text, encoding = from_bytes(value)
            one: HeaderOne = text
            if text is not None and encoding == "base64":
                one = BinaryValue(text, "base64")
            shown.setdefault(name, []).append(one)
    return {name: values[0] if len(values) == 1 else values for name, values in shown.items()}


def cursor_out(offsets: dict[int, Offset]) -> str:
    """Where to go on, as text: `0:17,1:4`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def cursor_in(text: str, field: str) -> dict[int, Offset]:
    pairs = [part.partition(":") for part in text.split(",")]
    sound = all(_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset) for partition, _, offset in pairs)
    offsets = {int(partition): int(offset) for partition, _, offset in pairs} if sound else {}
    if len(offsets) < len(pairs):
        raise InvalidField(f"{text!r} is not a cursor; it looks like 0:17,1:4.", field=field)
    return offsets


def place_in(text: str, field: str = "from") -> str | Millis | dict[int, Offset]:
    """`earliest`, `latest`, a point in time, or a cursor."""
    if text in ("earliest", "latest"):
        return text
    if ":" in text and "-" not in text and "T" not in text:
        return cursor_in(text, field)
    try:
        return parse_time_ms(text, field)
    except InvalidField:
        raise InvalidField(
            f"{text!r} is not a place to read from; use earliest, latest, a time like 2026-01-31T12:00:00Z, "
            "or the cursor of an earlier answer.",
            field=field,
        ) from None
