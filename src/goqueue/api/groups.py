"""Groups. Unknown members of a request are errors; those of a reply are ignored."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.api.messages import DeliveredOut, ErrorOut
from goqueue.base.leases import Begin
from goqueue.base.limits import NAME_CHARS_MAX, PARTITIONS_PER_TOPIC_MAX

_TOPICS_MAX = 1_000
_OFFSETS_MAX = 10_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Target = Literal["earliest", "latest", "timestamp", "offset"]
OffsetNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class TopicParts(msgspec.Struct, frozen=True):
    """Partitions of one topic."""

    topic: str
    partitions: Annotated[list[Number], msgspec.Meta(max_length=PARTITIONS_PER_TOPIC_MAX)]


class TopicPartsIn(TopicParts, frozen=True, forbid_unknown_fields=True):
    """The same in a request."""


class JoinIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """With a `member_id`, known or not, the member keeps it. Without a committed offset it begins at `from`."""

    client_id: Name
    topics: Annotated[list[str], msgspec.Meta(min_length=1, max_length=_TOPICS_MAX)]
    member_id: Name | None = None
    protocol: Literal["cooperative", "eager"] = "cooperative"
    assignor: Literal["range", "roundrobin", "sticky"] | None = None
    session_timeout: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    mode: Literal["partition", "shared"] = "partition"
    begin: Begin = msgspec.field(default="earliest", name="from")
    auto_commit: bool | None = None
    visibility_timeout: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    lanes: Literal["weighted", "strict"] = "weighted"


class Joined(msgspec.Struct, frozen=True):
    """The member is in; `mode` is the group's."""

    member_id: str
    generation: int
    assignment: list[TopicParts]
    heartbeat_interval_ms: int
    session_timeout_ms: int
    protocol: str
    mode: str


class BeatIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    member_id: Name
    generation: Number


class Beat(msgspec.Struct, frozen=True):
    """What the member may read, what it has to give back, and what is new."""

    generation: int
    assignment: list[TopicParts]
    revoke: list[TopicParts]
    gained: list[TopicParts]
    heartbeat_interval_ms: int = 0


class RevokeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The member stopped reading these."""

    member_id: Name
    generation: Number
    partitions: Annotated[list[TopicPartsIn], msgspec.Meta(max_length=_TOPICS_MAX)]


class LeaveIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    member_id: Name


class PollOut(msgspec.Struct, frozen=True):
    """`rebalance` says that something changed: a heartbeat tells what."""

    messages: list[DeliveredOut]
    generation: int
    rebalance: bool


class CommitOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The next offset to read."""

    topic: str
    partition: Number
    offset: OffsetNumber
    metadata: str = ""


class CommitIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As a member, or without one while the group has none."""

    offsets: Annotated[list[CommitOne], msgspec.Meta(min_length=1, max_length=_OFFSETS_MAX)]
    member_id: Name | None = None
    generation: Number | None = None


class CommittedOut(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    partition: int
    offset: int | None = None
    error: ErrorOut | None = None


class CommitOut(msgspec.Struct, frozen=True):
    results: list[CommittedOut]


class GroupLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition.

    `committed` is null where the group never committed; then all of the partition is lag.
    """

    topic: str
    partition: int
    committed: int | None
    end_offset: int
    lag: int
    metadata: str = ""


class OffsetsOut(msgspec.Struct, frozen=True):
    offsets: list[GroupLag]


class ResetIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`to: timestamp` needs `timestamp`, `to: offset` needs `offset`. Without a partition, all of the topic."""

    topic: str
    to: Target
    partition: Number | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str | None = None
    offset: OffsetNumber | None = None
    dry_run: bool = False


class OffsetMove(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A reset's effect on one partition; `from` is null where nothing was committed."""

    topic: str
    partition: int
    before: int | None
    after: int


class ResetOut(msgspec.Struct, frozen=True):
    dry_run: bool
    offsets: list[OffsetMove]


class GroupMember(msgspec.Struct, frozen=True):
    """One member; `door` is where it came in: `rest` or `kafka`."""

    member_id: str
    client_id: str
    host: str
    door: str = ""
    generation: int = -1
    topics: list[str] = []
    assignment: list[TopicParts] = []
    revoking: list[TopicParts] = []


class Group(msgspec.Struct, frozen=True):
    """One group with its members and how far it is behind.

    `kind` is `consumer` where the node assigns, `classic` where a Kafka client does, and `share` for share groups.
    """

    group: str
    kind: str
    state: str
    generation: int
    protocol: str
    mode: str
    members: list[GroupMember]
    lag: list[GroupLag]


class GroupSummary(msgspec.Struct, frozen=True):
    """One line of a list of groups. `protocol_type` is empty for a group that only has offsets."""

    group: str
    kind: str
    state: str
    members: int
    protocol_type: str = ""


class GroupListOut(msgspec.Struct, frozen=True):
    groups: list[GroupSummary]
