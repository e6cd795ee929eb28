"""What the groups write down, and its bytes.

One key a group and one a (group, topic, partition), so that compaction keeps the last of each. A record without a
value is a tombstone. Keys and values begin with a version; what this code does not know decodes to None.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.groups.parts import Parts

VERSION: Final = 1
LEFT_STATIC: Final = -2  # epoch of a static member that left and may come back to its place

Kind: TypeAlias = Literal["classic", "consumer", "share"]
Door: TypeAlias = Literal["kafka", "rest", "share"]
Style: TypeAlias = Literal["cooperative", "eager"]
Mode: TypeAlias = Literal["partition", "shared"]


class ClassicMember(msgspec.Struct, frozen=True):
    """A member that joins and syncs; `assignment` is the leader's bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: Millis
    rebalance_ms: Millis
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member that the coordinator assigns to.

    It may read `assigned`. It was asked to give back `pending`, which nobody else gets before it did. It is on its
    way to `target`, and is there when its epoch is the group's and `assigned` is `target`.
    """

    member_id: str
    door: Door = "kafka"
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    style: Style = "cooperative"
    session_ms: Millis = 30_000
    rebalance_ms: Millis = 60_000
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Parts = {}
    pending: Parts = {}
    target: Parts = {}
    protocols: tuple[tuple[str, bytes], ...] = ()  # of a member that speaks the classic protocol; none otherwise

    @property
    def is_classic(self) -> bool:
        return bool(self.protocols)


class GroupState(msgspec.Struct, frozen=True):
    """A whole group. `generation` is the group's epoch in a consumer group; `topics` is what its targets rest on."""

    group: str
    kind: Kind
    generation: int = 0
    since_ms: Millis = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    classic: dict[str, ClassicMember] = {}
    consumer: dict[str, ConsumerMember] = {}
    topics: dict[str, int] = {}
    mode: Mode = "partition"


class GroupGone(msgspec.Struct, frozen=True):
    """The group was deleted."""

    group: str


class GroupConfig(msgspec.Struct, frozen=True):
    """What an administrator set for a group; nothing is the end of it."""

    group: str
    values: dict[str, str]


class OffsetCommitted(msgspec.Struct, frozen=True, gc=False):
    """How far a group came in a partition. `expire_ms` -1 leaves it to the node's retention."""

    group: str
    topic: str
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: Millis = 0
    expire_ms: Millis = -1


class OffsetDeleted(msgspec.Struct, frozen=True, gc=False):
    """The group's offset in a partition was deleted or expired."""

    group: str
    topic: str
    partition: int


Record: TypeAlias = GroupState | GroupGone | GroupConfig | OffsetCommitted | OffsetDeleted

_ConfigValue = tuple[int, dict[str, str]]
_GroupValue = tuple[int, GroupState]
_OffsetValue = tuple[int, Offset, int, str, Millis, Millis]
_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(list[int | str]).decode
_decode_group = msgspec.msgpack.Decoder(_GroupValue).decode
_decode_config = msgspec.msgpack.Decoder(_ConfigValue).decode
_decode_offset = msgspec.msgpack.Decoder(_OffsetValue).decode


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    if isinstance(record, GroupState):
        return _group_key(record.group), _encode((VERSION, record))
    if isinstance(record, GroupGone):
        return _group_key(record.group), None
    if isinstance(record, GroupConfig):
        return _encode((VERSION, "config", record.group)), _encode((VERSION, record.values)) if record.values else None
    key = _encode((VERSION, "offset", record.group, record.topic, record.partition))
    if isinstance(record, OffsetDeleted):
        return key, None
    tail = (record.offset, record.leader_epoch, record.metadata, record.commit_ms, record.expire_ms)
    return key, _encode((VERSION, *tail))


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if a later version wrote it."""
    try:
        return _decode(key, value)
    except msgspec.DecodeError:
        return None


def _group_key(group: str) -> bytes:
    return _encode((VERSION, "group", group))


def _decode(key: bytes, value: bytes | None) -> Record | None:
    match _decode_key(key):
        case [1, "group", str(group)]:
            return GroupGone(group) if value is None else _group(value)
        case [1, "config", str(group)]:
            return GroupConfig(group, {} if value is None else _config(value))
        case [1, "offset", str(group), str(topic), int(partition)]:
            return OffsetDeleted(group, topic, partition) if value is None else _offset(group, topic, partition, value)
    return None


def _group(value: bytes) -> GroupState | None:
    version, state = _decode_group(value)
    return state if version == VERSION else None


def _config(value: bytes) -> dict[str, str]:
    version, values = _decode_config(value)
    return values if version == VERSION else {}


def _offset(group: str, topic: str, partition: int, value: bytes) -> OffsetCommitted | None:
    version, offset, leader_epoch, metadata, commit_ms, expire_ms = _decode_offset(value)
    if version != VERSION:
        return None
    return OffsetCommitted(group, topic, partition, offset, leader_epoch, metadata, commit_ms, expire_ms)
