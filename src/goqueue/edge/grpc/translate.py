"""Messages between the wire and the commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from goqueue.base.commands import Acks, Headers, InputMessage, Isolation, PublishResult, Repeat, ScheduledAt, StoredAt
from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.limits import HEADERS_PER_MESSAGE_MAX, MESSAGES_PER_PUBLISH_MAX
from goqueue.base.priority import HEADER as PRIORITY_HEADER
from goqueue.base.priority import parse_priority
from goqueue.edge.grpc.convert import given as checked
from goqueue.edge.grpc.errors import brief
from goqueue.wire import goqueue_pb2 as pb

_STRETCH: Final = 1_000
_ACKS: Final = {0: Acks.ALL, 1: Acks.NONE, 2: Acks.LEADER, 3: Acks.ALL}
_ISOLATION: Final = {0: Isolation.READ_COMMITTED, 1: Isolation.READ_COMMITTED, 2: Isolation.READ_UNCOMMITTED}
_Moment = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Repeat(msgspec.Struct, frozen=True):
    cron: str = ""
    timezone: str = ""
    every_ms: _Moment = 0
    times: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    until_ms: _Moment = 0


class _Options(msgspec.Struct, frozen=True):
    """What a message can say beside its content, within the limits that other doors have."""

    partition: Annotated[int, msgspec.Meta(ge=0)] | None = None
    timestamp_ms: _Moment | None = None
    priority: str = ""
    delay_ms: _Moment | None = None
    deliver_at_ms: _Moment | None = None
    ttl_ms: _Moment | None = None
    repeat: _Repeat | None = None


# --- in -----------------------------------------------------------------------------------------------------


async def messages_in(
    given: Sequence[pb.Message], traced: Callable[[Headers], Headers] | None = None
) -> list[InputMessage]:
    """Many are read in stretches, so that the node does other things between them."""
    if not 0 < len(given) <= MESSAGES_PER_PUBLISH_MAX:
        raise InvalidField(f"Send 1 to {MESSAGES_PER_PUBLISH_MAX} messages.", field="messages")
    whole = list(given)
    messages = _stretch(whole[:_STRETCH], 0)
    for begin in range(_STRETCH, len(whole), _STRETCH):
        await asyncio.sleep(0)
        messages += _stretch(whole[begin : begin + _STRETCH], begin)
    if traced is None:
        return messages
    return [replace(message, headers=traced(message.headers)) for message in messages]


def columns_in(request: pb.PublishRequest, traced: Callable[[Headers], Headers] | None = None) -> list[InputMessage]:
    """Messages that came as columns."""
    values, keys = list(request.values), list(request.keys)
    if not 0 < len(values) <= MESSAGES_PER_PUBLISH_MAX or request.messages:
        raise InvalidField(f"Send 1 to {MESSAGES_PER_PUBLISH_MAX} values, or messages.", field="values")
    if keys and len(keys) != len(values):
        raise InvalidField("There are no keys, or there is one for each value.", field="keys")
    headers = () if traced is None else traced(())
    return list(map(InputMessage, keys or repeat(None), values, repeat(headers)))


def _stretch(given: Iterable[pb.Message], begin: int) -> list[InputMessage]:
    """Most have a value, and a key or none, and nothing else."""
    return [
        InputMessage(one.key or _empty(one, "key"), one.value or _empty(one, "value"))
        if not (one.headers or one.HasField("options"))
        else _full(place, one)
        for place, one in enumerate(given, begin)
    ]


def _empty(message: pb.Message, field: str) -> bytes | None:
    return b"" if message.HasField(field) else None


def _full(place: int, given: pb.Message) -> InputMessage:
    try:
        options = checked(given.options, _Options)
        return InputMessage(
            given.key or _empty(given, "key"),
            given.value or _empty(given, "value"),
            headers_in(given.headers, options.priority),
            options.partition,
            options.timestamp_ms,
            options.deliver_at_ms,
            options.ttl_ms,
            None if options.repeat is None else _repeat_in(options.repeat),
            options.delay_ms,
        )
    except GoQueueError as error:
        error.field = f"messages[{place}].{error.field}"
        raise


def _repeat_in(given: _Repeat) -> Repeat:
    return Repeat(given.cron, given.timezone, given.every_ms, given.times, given.until_ms)


def headers_in(given: Sequence[pb.Header], priority: str = "") -> Headers:
    if len(given) > HEADERS_PER_MESSAGE_MAX:
        raise InvalidField(f"A message has at most {HEADERS_PER_MESSAGE_MAX} headers.", field="headers")
    pairs = [(one.name, one.value if one.HasField("value") else None) for one in given]
    if priority:
        number = parse_priority(priority)
        pairs = [pair for pair in pairs if pair[0] != PRIORITY_HEADER]
        pairs.append((PRIORITY_HEADER, str(number).encode()))
    return tuple(pairs)


def acks_in(given: int) -> Acks:
    if given not in _ACKS:
        raise InvalidField("acks is ACKS_NONE, ACKS_LEADER or ACKS_ALL.", field="acks")
    return _ACKS[given]


def isolation_in(given: int) -> Isolation:
    if given not in _ISOLATION:
        message = "isolation is ISOLATION_READ_COMMITTED or ISOLATION_READ_UNCOMMITTED."
        raise InvalidField(message, field="isolation")
    return _ISOLATION[given]


def number_in(value: int, field: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InvalidField(f"{field} is from {low} to {high}.", field=field)
    return value


# --- out ----------------------------------------------------------------------------------------------------


def headers_out(headers: Headers) -> list[pb.Header]:
    return [pb.Header(name=name, value=value) for name, value in headers]


def results_out(results: Sequence[PublishResult], request_id: int = 0) -> pb.PublishResponse:
    """Most are all stored."""
    stored_at = [one for one in results if isinstance(one, StoredAt)]
    if len(stored_at) == len(results):
        partitions, offsets = [one.partition for one in stored_at], [one.offset for one in stored_at]
        return pb.PublishResponse(id=request_id, partitions=partitions, offsets=offsets)
    made = pb.PublishResponse(id=request_id)
    for index, one in enumerate(results):
        stored = one if isinstance(one, StoredAt) else StoredAt(-1, -1)
        made.partitions.append(stored.partition)
        made.offsets.append(stored.offset)
        if isinstance(one, ScheduledAt):
            made.scheduled.add(index=index, partition=one.partition, offset=one.offset, deliver_at_ms=one.deliver_at_ms)
        elif isinstance(one, GoQueueError):
            made.failures.add(index=index, error=brief(one))
    return made
