"""Every request of the REST door and what its answer means, without I/O. Both clients perform these and add nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from goqueue.api.delayed import DelayedListOut
from goqueue.api.groups import GroupListOut, ResetIn, ResetOut, Target
from goqueue.api.messages import PartitionPageOut, TopicPageOut
from goqueue.api.topics import TopicListOut
from goqueue.base.decoders import converted, from_json
from goqueue.base.errors import InvalidName
from goqueue.base.names import check_name
from goqueue.client import checks
from goqueue.client.delayed import Delayed, decode_delayed, delayed_of
from goqueue.client.errors import (
    GoQueueClientError,
    PartlyStored,
    bad_reply,
    error_of_problem,
    error_of_reply,
    invalid,
)
from goqueue.client.messages import (
    Content,
    Moment,
    NewMessage,
    Placed,
    Scheduled,
    Sent,
    encode_message,
    message_of,
    moment,
)
from goqueue.client.native_calls import Native, NativePublish
from goqueue.client.replies import (
    BrokerVersion,
    Doors,
    Group,
    GroupSummary,
    OffsetMove,
    Page,
    Readiness,
    TopicInfo,
    TopicSummary,
)

T = TypeVar("T")
Acks: TypeAlias = Literal["none", "leader", "all"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
Result: TypeAlias = Sent | GoQueueClientError
Config: TypeAlias = Mapping[str, str | int | float | None]


class RestCall(msgspec.Struct, Generic[T], frozen=True):
    """One request, and how to read an answer of success. `wait_seconds` is how long the broker was asked to wait."""

    method: str
    path: str
    read: Callable[[int, bytes], T]
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes | Callable[[], bytes] | None = None
    wait_seconds: float = 0.0
    accepts: tuple[int, ...] = ()  # statuses above 299 that are answers and not errors
    native: Native | None = None  # the same for gRPC, where that has a method of its own


def finish(call: RestCall[T], status: int, body: bytes) -> T:
    """The answer's meaning; raises what the broker refused with."""
    if not 200 <= status < 300 and status not in call.accepts:
        raise error_of_reply(status, body)
    try:
        return call.read(status, body)
    except ValueError as error:
        raise bad_reply(error) from None


def body_of(call: RestCall[Any]) -> bytes | None:
    """Some bodies are made when they are needed."""
    return call.body() if callable(call.body) else call.body


# --- topics -------------------------------------------------------------------------------------------


def create_topic(
    name: str, partitions: int | None, config: Config | None, replication_factor: int | None = None
) -> RestCall[TopicInfo]:
    checks.text(name, "name")
    body: dict[str, Any] = {"name": name, **_topic_members(config, partitions)}
    if replication_factor is not None:
        body["replication_factor"] = replication_factor
    return RestCall("POST", "/topics", _reader(TopicInfo), body=_json(body))


def topics() -> RestCall[list[TopicSummary]]:
    return RestCall("GET", "/topics", lambda status, body: _reader(TopicListOut)(status, body).topics)


def topic(name: str) -> RestCall[TopicInfo]:
    return RestCall("GET", _topic_path(name), _reader(TopicInfo))


def alter_topic(name: str, config: Config | None, partitions: int | None) -> RestCall[TopicInfo]:
    return RestCall("PATCH", _topic_path(name), _reader(TopicInfo), body=_json(_topic_members(config, partitions)))


def _topic_members(config: Config | None, partitions: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if config:
        checks.mapping(config, "config")
        for key, value in config.items():
            checks.setting(value, f"config.{key}")
        body["config"] = config
    if partitions is not None:
        checks.whole_number(partitions, "partitions")
        body["num_partitions"] = partitions
    return body


def delete_topic(name: str) -> RestCall[None]:
    return RestCall("DELETE", _topic_path(name), lambda status, body: None)


# --- publish ------------------------------------------------------------------------------------------


class _Results(msgspec.Struct):
    results: list[dict[str, Any]]


def publish(name: str, message: NewMessage, acks: Acks) -> RestCall[Sent]:
    def only(results: list[Result]) -> Sent:
        if isinstance(results[0], GoQueueClientError):
            raise results[0]
        return results[0]

    return _publish(name, [message], acks, only)


def publish_many(name: str, messages: Iterable[NewMessage | Content], acks: Acks) -> RestCall[list[Sent]]:
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise invalid("messages is a list of messages; for one, use publish.", "messages")

    def all_of(results: list[Result]) -> list[Sent]:
        placed = [result for result in results if not isinstance(result, GoQueueClientError)]
        if len(placed) < len(results):
            raise PartlyStored(results)
        return placed

    return _publish(name, list(messages), acks, all_of)


def _publish(
    name: str, messages: list[NewMessage | Content], acks: Acks, finish: Callable[[list[Result]], T]
) -> RestCall[T]:
    """As JSON, or as gRPC has it: the transport decides, and nothing is encoded twice."""
    checks.choice(acks, Acks, "acks")
    path, count = f"{_topic_path(name)}/messages", len(messages)

    def body() -> bytes:
        return _messages_body([encode_message(_new(one)) for one in messages], acks)

    def read(status: int, answer: bytes) -> T:
        return finish(_results(answer, count))

    return RestCall("POST", path, read, body=body, native=NativePublish(name, messages, acks, finish))


def _new(given: NewMessage | Content) -> NewMessage:
    return given if isinstance(given, NewMessage) else NewMessage(given)


def publish_encoded(name: str, encoded: Sequence[bytes], acks: Acks) -> RestCall[list[Result]]:
    """Messages that are JSON already; the answer has one result for each, in order."""
    checks.choice(acks, Acks, "acks")
    count, path = len(encoded), f"{_topic_path(name)}/messages"
    return RestCall("POST", path, lambda status, answer: _results(answer, count), body=_messages_body(encoded, acks))


def _messages_body(encoded: Sequence[bytes], acks: Acks) -> bytes:
    return b'{"messages":[' + b",".join(encoded) + b'],"acks":' + _json(acks) + b"}"


def _results(answer: bytes, count: int) -> list[Result]:
    results = [_result(one) for one in from_json(answer, _Results).results]
    if len(results) != count:
        raise bad_reply(f"{len(results)} results for {count} messages")
    return results


def _result(told: dict[str, Any]) -> Result:
    if "error" in told:
        return error_of_problem(None, told["error"])
    return converted(told, Scheduled) if "scheduled" in told else converted(told, Placed)


# --- read ---------------------------------------------------------------------------------------------


class ReadOptions(msgspec.Struct, frozen=True):
    """How to read, wherever from."""

    limit: int = 100
    timeout: float = 0.0
    isolation: Isolation = "read_committed"


def read_partition(name: str, partition: int, offset: int | None, options: ReadOptions) -> RestCall[Page]:
    """Without an offset, from the partition's start."""
    checks.whole_number(partition, "partition")
    if offset is not None:
        checks.whole_number(offset, "offset")
    path = f"{_topic_path(name)}/partitions/{partition}/messages"
    return _read(path, {} if offset is None else {"offset": str(offset)}, options, partition)


def read_topic(name: str, from_: Moment, options: ReadOptions) -> RestCall[Page]:
    return _read(f"{_topic_path(name)}/messages", {"from": str(moment(from_, "from"))}, options, None)


def read(
    name: str, partition: int | None, offset: int | None, from_: Moment | None, options: ReadOptions
) -> RestCall[Page]:
    """A read of one partition from an offset, or of all from anywhere else."""
    if partition is None and offset is not None:
        raise invalid("An offset belongs to a partition; name that too.", "partition")
    if partition is None:
        return read_topic(name, "earliest" if from_ is None else from_, options)
    if from_ is not None:
        raise invalid("A read of one partition starts at an offset; leave from_ out.", "from")
    return read_partition(name, partition, offset, options)


def _read(path: str, start: dict[str, str], options: ReadOptions, partition: int | None) -> RestCall[Page]:
    checks.whole_number(options.limit, "limit")
    checks.seconds(options.timeout, "timeout")
    checks.choice(options.isolation, Isolation, "isolation")
    query = start | {"limit": str(options.limit)}
    if options.timeout:
        query["timeout"] = f"{round(options.timeout * 1000)}ms"
    if options.isolation != "read_committed":
        query["isolation"] = options.isolation

    def read(status: int, body: bytes) -> Page:
        if partition is None:
            page = _reader(TopicPageOut)(status, body)
            return Page(list(map(message_of, page.messages)), page.next_offsets, page.next, skipped=page.skipped)
        part = _reader(PartitionPageOut)(status, body)
        messages, after = list(map(message_of, part.messages)), part.next_offset
        return Page(messages, {partition: after}, None, after, part.high_watermark, part.skipped)

    return RestCall("GET", path, read, query, wait_seconds=options.timeout)


def tail(name: str, from_: Moment, partition: int | None, last_event_id: str | None) -> RestCall[None]:
    """The stream's request; its events are read by `Tail`."""
    query = {"from": str(moment(from_, "from"))}
    if partition is not None:
        checks.whole_number(partition, "partition")
        query["partition"] = str(partition)
    headers = {"accept": "text/event-stream"}
    if last_event_id is not None:
        headers["last-event-id"] = last_event_id
    return RestCall("GET", f"{_topic_path(name)}/tail", lambda status, body: None, query, headers)


# --- delayed messages ---------------------------------------------------------------------------------


def delayed(name: str, limit: int, skip: int) -> RestCall[list[Delayed]]:
    checks.whole_number(limit, "limit")
    checks.whole_number(skip, "skip")
    query = {"limit": str(limit), "skip": str(skip)}

    def read(status: int, body: bytes) -> list[Delayed]:
        return [delayed_of(one) for one in _reader(DelayedListOut)(status, body).delayed]

    return RestCall("GET", f"{_topic_path(name)}/delayed", read, query)


def delayed_message(name: str, partition: int, offset: int) -> RestCall[Delayed]:
    return RestCall("GET", _delayed_path(name, partition, offset), lambda status, body: decode_delayed(body))


def cancel_delayed(name: str, partition: int, offset: int) -> RestCall[None]:
    return RestCall("DELETE", _delayed_path(name, partition, offset), lambda status, body: None)


def _delayed_path(name: str, partition: int, offset: int) -> str:
    checks.whole_number(partition, "partition")
    checks.whole_number(offset, "scheduled")
    return f"{_topic_path(name)}/delayed/{partition}/{offset}"


def delay_stats() -> RestCall[dict[str, Any]]:
    return RestCall("GET", "/delay/stats", _reader(dict[str, Any]))


# --- groups -------------------------------------------------------------------------------------------


def groups() -> RestCall[list[GroupSummary]]:
    return RestCall("GET", "/groups", lambda status, body: _reader(GroupListOut)(status, body).groups)


def group(name: str) -> RestCall[Group]:
    return RestCall("GET", group_path(name), _reader(Group))


def delete_group(name: str) -> RestCall[None]:
    return RestCall("DELETE", group_path(name), lambda status, body: None)


def reset_offsets(
    name: str, topic: str, to: Moment | None, offset: int | None, partition: int | None, dry_run: bool
) -> RestCall[list[OffsetMove]]:
    """To a place or a time, or to an offset."""
    if (to is None) == (offset is None):
        raise invalid("Say where to: either to, or an offset.", "to")
    checks.flag(dry_run, "dry_run")
    if partition is not None:
        checks.whole_number(partition, "partition")
    if offset is not None:
        checks.whole_number(offset, "offset")
        body = ResetIn(check_topic(topic), "offset", partition, offset=offset, dry_run=dry_run)
    elif to in ("earliest", "latest"):
        body = ResetIn(check_topic(topic), cast(Target, to), partition, dry_run=dry_run)
    else:
        when = None if to is None else moment(to, "to")
        body = ResetIn(check_topic(topic), "timestamp", partition, when, dry_run=dry_run)
    path = f"{group_path(name)}/offsets/reset"
    return RestCall("POST", path, lambda status, told: _reader(ResetOut)(status, told).offsets, body=_json(body))


# --- the node -----------------------------------------------------------------------------------------


def stats() -> RestCall[dict[str, Any]]:
    return RestCall("GET", "/stats", _reader(dict[str, Any]))


def node_stats(path: str) -> RestCall[dict[str, Any]]:
    """Numbers as the broker has them."""
    return RestCall("GET", path, _reader(dict[str, Any]))


def version() -> RestCall[BrokerVersion]:
    return RestCall("GET", "/version", _reader(BrokerVersion))


def doors() -> RestCall[Doors]:
    return RestCall("GET", "/doors", _reader(Doors))


def ready() -> RestCall[Readiness]:
    def read(status: int, body: bytes) -> Readiness:
        return Readiness(status == 200, _reader(dict[str, Any])(status, body))

    return RestCall("GET", "/readyz", read, {"verbose": "true"}, accepts=(503,))


def check_topic(name: str) -> str:
    """The name, or `invalid-name`. An empty one or `..` would silently be another route."""
    return _check(name, "topic")


def _check(name: str, kind: str) -> str:
    checks.text(name, kind)
    try:
        return check_name(name, kind, kind)
    except InvalidName as error:
        raise GoQueueClientError(error.code, error.message, error.field) from None


def _topic_path(name: str) -> str:
    return f"/topics/{check_topic(name)}"


def group_path(name: str) -> str:
    """A group's route, or `invalid-name`."""
    return f"/groups/{_check(name, 'group')}"


def _reader(kind: type[T]) -> Callable[[int, bytes], T]:
    return lambda status, body: from_json(body, kind)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
