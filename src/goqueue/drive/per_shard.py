"""One coordinator of a kind for each shard that the node holds, and which of them is asked.

A partition's shard is named by its topic's record; that of a group, a transactional id or an owner of staged sets by
the slot that the id hashes to. Both are in the image of the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from goqueue.base.errors import NotLeader, NotLoaded
from goqueue.base.ids import Epoch, TopicPartition
from goqueue.base.metadata import Change
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NOBODY, TOPICS

T = TypeVar("T")


class ShardMap:
    """Asked for every command, so it remembers partitions that are there until the metadata changes. Of names that
    clients make up it remembers nothing."""

    def __init__(self, image: Image, node: int = 0) -> None:
        """`node` is this one."""
        self.node = node
        self.led: set[int] | None = None  # the shards that this node leads; None if it is alone and leads all
        self.is_one_machine = False  # all nodes are processes of one
        self._image = image
        self.known: dict[TopicPartition, int] = {}  # partitions that were asked for, and their shards
        self.of_id = image.shard_of_id

    def lead_only(self, led: set[int]) -> None:
        """A node of a cluster: `led` are the shards that it leads, now and whenever they change."""
        self.led = led

    def is_led(self, shard: int) -> bool:
        """Whether this node answers for it."""
        return self.led is None or shard in self.led

    def all(self) -> list[int]:
        """Every shard of the cluster."""
        return self._image.shards()

    def with_ids(self) -> list[int]:
        """Those that keep groups and transactional ids."""
        return sorted(self._image.id_shards()) or self._image.shards()

    def epoch(self, shard: int) -> Epoch:
        """Of its leader; `NotLeader` if nothing is known of it."""
        return self._image.epoch(shard)

    def leader(self, shard: int) -> int:
        """The node that leads it; `NotLeader` if nobody does, or nothing is known of it."""
        leader = self._image.shard(shard).leader
        if leader == NOBODY:
            raise NotLeader(f"Nobody leads shard {shard} at the moment; try again.")
        return leader

    def leader_of(self, at: TopicPartition) -> int:
        """The node that leads a partition."""
        return self.leader(self.of_partition(at))

    def leader_of_id(self, given_id: str) -> int:
        """The node that keeps a group, a transactional id or an owner."""
        return self.leader(self.of_id(given_id))

    def leads(self, at: TopicPartition) -> bool:
        """Whether this node answers for a partition."""
        return self.led is None or self.of_partition(at) in self.led

    def leaders(self) -> list[int]:
        """All nodes that lead something; `NotLeader` if a shard has nobody that ids are kept in. What others hold that
        nobody leads cannot be asked for."""
        others = {self._image.shard(shard).leader for shard in self._image.shards()} - {NOBODY}
        return sorted({*others, *(self.leader(shard) for shard in self.with_ids())})

    def nodes(self) -> list[int]:
        """All nodes that live, as far as is known."""
        return list(self._image.nodes())

    def of_partition(self, at: TopicPartition) -> int:
        """0 for a partition that is not there: nothing is known of it in any shard."""
        shard = self.known.get(at)
        if shard is None:
            topic = self._image.topic(at.topic)
            if topic is None or not 0 <= at.partition < topic.partitions:
                return 0
            shard = self.known[at] = topic.shard_of(at.partition)
        return shard

    def metadata_changed(self, change: Change) -> None:
        self.is_one_machine = self._image.processes > 0
        if any(key.startswith(TOPICS) for key in (*(entry.key for entry in change.puts), *change.deletes)):
            self.known.clear()


class PerShard(Generic[T]):
    """Empty until `make`: how many shards there are is known when the metadata has been read."""

    __slots__ = ("_all", "_map", "_new")

    def __init__(self, shards: ShardMap, new: Callable[[int], T]) -> None:
        self._map = shards
        self._new = new
        self._all: list[T] = []

    def make(self, count: int) -> None:
        self._all += [self._new(shard) for shard in range(len(self._all), count)]

    def leads(self, at: TopicPartition) -> bool:
        return self._map.leads(at)

    def at(self, at: TopicPartition) -> T:
        """The one of a partition's shard. Asked often, and nearly always of a partition that is known."""
        shards = self._map
        shard = shards.known.get(at) if shards.led is None else None
        if shard is not None and shard < len(self._all):
            return self._all[shard]
        return self._one(shards.of_partition(at) if len(self._all) > 1 else 0)

    def of(self, given_id: str) -> T:
        """The one that keeps an id."""
        return self._one(self._map.of_id(given_id) if len(self._all) > 1 else 0)

    def _one(self, shard: int) -> T:
        """A node that is alone need not ask who leads."""
        return self._all[shard] if self._map.led is None and shard < len(self._all) else self[shard]

    def __getitem__(self, shard: int) -> T:
        """`NotLeader` if another node has it."""
        if not self._map.is_led(shard):
            raise NotLeader(f"Another node leads shard {shard}, or nobody does yet; ask for the leader again.")
        try:
            return self._all[shard]
        except IndexError:
            raise NotLoaded("The node is starting; try again in a moment.") from None

    def __iter__(self) -> Iterator[T]:
        """Those of the shards that this node leads."""
        if self._map.led is None:
            return iter(self._all)
        return (one for shard, one in enumerate(self._all) if shard in self._map.led)

    @property
    def is_whole(self) -> bool:
        """Whether all shards are this node's, whoever they are."""
        return self._map.led is None

    def items(self) -> Iterator[tuple[int, T]]:
        """The same, with their numbers."""
        return ((shard, one) for shard, one in enumerate(self._all) if self._map.is_led(shard))

    def renew(self, shard: int) -> T:
        """Another one in its place; the one that was there, for its owner to stop."""
        before, self._all[shard] = self._all[shard], self._new(shard)
        return before

    def __len__(self) -> int:
        return len(self._all)
