"""The cluster as this node sees it: nodes, shards, where partitions are, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from goqueue.api.cluster import (
    ClusterFeature,
    ClusterHealth,
    ClusterMetadata,
    ClusterNode,
    ClusterShard,
    ClusterState,
    ClusterStatus,
    PartitionPlace,
    ReplicationLag,
    ShardCondition,
    TopicPlace,
)
from goqueue.base.errors import UnknownTopic
from goqueue.core.cluster.features import waiting
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NOBODY, ShardRecord, TopicRecord
from goqueue.core.cluster.traffic import ShardTraffic
from goqueue.core.replication.copy_rates import CopyState
from goqueue.core.replication.leader import FollowerLag

_MINIMUM: Final = "min.insync.replicas"
_URLS: Final = ("rest", "sqs")


class ReplicationLags(Protocol):
    """Asked of whoever carries out what this node leads."""

    @property
    def is_held(self) -> bool:
        """The others count on this node, and what it knows of the cluster is not old."""
        ...

    def lags(self) -> Mapping[int, Mapping[int, FollowerLag]]:
        """Of followers, by shard and node."""
        ...


class LedShards(ReplicationLags, Protocol):
    """What else is known of shards that this node leads."""

    def copies(self, shard: int) -> dict[int, CopyState]:
        """Of replicas that are not in sync, by node."""
        ...

    def traffic(self, shard: int) -> ShardTraffic: ...


class NoFollowers:
    """A node that is alone."""

    is_held = True

    def lags(self) -> Mapping[int, Mapping[int, FollowerLag]]:
        return {}

    def copies(self, shard: int) -> dict[int, CopyState]:
        return {}

    def traffic(self, shard: int) -> ShardTraffic:
        return ShardTraffic()


class ClusterView:
    """Looks at the image of the metadata, never changes anything."""

    def __init__(
        self,
        image: Image,
        node_id: int,
        min_in_sync: int,
        addresses: Mapping[str, str],
        lags: ReplicationLags,
        is_alone: bool,
    ) -> None:
        """`min_in_sync` is that of topics which do not say; `addresses` are this node's own doors."""
        self._image = image
        self._node_id = node_id
        self._min_in_sync = min_in_sync
        self._addresses = addresses
        self._lags = lags
        self._is_alone = is_alone

    def state(self) -> ClusterState:
        image, shards = self._image, self.shards()
        nodes = self._nodes(shards)
        status, features = self._status(nodes, shards), self._features()
        return ClusterState(
            image.cluster_id, self._node_id, self._controller, image.revision, status, nodes, shards, features
        )

    def health(self) -> ClusterHealth:
        shards = self.shards()
        nodes = self._nodes(shards)
        counted = Counter(one.condition for one in shards)
        gone = [one.id for one in nodes if one.state == "gone"]
        return ClusterHealth(
            status=self._status(nodes, shards),
            cluster_id=self._image.cluster_id,
            nodes_alive=len(nodes) - len(gone),
            nodes_gone=len(gone),
            shards=len(shards),
            under_replicated=sum(len(one.in_sync) < len(one.replicas) for one in shards),
            at_minimum=counted["at-minimum"],
            below_minimum=counted["below-minimum"],
            offline=counted["offline"],
            problems=[*([] if self._lags.is_held else [_CUT_OFF]), *_problems(gone, shards, self._controller)],
        )

    def metadata(self, topic: str | None = None) -> ClusterMetadata:
        """All topics, or one."""
        image = self._image
        if topic is not None and image.topic(topic) is None:
            raise UnknownTopic(f"There is no topic {topic!r}.", field="topic")
        topics = [one for one in image.topics() if topic in (None, one.name)]
        return ClusterMetadata(image.cluster_id, self._controller, image.revision, [self._place(one) for one in topics])

    def nodes(self) -> list[ClusterNode]:
        return self._nodes(self.shards())

    def shards(self) -> list[ClusterShard]:
        lags, minimums = self._lags.lags(), self._minimums()
        return [self._shard(number, minimums[number], lags.get(number, {})) for number in self._image.shards()]

    def _features(self) -> list[ClusterFeature]:
        now, waits = self._image.features(), waiting(self._image)
        return [ClusterFeature(name, now.get(name, 0), waits.get(name, [])) for name in sorted({*now, *waits})]

    def _status(self, nodes: Sequence[ClusterNode], shards: Sequence[ClusterShard]) -> ClusterStatus:
        return _status(nodes, shards) if self._lags.is_held else "unavailable"

    # --- parts -----------------------------------------------------------------------------------------------

    @property
    def _controller(self) -> int | None:
        if (found := self._image.controller) is not None:
            return found.node
        return self._node_id if self._is_alone else None

    def _minimums(self) -> dict[int, int]:
        """Of each shard: the largest that one of its topics asks for, of those that do not say at most all."""
        image = self._image
        found = {shard: min(self._min_in_sync, image.shard(shard).wanted) for shard in image.shards()}
        for topic in self._image.topics():
            if (asked := topic.overrides.get(_MINIMUM)) is not None:
                for shard in map(topic.shard_of, range(topic.partitions)):
                    found[shard] = max(found.get(shard, 0), int(asked))
        return found

    def _leader(self, record: ShardRecord) -> int | None:
        """None also if the node that leads is gone, and nobody was elected yet."""
        return record.leader if record.leader != NOBODY and record.leader in self._image.nodes() else None

    def _shard(self, number: int, minimum: int, lags: Mapping[int, FollowerLag]) -> ClusterShard:
        record = self._image.shard(number)
        leader, minimum = self._leader(record), record.needed(minimum)
        return ClusterShard(
            shard=number,
            condition=condition_of(record, leader, minimum),
            leader=leader,
            epoch=record.epoch,
            replicas=list(record.replicas),
            in_sync=list(record.in_sync),
            eligible=list(record.eligible),
            min_in_sync=minimum,
            partitions=self._image.partitions_in(number),
            unclean_elections=record.unclean,
            lag={node: ReplicationLag(lag.messages, lag.ms) for node, lag in lags.items()},
        )

    def _nodes(self, shards: Sequence[ClusterShard]) -> list[ClusterNode]:
        living = self._image.nodes()
        known = {*living, *self._image.members(), *(node for one in shards for node in one.replicas)}
        return [self._node(number, shards) for number in sorted(known)]

    def _node(self, number: int, shards: Sequence[ClusterShard]) -> ClusterNode:
        record, member = self._image.nodes().get(number), self._image.member(number)
        held = [one for one in shards if number in one.replicas]
        leads = sum(one.leader == number for one in held)
        addresses = {} if record is None else dict(record.addresses)
        if number == self._node_id:
            addresses = {**self._addresses, **addresses}
        return ClusterNode(
            id=number,
            state="gone" if record is None else "alive",
            is_controller=number == self._controller,
            leads=leads,
            follows=len(held) - leads,
            in_sync=sum(number in one.in_sync for one in held),
            version="" if record is None else record.version,
            rack="" if record is None else record.rack,
            incarnation="" if record is None else record.incarnation,
            addresses={name: _shown(name, address) for name, address in addresses.items()},
            is_drained=member is not None and member.is_drained,
        )

    def _place(self, topic: TopicRecord) -> TopicPlace:
        return TopicPlace(topic.name, topic.id, [self._partition(topic, one) for one in range(topic.partitions)])

    def _partition(self, topic: TopicRecord, partition: int) -> PartitionPlace:
        number = topic.shard_of(partition)
        record = self._image.shard(number)
        held = list(record.replicas), list(record.in_sync)
        return PartitionPlace(partition, number, self._leader(record), record.epoch, *held)


def condition_of(record: ShardRecord, leader: int | None, minimum: int) -> ShardCondition:
    """`at-minimum`: the next replica that is lost stops writes. With no replica missing that is how it was meant."""
    if leader is None:
        return "offline"
    if len(record.in_sync) < minimum:
        return "below-minimum"
    if len(record.in_sync) == len(record.replicas):
        return "ok"
    return "at-minimum" if len(record.in_sync) == minimum else "under-replicated"


def _shown(name: str, address: str) -> str:
    return f"http://{address}" if name in _URLS and "://" not in address and address != "off" else address


def _status(nodes: Sequence[ClusterNode], shards: Sequence[ClusterShard]) -> ClusterStatus:
    if any(one.condition in ("offline", "below-minimum") for one in shards):
        return "unavailable"
    is_whole = all(one.condition == "ok" for one in shards) and all(one.state == "alive" for one in nodes)
    return "ok" if is_whole else "degraded"


_CUT_OFF: Final = (
    "the node that was asked is not registered with the metadata store: it serves nothing, and what it tells may be old"
)
_WORDS: Final = {
    "offline": "nobody leads",
    "below-minimum": "too few replicas in sync to write with acks=all",
    "at-minimum": "just enough replicas in sync: the next that is lost stops writes with acks=all",
    "under-replicated": "a replica is not in sync",
}


def _problems(gone: Sequence[int], shards: Sequence[ClusterShard], controller: int | None) -> list[str]:
    found = [f"node {number} is gone" for number in gone]
    if controller is None:
        found.append("there is no controller")
    for condition, words in _WORDS.items():
        numbers = [str(one.shard) for one in shards if one.condition == condition]
        if numbers:
            found.append(f"{words}: shard{'s' * (len(numbers) > 1)} {', '.join(numbers)}")
    return found
