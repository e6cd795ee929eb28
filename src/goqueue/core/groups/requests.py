"""What members and administrators ask of the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.groups.records import Mode, Style

JOIN: Final = 0  # member epochs of the server-side protocol
LEAVE: Final = -1
LEAVE_STATIC: Final = -2


class JoinRequest(msgspec.Struct, frozen=True):
    """Join or rejoin a classic group. `new_member_id` becomes the member's id if it has none yet."""

    group: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_ms: Millis
    rebalance_ms: Millis
    requires_member_id: bool
    supports_skipping_assignment: bool
    new_member_id: str
    reason: str = ""


class SyncRequest(msgspec.Struct, frozen=True):
    """Ask for the assignment of a generation; the leader brings everybody's."""

    group: str
    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class HeartbeatRequest(msgspec.Struct, frozen=True):
    """A classic member is alive."""

    group: str
    member_id: str
    group_instance_id: str | None
    generation: int


class LeaveRequest(msgspec.Struct, frozen=True):
    """Members (id, instance id) leave a classic group; an administrator names a static one by instance id alone."""

    group: str
    members: Sequence[tuple[str, str | None]]


class ConsumerHeartbeat(msgspec.Struct, frozen=True):
    """The one request of the server-side protocol. None means unchanged."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_ms: Millis | None = None
    subscribed_topics: Sequence[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    owned: Sequence[tuple[str, Sequence[int]]] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeat(msgspec.Struct, frozen=True):
    """The one request of a share group's members. None means unchanged."""

    group: str
    member_id: str
    member_epoch: int
    rack: str | None = None
    subscribed_topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


class RestJoin(msgspec.Struct, frozen=True):
    """Join over REST. With an id, known or not, the member keeps it; without one it gets `new_member_id`."""

    group: str
    member_id: str
    new_member_id: str
    client_id: str
    topics: Sequence[str]
    protocol: Style = "cooperative"
    assignor: str | None = None
    session_ms: Millis | None = None
    mode: Mode = "partition"
    client_host: str = ""


class OffsetCommit(msgspec.Struct, frozen=True, gc=False):
    """The next offset to read in one partition."""

    topic: str
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""


class CommitRequest(msgspec.Struct, frozen=True):
    """Commit offsets, as a member or, with generation -1 and no member, for a group without members."""

    group: str
    member_id: str
    generation_or_epoch: int
    instance_id: str | None
    offsets: Sequence[OffsetCommit]

    @property
    def is_simple(self) -> bool:
        return self.generation_or_epoch < 0 and not self.member_id and self.instance_id is None
