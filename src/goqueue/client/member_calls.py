"""The requests of a group's member and what their answers mean, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

import msgspec

from goqueue.api.groups import Beat, BeatIn, Joined, JoinIn, LeaveIn, PollOut, RevokeIn, TopicParts, TopicPartsIn
from goqueue.base.decoders import from_json
from goqueue.base.leases import Begin
from goqueue.client.calls import RestCall, check_topic, group_path
from goqueue.client.leases import Leased, leased_of
from goqueue.client.messages import Span, span
from goqueue.client.native_calls import NativePoll

__all__ = [
    "Beat",
    "Begin",
    "Joined",
    "Joining",
    "Lanes",
    "Mode",
    "Polled",
    "heartbeat",
    "join",
    "leave",
    "poll",
    "revoke",
]

T = TypeVar("T")
Mode: TypeAlias = Literal["partition", "shared"]
Lanes: TypeAlias = Literal["weighted", "strict"]


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


class Polled(msgspec.Struct, frozen=True):
    """What was handed out; `rebalance` says that a heartbeat has news."""

    messages: list[Leased]
    generation: int
    rebalance: bool


def join(asked: Joining) -> RestCall[Joined]:
    body = JoinIn(
        client_id=asked.client_id,
        topics=[check_topic(one) for one in asked.topics],
        member_id=asked.member_id,
        session_timeout=span(asked.session_timeout, "session_timeout"),
        mode=asked.mode,
        begin=asked.begin,
        auto_commit=asked.auto_commit,
        visibility_timeout=span(asked.visibility_timeout, "visibility_timeout"),
        lanes=asked.lanes,
    )
    return _post(asked.group, "join", body, _reader(Joined))


def heartbeat(group: str, member_id: str, generation: int) -> RestCall[Beat]:
    return _post(group, "heartbeat", BeatIn(member_id, generation), _reader(Beat))


def revoke(group: str, member_id: str, generation: int, partitions: Sequence[TopicParts]) -> RestCall[Beat]:
    given = [TopicPartsIn(one.topic, one.partitions) for one in partitions]
    body = RevokeIn(member_id, generation, given)
    return _post(group, "revoke", body, _reader(Beat))


def leave(group: str, member_id: str) -> RestCall[None]:
    return _post(group, "leave", LeaveIn(member_id), lambda status, body: None)


def poll(group: str, member_id: str, generation: int, limit: int, wait_seconds: float) -> RestCall[Polled]:
    query = {
        "member_id": member_id,
        "generation": str(generation),
        "limit": str(limit),
        "timeout": f"{round(wait_seconds * 1000)}ms",
    }

    def read(status: int, body: bytes) -> Polled:
        told = from_json(body, PollOut)
        return Polled([leased_of(one) for one in told.messages], told.generation, told.rebalance)

    native = NativePoll(group, member_id, generation, limit, round(wait_seconds * 1000))
    return RestCall("GET", f"{group_path(group)}/poll", read, query, wait_seconds=wait_seconds, native=native)


def _post(group: str, verb: str, body: object, read: Callable[[int, bytes], T]) -> RestCall[T]:
    return RestCall("POST", f"{group_path(group)}/{verb}", read, body=msgspec.json.encode(body))


def _reader(kind: type[T]) -> Callable[[int, bytes], T]:
    return lambda status, body: from_json(body, kind)
