"""The cluster as its nodes see it. A node that is alone is a cluster of one."""

from __future__ import annotations

from typing import Literal

import msgspec

ShardCondition = Literal["ok", "under-replicated", "at-minimum", "below-minimum", "offline"]
ClusterStatus = Literal["ok", "degraded", "unavailable"]


class ClusterNode(msgspec.Struct, frozen=True):
    """A node that belongs to the cluster. `gone`: its session with the metadata store has ended."""

    id: int
    state: Literal["alive", "gone"]
    is_controller: bool
    leads: int  # shards
    follows: int
    in_sync: int  # of those that it leads or follows
    version: str = ""
    rack: str = ""
    incarnation: str = ""
    addresses: dict[str, str] = {}


class ReplicationLag(msgspec.Struct, frozen=True):
    """How far a follower is behind its leader."""

    messages: int
    ms: int


class ClusterShard(msgspec.Struct, frozen=True):
    """One shard. `lag` is what the node that answers knows of followers: those of shards that it leads."""

    shard: int
    condition: ShardCondition
    leader: int | None
    epoch: int
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int]
    min_in_sync: int
    partitions: int
    lag: dict[int, ReplicationLag] = {}


class NodeListOut(msgspec.Struct, frozen=True):
    nodes: list[ClusterNode]


class ShardListOut(msgspec.Struct, frozen=True):
    shards: list[ClusterShard]


class ClusterHealth(msgspec.Struct, frozen=True):
    """`degraded`: everything can be read and written, but something is missing. `unavailable`: something cannot be.

    The conditions are numbers of shards. `problems` says it in words.
    """

    status: ClusterStatus
    cluster_id: str
    nodes_alive: int
    nodes_gone: int
    shards: int
    under_replicated: int
    at_minimum: int
    below_minimum: int
    offline: int
    problems: list[str]


class ClusterState(msgspec.Struct, frozen=True):
    """All of it, as the node that answers has it: `node`, as of the metadata store's `revision`."""

    cluster_id: str
    node: int
    controller: int | None
    revision: int
    status: ClusterStatus
    nodes: list[ClusterNode]
    shards: list[ClusterShard]


class PartitionPlace(msgspec.Struct, frozen=True):
    partition: int
    shard: int
    leader: int | None
    epoch: int
    replicas: list[int]
    in_sync: list[int]


class TopicPlace(msgspec.Struct, frozen=True):
    name: str
    id: str
    partitions: list[PartitionPlace]


class ClusterMetadata(msgspec.Struct, frozen=True):
    """Where each partition is."""

    cluster_id: str
    controller: int | None
    revision: int
    topics: list[TopicPlace]


class MoveIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be moved: shards that are named, each with the nodes it is to be on (the first is to lead); all that a
    node holds (`drain`); or whatever makes the nodes even (`rebalance`). With `dry_run` nothing is begun."""

    shards: dict[int, list[int]] = {}
    drain: int | None = None
    rebalance: bool = False
    dry_run: bool = False


class PlannedMove(msgspec.Struct, frozen=True):
    """`bytes` are copied to each node of `adds`."""

    shard: int
    before: list[int]
    after: list[int]
    adds: list[int]
    removes: list[int]
    bytes: int


class MovePlanOut(msgspec.Struct, frozen=True):
    """`bytes` in all, over all copies."""

    moves: list[PlannedMove]
    bytes: int
    is_begun: bool


class ShardMove(msgspec.Struct, frozen=True):
    """A move under way. `waits_for` are the nodes that are not in sync yet, with the share that each has."""

    shard: int
    before: list[int]
    after: list[int]
    waits_for: dict[int, float]
    bytes: int


class MoveListOut(msgspec.Struct, frozen=True):
    moves: list[ShardMove]


class CancelledOut(msgspec.Struct, frozen=True):
    shards: list[int]


class RestartSafety(msgspec.Struct, frozen=True):
    """Whether a node may go without a shard becoming unavailable; if not, `reasons` say why."""

    node: int
    is_safe: bool
    reasons: list[str]
