"""The cluster as its nodes see it. A node that is alone is a cluster of one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

ShardCondition = Literal["ok", "under-replicated", "at-minimum", "below-minimum", "offline"]
ClusterStatus = Literal["ok", "degraded", "unavailable"]
BalanceBy = Literal["bytes", "traffic"]


class ClusterNode(msgspec.Struct, frozen=True):
    """A node that belongs to the cluster. `gone`: its session with the metadata store has ended. `is_drained`: it gets
    no shards."""

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
    is_drained: bool = False


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
    unclean_elections: int = 0


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


class ClusterFeature(msgspec.Struct, frozen=True):
    """Something that not every version can do: on at a `level`, or off (0). `waits_for` are the nodes without which a
    higher level is not switched on."""

    name: str
    level: int
    waits_for: list[int]


class ClusterState(msgspec.Struct, frozen=True):
    """All of it, as the node that answers has it: `node`, as of the metadata store's `revision`."""

    cluster_id: str
    node: int
    controller: int | None
    revision: int
    status: ClusterStatus
    nodes: list[ClusterNode]
    shards: list[ClusterShard]
    features: list[ClusterFeature] = []


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
    node holds (`drain`), or several nodes, of which none gets what another held; or whatever makes the nodes even
    (`rebalance`), `by` what they hold or by what is written and read. With a drain, nodes of `fill` that were drained
    may hold shards again. With `dry_run` nothing is begun. `throttle` is as in `ThrottleIn`; without it, what holds
    goes on to hold."""

    shards: dict[int, list[int]] = {}
    drain: int | Annotated[list[int], msgspec.Meta(min_length=1)] | None = None
    fill: list[int] = []
    rebalance: bool = False
    by: BalanceBy = "bytes"
    dry_run: bool = False
    throttle: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None

    @property
    def drained(self) -> list[int]:
        return [self.drain] if isinstance(self.drain, int) else self.drain or []


class PlannedMove(msgspec.Struct, frozen=True):
    """`bytes` are copied to each node of `adds`; `bytes_per_s` are written and read at the moment."""

    shard: int
    before: list[int]
    after: list[int]
    adds: list[int]
    removes: list[int]
    bytes: int
    bytes_per_s: int = 0


class MovePlanOut(msgspec.Struct, frozen=True):
    """`bytes` in all, over all copies."""

    moves: list[PlannedMove]
    bytes: int
    is_begun: bool


class CopyProgress(msgspec.Struct, frozen=True):
    """Of one new replica: what it has and lacks, about, and how fast it gets that at the moment. `seconds_left` is not
    known while nothing is sent."""

    bytes_done: int
    bytes_left: int
    bytes_per_s: int
    seconds_left: float | None


class ShardMove(msgspec.Struct, frozen=True):
    """A move under way. `waits_for` are the nodes that are not in sync yet, with the share that each has; `copies` says
    the same in bytes."""

    shard: int
    before: list[int]
    after: list[int]
    waits_for: dict[int, float]
    bytes: int
    copies: dict[int, CopyProgress] = {}


class MoveListOut(msgspec.Struct, frozen=True):
    """`throttle` as in `ThrottleIn`; the rest over all moves: of the copies, the one that takes longest says how many
    seconds are left."""

    moves: list[ShardMove]
    throttle: int = 0
    bytes_left: int = 0
    bytes_per_s: int = 0
    seconds_left: float | None = None


def moves_out(moves: list[ShardMove], throttle: int) -> MoveListOut:
    copies = [copy for one in moves for copy in one.copies.values()]
    times = [copy.seconds_left for copy in copies]
    left, per_s = (sum(getattr(copy, name) for copy in copies) for name in ("bytes_left", "bytes_per_s"))
    known = [one for one in times if one is not None]
    return MoveListOut(moves, throttle, left, per_s, max(known) if known and len(known) == len(times) else None)


class ThrottleIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes a second that a node sends to replicas that moves add, all together; 0 means no limit."""

    throttle: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class CancelledOut(msgspec.Struct, frozen=True):
    shards: list[int]


class HandedOver(msgspec.Struct, frozen=True):
    """A node that is about to be stopped. `leads` are shards that nobody else can lead; `is_safe` and `reasons` are as
    in a question whether it may go."""

    node: int
    is_safe: bool
    reasons: list[str]
    leads: list[int]


class RestartSafety(msgspec.Struct, frozen=True):
    """Whether a node may go without a shard becoming unavailable; if not, `reasons` say why."""

    node: int
    is_safe: bool
    reasons: list[str]
