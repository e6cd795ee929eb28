"""What the broker answers, as Python users have it. Members a newer broker adds are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from goqueue.client.messages import Message


class PartitionInfo(msgspec.Struct, frozen=True):
    """One partition: readable are the offsets from `start_offset` up to, not including, `high_watermark`."""

    partition: int
    start_offset: int
    end_offset: int
    high_watermark: int
    messages: int
    size_bytes: int
    segments: int = 0
    leader: int = 0
    leader_epoch: int = 0
    writable: bool = True
    damaged: list[Any] = []


class TopicSummary(msgspec.Struct, frozen=True):
    """One line of a list of topics."""

    name: str
    id: str
    num_partitions: int
    messages: int
    size_bytes: int
    created_ms: int


class TopicInfo(msgspec.Struct, frozen=True):
    """One topic. `config` is every setting in force, `overrides` those its owner set."""

    name: str
    id: str
    num_partitions: int
    messages: int
    size_bytes: int
    created_ms: int
    config: dict[str, str]
    overrides: dict[str, str]
    partitions: list[PartitionInfo]


class GroupSummary(msgspec.Struct, frozen=True):
    """One line of a list of groups. `kind` is `consumer` where the node assigns, `classic` where a client does."""

    group: str
    kind: str
    state: str
    members: int


class TopicParts(msgspec.Struct, frozen=True):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


class GroupMember(msgspec.Struct, frozen=True):
    """One member; `door` is `rest` or `kafka`."""

    member_id: str
    client_id: str
    host: str
    door: str = ""
    generation: int = -1
    topics: list[str] = []
    assignment: list[TopicParts] = []
    revoking: list[TopicParts] = []


class GroupLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition; `committed` is None where it never committed."""

    topic: str
    partition: int
    committed: int | None
    end_offset: int
    lag: int
    metadata: str = ""


class Group(msgspec.Struct, frozen=True):
    """One group with its members and how far it is behind."""

    group: str
    kind: str
    state: str
    generation: int
    protocol: str
    members: list[GroupMember]
    lag: list[GroupLag]
    mode: str = "partition"


class OffsetMove(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A reset's effect on one partition; `before` is None where nothing was committed."""

    topic: str
    partition: int
    before: int | None
    after: int


class Skipped(msgspec.Struct, frozen=True):
    """Offsets that the broker passed over: their producer sent something there that cannot be read as messages."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str

    def __str__(self) -> str:
        place = f"offsets {self.first_offset} to {self.last_offset} of partition {self.partition}"
        return f"{place} were passed over: {self.reason}"


class Page(msgspec.Struct, frozen=True):
    """Messages of one read, and where to go on.

    A read of all partitions has `next`, a cursor for `from_`. A read of one partition has `next_offset` and
    `high_watermark`. `next_offsets` is there in both, by partition. `skipped` is what cannot be read.
    """

    messages: list[Message]
    next_offsets: dict[int, int]
    next: str | None = None
    next_offset: int | None = None
    high_watermark: int | None = None
    skipped: list[Skipped] = []

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class BrokerVersion(msgspec.Struct, frozen=True):
    """Which broker answers."""

    name: str
    version: str
    python: str = ""


class Doors(msgspec.Struct, frozen=True):
    """Where the node's doors are: URLs of REST's and SQS's, `host:port` of Kafka's. One that is shut is None."""

    rest: str
    kafka: str | None
    sqs: str | None


class Readiness(msgspec.Struct, frozen=True):
    """Whether the node takes writes; `told` is its whole answer, which says why not."""

    ready: bool
    told: dict[str, Any]

    def __bool__(self) -> bool:
        return self.ready
