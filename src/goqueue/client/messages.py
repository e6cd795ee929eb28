"""Messages as Python users have them, and as JSON carries them.

Keys, values and header values are bytes here. In JSON they are text where they are UTF-8 and marked base64 where not.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypedDict, TypeVar, cast

import msgspec

from goqueue.api.messages import BinaryValue, Encoding, HeaderOne, HeaderValue, MessageIn, MessageOut
from goqueue.base.decoders import from_json
from goqueue.client import checks
from goqueue.client.errors import GoQueueClientError, bad_reply, invalid


class Dataclass(Protocol):
    """Any instance of one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class PydanticModel(Protocol):
    """Any instance of one, by what both sides need of it: pydantic itself is not asked for."""

    def model_dump_json(self) -> str: ...


Content: TypeAlias = (
    str | bytes | msgspec.Struct | Dataclass | PydanticModel | None
)  # what is neither text nor bytes becomes JSON
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersIn: TypeAlias = Mapping[str, Content] | Iterable[tuple[str, Content]]
Moment: TypeAlias = int | str | datetime  # milliseconds since 1970, RFC 3339, or a datetime with a zone
Span: TypeAlias = int | str | timedelta  # milliseconds, text like "10s", or a timedelta
Repeat: TypeAlias = Mapping[str, str | int]  # {"cron": ..., "timezone": ...} or {"every": ..., "times": ...}

T = TypeVar("T")
TEXT: Final = "text"
BASE64: Final = "base64"
HeaderValues: TypeAlias = dict[str, HeaderValue]


class Placed(msgspec.Struct, frozen=True):
    """Where a message was stored."""

    partition: int
    offset: int


class Scheduled(msgspec.Struct, frozen=True, rename={"deliver_at": "deliverAt"}):
    """Where a message waits for its time: the partition it will enter, and its place in the schedule."""

    partition: int
    scheduled: int
    deliver_at: str


Sent: TypeAlias = Placed | Scheduled


class MessageFields(TypedDict, total=False):
    """What a message may have beside its value."""

    key: Content
    headers: HeadersIn
    partition: int | None
    priority: str | int | None
    timestamp: Moment | None
    delay: Span | None
    deliver_at: Moment | None
    ttl: Span | None
    repeat: Repeat | None


class NewMessage(msgspec.Struct, frozen=True):
    """One message to publish. Text is sent as UTF-8; a value of None is a tombstone.

    `partition` None lets the topic's partitioner choose. `priority` is a lane's name or 0 (critical) to 4. `delay` or
    `deliver_at` lets it wait; `ttl` is how long it may be consumed from then on; `repeat` sends it again and again.
    """

    value: Content
    key: Content = None
    headers: HeadersIn = ()
    partition: int | None = None
    priority: str | int | None = None
    timestamp: Moment | None = None
    delay: Span | None = None
    deliver_at: Moment | None = None
    ttl: Span | None = None
    repeat: Repeat | None = None


class Message(msgspec.Struct, frozen=True):
    """One message as it stands in the log; `timestamp` is milliseconds since 1970. A value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    priority: str = "normal"

    @property
    def text(self) -> str | None:
        """The value as text; `UnicodeDecodeError` if it is not UTF-8."""
        return None if self.value is None else self.value.decode()

    @property
    def key_text(self) -> str | None:
        """The key as text; `UnicodeDecodeError` if it is not UTF-8."""
        return None if self.key is None else self.key.decode()

    def decode(self, kind: type[T]) -> T:
        """The value, which is JSON, as a dataclass, a msgspec struct, a pydantic model or any type that msgspec knows;
        `bad-value` if it is none."""
        try:
            if (validate := getattr(kind, "model_validate_json", None)) is not None:
                return cast(T, validate(self.value or b""))
            return from_json(self.value or b"", kind)
        except ValueError as error:  # of either library
            raise GoQueueClientError("bad-value", f"The value is no {kind.__name__}: {error}.") from None

    def header(self, name: str) -> bytes | None:
        """The value of the first header of that name; None if there is none."""
        return next((value for found, value in self.headers if found == name), None)


# --- JSON ---------------------------------------------------------------------------------------------


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(MessageOut)


def encode_message(message: NewMessage) -> bytes:
    """The message as JSON for a publish."""
    _check_fields(message)
    value, encoding = _to_text(message.value, "value")
    key, key_encoding = _to_text(message.key, "key")
    return _encode(
        MessageIn(
            value=value,
            encoding=encoding,
            key=key,
            key_encoding=key_encoding,
            headers=_headers_to_json(header_pairs(message.headers)),
            partition=message.partition,
            priority=message.priority,
            timestamp=None if message.timestamp is None else moment(message.timestamp, "timestamp"),
            delay=span(message.delay, "delay"),
            deliver_at=None if message.deliver_at is None else moment(message.deliver_at, "deliverAt"),
            ttl=span(message.ttl, "ttl"),
            repeat=cast(Any, message.repeat),  # a mapping has the same JSON; the broker checks it
        )
    )


def _check_fields(message: NewMessage) -> None:
    if message.partition is not None:
        checks.whole_number(message.partition, "partition")
    if message.priority is not None:
        checks.priority(message.priority, "priority")
    if message.repeat is not None:
        checks.mapping(message.repeat, "repeat")


def decode_message(data: bytes | msgspec.Raw) -> Message:
    """A message as the broker sends it; `bad-reply` if it is not one."""
    try:
        return message_of(_decoder.decode(data))
    except ValueError as error:
        raise bad_reply(error) from None


def message_of(got: MessageOut) -> Message:
    """The message that the JSON stands for; `ValueError` if its base64 is none."""
    return Message(**message_fields(got))


def message_fields(got: MessageOut) -> dict[str, Any]:
    """The fields of the message."""
    return {
        "topic": got.topic,
        "partition": got.partition,
        "offset": got.offset,
        "timestamp": got.timestamp,
        "key": to_bytes(got.key, got.key_encoding),
        "value": to_bytes(got.value, got.encoding),
        "headers": headers_of_json(got.headers),
        "priority": got.priority,
    }


def encode_received(message: Message) -> bytes:
    """The message as the broker sent it: what a program that passes messages on as JSON writes."""
    return _encode(received_members(message))


def received_members(message: Message) -> dict[str, object]:
    """The members of a message as the broker sent it."""
    place = {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    content = json_content(message.key, message.value, message.headers)
    return {**place, "timestamp": message.timestamp, **content, "priority": message.priority}


def json_content(key: bytes | None, value: bytes | None, headers: Headers) -> dict[str, object]:
    """What a message carries, in the members that JSON has for it."""
    value_text, encoding = _to_text(value, "value")
    key_text, key_encoding = _to_text(key, "key")
    marks = {"encoding": encoding, "key_encoding": key_encoding}
    given = {mark: told for mark, told in marks.items() if told != TEXT}
    return {"key": key_text, "value": value_text, **given, "headers": _headers_to_json(headers)}


def moment(when: Moment, field: str) -> int | str:
    """A point in time as JSON and queries carry it. A datetime must know its zone."""
    checks.moment(when, field)
    if not isinstance(when, datetime):
        return when
    if when.tzinfo is None:
        raise invalid(f"{when} has no time zone; use datetime.now(UTC) or add one.", field)
    return round(when.timestamp() * 1000)


def span(given: Span | None, field: str) -> int | str | None:
    """A length of time as JSON carries it."""
    if given is not None:
        checks.span(given, field)
    return round(given.total_seconds() * 1000) if isinstance(given, timedelta) else given


def header_pairs(headers: HeadersIn) -> Iterable[tuple[str, Content]]:
    """Names, which are text, and values."""
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else [(name, value) for name, value in headers]
    except (TypeError, ValueError):
        raise invalid(f"headers is a mapping, or pairs of a name and a value, not {headers!r}.", "headers") from None
    for name, _ in pairs:
        checks.text(name, "headers")
    return pairs


def _headers_to_json(pairs: Iterable[tuple[str, Content]]) -> HeaderValues:
    values: dict[str, list[HeaderOne]] = {}
    for name, content in pairs:
        text, encoding = _to_text(content, f"headers.{name}")
        marked = text if encoding == TEXT or text is None else BinaryValue(text, encoding)
        values.setdefault(name, []).append(marked)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def headers_of_json(headers: HeaderValues) -> Headers:
    """Pairs of a name and its bytes, in order."""
    return tuple(
        (name, to_bytes(value.value, value.encoding) if isinstance(value, BinaryValue) else to_bytes(value))
        for name, found in headers.items()
        for value in (found if isinstance(found, list) else [found])
    )


def _to_text(content: Content, field: str) -> tuple[str | None, Encoding]:
    """The text for JSON, and what it is."""
    if content is None:
        return None, TEXT
    if isinstance(content, str):
        try:
            content.encode()
        except UnicodeEncodeError as error:
            raise _not_utf8(error, field) from None
        return content, TEXT
    data = plain_bytes(content, field)
    try:
        return str(data, "utf-8"), TEXT
    except UnicodeDecodeError:
        return b64encode(data).decode("ascii"), BASE64


def to_content(content: Content, field: str) -> bytes | None:
    """The bytes that a key, a value or a header's value is sent as."""
    if content is None or isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        return bytes(plain_bytes(content, field))
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise _not_utf8(error, field) from None


def _not_utf8(error: UnicodeEncodeError, field: str) -> GoQueueClientError:
    return invalid(f"The text cannot be UTF-8 ({error.reason}); send bytes instead.", field)


def plain_bytes(content: Content, field: str) -> bytes:
    """What is not text, as bytes: JSON of a dataclass, a msgspec struct or a pydantic model."""
    if hasattr(type(content), "model_dump_json"):
        return cast(PydanticModel, content).model_dump_json().encode()
    is_record = isinstance(content, msgspec.Struct) or hasattr(type(content), "__dataclass_fields__")
    if is_record and not isinstance(content, NewMessage | Message):
        return _encode(content)
    checks.content(content, field)
    return cast(bytes, content)


def to_bytes(text: str | None, encoding: Encoding = TEXT) -> bytes | None:
    """The bytes that a text of JSON stands for."""
    if text is None:
        return None
    return text.encode() if encoding == TEXT else b64decode(text, validate=True)
