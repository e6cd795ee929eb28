"""The requests of a group's member and what their answers mean, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from goqueue.client.calls import RestCall, check_topic, group_path
from goqueue.client.leases import Leased, decode_leased
from goqueue.client.messages import Span, span
from goqueue.client.replies import TopicParts

T = TypeVar("T")
Mode: TypeAlias = Literal["partition", "shared"]
Lanes: TypeAlias = Literal["weighted", "strict"]
Begin: TypeAlias = Literal["earliest", "latest"]


class Joining(msgspec.Struct, frozen=True):
    """What a member asks for; None leaves it to the broker."""

    group: str
    topics: Sequence[str]
    client_id: str
    member_id: str
    mode: Mode = "partition"
    visibility_timeout: Span | None = None
    auto_commit: bool | None = None
    lanes: Lanes = "weighted"
    begin: Begin = "earliest"
    session_timeout: Span | None = None


class Joined(msgspec.Struct, frozen=True):
    """The member is in; `mode` is the group's."""

    generation: int
    assignment: list[TopicParts]
    heartbeat_interval_ms: int
    session_timeout_ms: int
    mode: str


class Beat(msgspec.Struct, frozen=True):
    """What the member may read, what it has to give back, and what is new."""

    generation: int
    assignment: list[TopicParts]
    revoke: list[TopicParts]
    gained: list[TopicParts]


class Polled(msgspec.Struct, frozen=True):
    """What was handed out; `rebalance` says that a heartbeat has news."""

    messages: list[Leased]
    generation: int
    rebalance: bool


class _Polled(msgspec.Struct):
    messages: list[msgspec.Raw]
    generation: int
    rebalance: bool


def join(asked: Joining) -> RestCall[Joined]:
    body: dict[str, Any] = {
        "client_id": asked.client_id,
        "member_id": asked.member_id,
        "topics": [check_topic(one) for one in asked.topics],
        "mode": asked.mode,
        "lanes": asked.lanes,
        "from": asked.begin,
    }
    optional = {
        "visibility_timeout": span(asked.visibility_timeout, "visibility_timeout"),
        "auto_commit": asked.auto_commit,
        "session_timeout": span(asked.session_timeout, "session_timeout"),
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    return _post(asked.group, "join", body, _reader(Joined))


def heartbeat(group: str, member_id: str, generation: int) -> RestCall[Beat]:
    return _post(group, "heartbeat", {"member_id": member_id, "generation": generation}, _reader(Beat))


def revoke(group: str, member_id: str, generation: int, partitions: Sequence[TopicParts]) -> RestCall[Beat]:
    body = {"member_id": member_id, "generation": generation, "partitions": partitions}
    return _post(group, "revoke", body, _reader(Beat))


def leave(group: str, member_id: str) -> RestCall[None]:
    return _post(group, "leave", {"member_id": member_id}, lambda status, body: None)


def poll(group: str, member_id: str, generation: int, limit: int, wait_seconds: float) -> RestCall[Polled]:
    query = {
        "member_id": member_id,
        "generation": str(generation),
        "limit": str(limit),
        "timeout": f"{round(wait_seconds * 1000)}ms",
    }

    def read(status: int, body: bytes) -> Polled:
        told = msgspec.json.decode(body, type=_Polled)
        return Polled([decode_leased(one) for one in told.messages], told.generation, told.rebalance)

    return RestCall("GET", f"{group_path(group)}/poll", read, query, wait_seconds=wait_seconds)


def _post(group: str, verb: str, body: object, read: Callable[[int, bytes], T]) -> RestCall[T]:
    return RestCall("POST", f"{group_path(group)}/{verb}", read, body=msgspec.json.encode(body))


def _reader(kind: type[T]) -> Callable[[int, bytes], T]:
    return lambda status, body: msgspec.json.decode(body, type=kind)
