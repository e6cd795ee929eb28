"""Names and places in chosen shards of a broker that has several."""

from __future__ import annotations

from itertools import count

from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker


def name_in(broker: Broker, shard: int, prefix: str = "p") -> str:
    """An id that is kept in this shard."""
    return next(name for number in count() if broker.node.shard_map.of_id(name := f"{prefix}{number}") == shard)


def shards_of(broker: Broker, topic: str) -> list[int]:
    """Of its partitions, in order."""
    partitions = range(len(broker.topics.require(topic).partitions))
    return [broker.node.shard_map.of_partition(TopicPartition(topic, number)) for number in partitions]


def kept_in(broker: Broker, transactional_id: str) -> list[int]:
    """The shards whose coordinators know the id."""
    return [shard for shard, one in enumerate(broker.txn_coordinators) if one.table.get(transactional_id) is not None]
