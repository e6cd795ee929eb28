"""Topics and their partitions."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset


class DamagedOffsets(msgspec.Struct, frozen=True):
    first_offset: Offset
    last_offset: Offset


UNKNOWN: Final = -1


class PartitionInfo(msgspec.Struct, frozen=True):
    """One partition: readable are the offsets from `start_offset` up to, not including, `high_watermark`. They are -1
    while the partition's leader does not answer."""

    partition: int
    start_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    messages: int
    size_bytes: int
    segments: int = 0
    leader: int = 0
    leader_epoch: int = 0
    writable: bool = True
    damaged: list[DamagedOffsets] = []


class TopicSummary(msgspec.Struct, frozen=True):
    """One line of a list of topics."""

    name: str
    id: str
    num_partitions: int
    messages: int
    size_bytes: int
    created_ms: Millis


class TopicInfo(msgspec.Struct, frozen=True):
    """One topic. `config` is every setting in force, `overrides` those its owner set."""

    name: str
    id: str
    num_partitions: int
    created_ms: Millis
    messages: int
    size_bytes: int
    config: dict[str, str]
    overrides: dict[str, str]
    partitions: list[PartitionInfo]
    replication_factor: int = 1


class TopicIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    num_partitions: int | None = None
    config: dict[str, int | float | str] = {}
    replication_factor: int | None = None


class TopicChangeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    config: dict[str, int | float | str | None] = {}
    num_partitions: int | None = None


class PartitionsIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many there are to be in all."""

    partitions: int


class PartitionsOut(msgspec.Struct, frozen=True):
    """`note` says what that means for the order of keys."""

    topic: str
    partitions_before: int
    partitions: int
    note: str


class TopicListOut(msgspec.Struct, frozen=True):
    topics: list[TopicSummary]


class PartitionListOut(msgspec.Struct, frozen=True):
    partitions: list[PartitionInfo]
