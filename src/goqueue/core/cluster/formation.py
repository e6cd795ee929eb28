"""How a new cluster begins: shards are placed when enough nodes are there. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import NamedTuple

from goqueue.base.limits import ID_SLOTS
from goqueue.base.metadata import ABSENT, Commit, Revision
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import (
    CLUSTER,
    CONTROLLER,
    NOBODY,
    SHARDS,
    SLOTS,
    ClusterRecord,
    MemberRecord,
    NodeRecord,
    ShardRecord,
    SlotTable,
    encode,
)


class Formation(NamedTuple):
    """What a cluster is to have when it begins."""

    nodes: int
    replication_factor: int
    shards: int


def forming(
    image: Image, living: Mapping[int, NodeRecord], wanted: Formation, cluster_id: str, controller: Revision
) -> Commit | None:
    """All of it in one commit; None if there is a cluster already, or too few nodes yet."""
    if image.shards() or len(living) < wanted.nodes:
        return None
    nodes = spread(living)
    puts = {CLUSTER: encode(ClusterRecord(image.cluster_id or cluster_id))}
    for shard in range(wanted.shards):
        puts[f"{SHARDS}{shard}"] = encode(_placed(shard, nodes, living, wanted.replication_factor))
    puts[SLOTS] = encode(SlotTable(tuple(slot % wanted.shards for slot in range(ID_SLOTS))))
    modified = {key: image.modified(key) if key == CLUSTER else ABSENT for key in puts}
    return Commit(puts, modified=modified, created={CONTROLLER: controller})


def spread(living: Mapping[int, NodeRecord | MemberRecord]) -> list[int]:
    """Nodes in an order in which neighbours are in different racks, as far as that goes."""
    racks: dict[str, deque[int]] = defaultdict(deque)
    for node in sorted(living):
        racks[living[node].rack].append(node)
    ordered: list[int] = []
    while racks:
        for rack in sorted(racks, key=lambda name: (-len(racks[name]), name)):
            ordered.append(racks[rack].popleft())
            if not racks[rack]:
                del racks[rack]
    return ordered


def _placed(shard: int, nodes: list[int], living: Mapping[int, NodeRecord], factor: int) -> ShardRecord:
    return new_shard(tuple(nodes[(shard + step) % len(nodes)] for step in range(min(factor, len(nodes)))), living)


def new_shard(replicas: tuple[int, ...], living: Mapping[int, NodeRecord]) -> ShardRecord:
    """Nobody leads it yet. It is empty, so that everybody who lives has all of it."""
    starts = {node: living[node].incarnation for node in replicas if node in living}
    return ShardRecord(NOBODY, 0, replicas, tuple(starts), starts=starts)
