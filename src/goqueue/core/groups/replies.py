"""What the groups answer."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.records import Door, Kind, Mode, Record, Style
from goqueue.core.machine import Decision


class JoinedMember(msgspec.Struct, frozen=True):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(msgspec.Struct, frozen=True):
    """The member is in a new generation; only the leader sees `members`."""

    generation: int
    protocol_type: str
    protocol_name: str
    leader: str
    member_id: str
    skip_assignment: bool = False
    members: list[JoinedMember] = []


class SyncReply(msgspec.Struct, frozen=True):
    """The member's assignment, in the leader's bytes."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


class GroupDone(msgspec.Struct, frozen=True):
    """Heard; nothing to add."""


class LeaveReply(msgspec.Struct, frozen=True):
    """One result for each (member id, instance id), in order; None is success."""

    members: list[tuple[str, str | None, GoQueueError | None]]


class ConsumerHeartbeatReply(msgspec.Struct, frozen=True):
    """Where the member stands; `assignment` None means unchanged."""

    member_id: str
    member_epoch: int
    heartbeat_ms: Millis
    assignment: PartList | None = None


class RestJoined(msgspec.Struct, frozen=True):
    """The member is in. What it may read now; more may come with its heartbeats. `mode` is the group's."""

    member_id: str
    generation: int
    assignment: PartList
    heartbeat_ms: Millis
    session_ms: Millis
    mode: Mode = "partition"
    protocol: Style = "cooperative"


class RestBeat(msgspec.Struct, frozen=True):
    """What the member may read now, what it has to give back, and what is new since the last answer."""

    generation: int
    assignment: PartList
    revoke: PartList = []
    gained: PartList = []
    heartbeat_ms: Millis = 3_000


class OffsetResult(msgspec.Struct, frozen=True, gc=False):
    """How one partition fared; None is success."""

    topic: str
    partition: int
    error: GoQueueError | None = None


class OffsetsReply(msgspec.Struct, frozen=True):
    """One result for each partition asked for, in order (commit, reset, delete)."""

    results: list[OffsetResult]


Result: TypeAlias = (
    JoinReply
    | SyncReply
    | GroupDone
    | LeaveReply
    | ConsumerHeartbeatReply
    | RestJoined
    | RestBeat
    | OffsetsReply
    | GoQueueError
)


class GroupStep(Decision[Record]):
    """What a call decided about groups. The result of each reply is a `Result`."""


class GroupListing(msgspec.Struct, frozen=True):
    """A line of the list of groups. `protocol_type` is empty for a group that only has offsets."""

    group: str
    kind: Kind
    state: str
    protocol_type: str
    members: int


class MemberDescription(msgspec.Struct, frozen=True):
    """One member. A classic one has bytes; `assignment` is read from them where they are a consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: PartList
    door: Door = "kafka"
    rack: str | None = None
    epoch: int = -1
    topics: list[str] = []
    regex: str | None = None
    target: PartList = []
    revoking: PartList = []
    metadata: bytes = b""
    assignment_bytes: bytes = b""
    is_classic: bool = False  # in a group of the server-side protocol


class GroupDescription(msgspec.Struct, frozen=True):
    """A whole group as an administrator sees it. States have Kafka's names."""

    group: str
    kind: Kind
    state: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: list[MemberDescription]
    mode: Mode = "partition"


class RebalanceStats(msgspec.Struct, frozen=True):
    """Rebalances of a group since this node started. `running_since_ms` is None when it is settled."""

    group: str
    rebalances: int
    last_duration_ms: Millis | None
    last_finished_ms: Millis | None
    running_since_ms: Millis | None
