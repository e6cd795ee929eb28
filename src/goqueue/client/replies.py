"""What the broker answers, as Python users have it. Members a newer broker adds are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from goqueue.api.groups import Group, GroupLag, GroupMember, GroupSummary, OffsetMove, TopicParts
from goqueue.api.node import BrokerVersion, Doors
from goqueue.api.topics import PartitionInfo, TopicInfo, TopicSummary
from goqueue.base.commands import SkippedOffsets
from goqueue.client.messages import Message

__all__ = [
    "BrokerVersion",
    "Doors",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupSummary",
    "OffsetMove",
    "Page",
    "PartitionInfo",
    "Readiness",
    "SkippedOffsets",
    "TopicInfo",
    "TopicParts",
    "TopicSummary",
]


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
    skipped: list[SkippedOffsets] = []

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class Readiness(msgspec.Struct, frozen=True):
    """Whether the node takes writes; `told` is its whole answer, which says why not."""

    ready: bool
    told: dict[str, Any]

    def __bool__(self) -> bool:
        return self.ready
