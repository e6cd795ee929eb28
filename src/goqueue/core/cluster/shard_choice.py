"""Which shards a topic's partitions go to, and which have to be made for it. Pure.

How many nodes hold a shard, and which, is a property of the shard. A topic that asks for another number than is usual,
or for leaders that may lack something, gets shards of its own kind, which keep no ids: in those all topics want the
same, so that what the broker keeps about them (leases, delayed messages) can be kept as they want it too.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from goqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.base.limits import SHARDS_ON_DEMAND_MAX
from goqueue.base.names import INTERNAL
from goqueue.core.cluster.formation import new_shard, spread
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import ShardRecord, TopicRecord

MINIMUM: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"


class Placing(NamedTuple):
    """What is asked for partitions that are new: so many replicas (0: as is usual), or these nodes for each, of which
    the first is to lead."""

    factor: int = 0
    nodes: tuple[tuple[int, ...], ...] = ()


AS_USUAL: Final = Placing()


def checked_factor(factor: int) -> int:
    if factor < 1:
        raise InvalidReplicationFactor(f"A topic has one replica or more, not {factor}.", field="replication_factor")
    return factor


class ShardWish(NamedTuple):
    """What a topic says of its shards: settings as text, empty if it says nothing."""

    unclean: str
    minimum: str


def wish_of(topic: TopicRecord) -> ShardWish:
    return ShardWish(topic.overrides.get(UNCLEAN, ""), topic.overrides.get(MINIMUM, ""))


def wishes(image: Image) -> Mapping[int, set[ShardWish]]:
    """Of the users' topics in each shard."""
    found: dict[int, set[ShardWish]] = defaultdict(set)
    for topic in image.topics():
        if topic.name not in INTERNAL:
            for shard in {topic.shard_of(partition) for partition in range(topic.partitions)}:
                found[shard].add(wish_of(topic))
    return found


def may_be_unclean(image: Image, shard: int, default: bool) -> bool:
    """Every topic in the shard asks for it; where ids are kept, or nothing is, the whole cluster has to."""
    said = {one.unclean == "true" if one.unclean else default for one in wishes(image).get(shard, ())}
    return False not in said and (default or (bool(said) and shard not in image.id_shards()))


def emptiest(image: Image, among: Sequence[int], count: int) -> list[int]:
    """So many times the one that holds the fewest partitions."""
    heap = [(image.partitions_in(shard), shard) for shard in among] or [(0, 0)]
    heapq.heapify(heap)
    chosen: list[int] = []
    for _ in range(count):
        held, shard = heap[0]
        chosen.append(shard)
        heapq.heapreplace(heap, (held + 1, shard))
    return chosen


class ShardChoice:
    """For one topic of a cluster."""

    def __init__(self, image: Image, wish: ShardWish) -> None:
        self.added: dict[int, ShardRecord] = {}
        self._image = image
        self._wish = wish
        self._wishes = wishes(image)
        known = {node: found for node in image.members() if (found := image.member(node)) is not None}
        drained = {node for node, found in known.items() if found.is_drained}
        self._living = {node: found for node, found in image.nodes().items() if node not in drained}
        self._members = {node: found for node, found in known.items() if node not in drained}

    @property
    def nodes(self) -> set[int]:
        """All that may hold something, whether they live or not."""
        return {*self._living, *self._members}

    def checked(self, factor: int) -> int:
        if factor > len(self.nodes):
            raise InvalidReplicationFactor(
                f"{factor} replicas need as many nodes, and there are {len(self.nodes)}.", field="replication_factor"
            )
        return factor

    def usual(self, factor: int) -> int:
        """So many, if there are shards that have them or get them as nodes join; else as many as can be."""
        has_some = any(self._has(shard, factor) for shard in self._image.shards())
        return factor if has_some else min(factor, len(self.nodes))

    def spread_out(self, factor: int, count: int) -> list[int]:
        """For so many partitions, with so many replicas each."""
        among = [shard for shard in self._image.shards() if self._has(shard, factor)]
        fitting = [shard for shard in among if self._fits(shard)]
        if not self._image.id_shards().intersection(fitting):
            for _ in range(min(count, len(self.nodes)) - len(fitting)):
                if self._is_full:
                    break
                fitting.append(self._add(self._rotated(factor), factor))
        return emptiest(self._image, fitting or among or self._none_left(), count)

    def on(self, nodes: Sequence[int]) -> int:
        """For a partition on exactly these."""
        if not nodes or len(set(nodes)) != len(nodes) or not self.nodes.issuperset(nodes):
            raise InvalidReplicaAssignment(
                f"Replicas are on different nodes of {sorted(self.nodes)}, not on {list(nodes)}.", field="replicas"
            )
        wanted = tuple(nodes)
        for shard in self._image.shards():
            if self._stays_on(shard, wanted) and self._fits(shard):
                return shard
        for shard, record in self.added.items():
            if record.replicas == wanted:
                return shard
        return self._none_left()[0] if self._is_full else self._add(wanted, len(wanted))

    def _stays_on(self, shard: int, nodes: tuple[int, ...]) -> bool:
        """Where it is when nothing moves, and it has all the replicas that it is to have."""
        record = self._image.shard(shard)
        return (record.target or record.replicas) == nodes and record.wanted == len(nodes)

    def _has(self, shard: int, factor: int) -> bool:
        return self._image.shard(shard).wanted == factor

    def _fits(self, shard: int) -> bool:
        """Nobody in it wants it otherwise."""
        if shard in self._image.id_shards():
            return not self._wish.unclean
        return not (said := self._wishes.get(shard)) or said == {self._wish}

    @property
    def _number(self) -> int:
        return len(self._image.shards()) + len(self.added)

    @property
    def _is_full(self) -> bool:
        return self._number >= SHARDS_ON_DEMAND_MAX

    def _none_left(self) -> list[int]:
        raise InvalidReplicationFactor(
            f"The cluster has {self._number} shards, which is all that it may, and none of them is like that.",
            field="replication_factor",
        )

    def _rotated(self, factor: int) -> tuple[int, ...]:
        """Nodes that live are enough if they can be, and another one leads each time."""
        nodes = spread(self._living)
        if len(nodes) < factor:
            nodes += spread({node: one for node, one in self._members.items() if node not in self._living})
        return tuple(nodes[(self._number + step) % len(nodes)] for step in range(min(factor, len(nodes))))

    def _add(self, replicas: tuple[int, ...], factor: int) -> int:
        """One that has fewer nodes than it is to have gets them as they join."""
        number, made = self._number, new_shard(replicas, self._living)
        self.added[number] = made if len(replicas) == factor else msgspec.structs.replace(made, factor=factor)
        return number
