"""Which shards a topic gets, by the number of replicas and the nodes that it asks for: also while shards move."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from goqueue.base.errors import InvalidConfig, InvalidReplicationFactor
from goqueue.base.metadata import Entry, Snapshot
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.moving import begun
from goqueue.core.cluster.placement import PlacedTopic, placed
from goqueue.core.cluster.records import (
    MEMBERS,
    NODES,
    SHARDS,
    SLOTS,
    TOPICS,
    MemberRecord,
    NodeRecord,
    ShardRecord,
    SlotTable,
    TopicRecord,
    encode,
)
from goqueue.core.cluster.shard_choice import Placing

USUAL = 3


def cluster(*shards: ShardRecord, nodes: int = 4, ids: int = 1, topics: Sequence[TopicRecord] = ()) -> Image:
    """The first `ids` shards are those that a cluster begins with."""
    values = {f"{SHARDS}{number}": encode(one) for number, one in enumerate(shards)}
    values |= {f"{NODES}{node}": encode(NodeRecord("", f"{node}.1")) for node in range(nodes)}
    values |= {f"{MEMBERS}{node}": encode(MemberRecord("")) for node in range(nodes)}
    values |= {TOPICS + one.name: encode(one) for one in topics}
    values[SLOTS] = encode(SlotTable(tuple(range(ids))))
    image = Image()
    image.load(Snapshot(1, {key: Entry(key, value, 1, 1) for key, value in values.items()}))
    return image


def shard(*replicas: int, target: Sequence[int] = (), factor: int = 0) -> ShardRecord:
    starts = {node: f"{node}.1" for node in replicas}
    record = ShardRecord(replicas[0], 1, replicas, replicas, starts=starts, factor=factor)
    found = begun(record, target) if target else record
    assert found is not None
    return found


def topic(partitions: int = 2, **overrides: str) -> TopicRecord:
    return TopicRecord("t", "id", partitions, overrides, 0)


def factors(image: Image, found: PlacedTopic) -> list[int]:
    return [(found.added.get(one) or image.shard(one)).wanted for one in found.record.shards]


def test_a_shard_that_moves_has_as_many_replicas_as_it_will_have() -> None:
    moving = shard(0, 1, 2, target=(3, 1, 2))
    assert len(moving.replicas) == 4
    image = cluster(moving)
    found = placed(image, topic(), usual=USUAL)
    assert found.record.shards == (0, 0) and not found.added
    asked = placed(image, topic(1), Placing(4), USUAL)
    assert factors(image, asked) == [4] and asked.added, "it is not one of four"


def test_a_shard_that_is_given_fewer_replicas_counts_as_one_of_fewer() -> None:
    image = cluster(shard(0, 1, 2), shard(1, 2, 3, target=(1, 2)))
    found = placed(image, topic(4), Placing(2), USUAL)
    assert 1 in found.record.shards and set(factors(image, found)) == {2}
    assert placed(image, topic(4), usual=USUAL).record.shards == (0, 0, 0, 0)


def test_named_nodes_are_those_that_a_shard_moves_to() -> None:
    image = cluster(shard(0, 1, 2), shard(0, 1, target=(2, 3)))
    there = placed(image, topic(1), Placing(nodes=((2, 3),)), USUAL)
    assert there.record.shards == (1,) and not there.added
    left = placed(image, topic(1), Placing(nodes=((0, 1),)), USUAL)
    assert left.added[left.record.shards[0]].replicas == (0, 1), "the other one does not stay there"


def test_named_nodes_are_not_those_of_a_shard_that_gets_more_as_nodes_join() -> None:
    image = cluster(shard(0, factor=3), nodes=1)
    found = placed(image, topic(1), Placing(nodes=((0,),)), USUAL)
    assert found.added[1].replicas == (0,) and found.added[1].wanted == 1


def test_while_nodes_are_few_topics_go_to_the_shards_that_will_have_as_many_replicas_as_is_usual() -> None:
    image = cluster(shard(0, factor=3), nodes=1)
    found = placed(image, topic(), usual=USUAL)
    assert found.record.shards == (0, 0) and not found.added
    unclean = placed(image, topic(1, **{"unclean.leader.election.enable": "true"}), usual=USUAL)
    assert unclean.added[1].replicas == (0,) and unclean.added[1].factor == 3, "it grows too"
    with pytest.raises(InvalidReplicationFactor):
        placed(image, topic(), Placing(3), USUAL)


def test_partitions_that_are_added_are_like_those_that_are_there_while_they_move() -> None:
    before = TopicRecord("t", "id", 1, {}, 0, shards=(1,))
    image = cluster(shard(0, 1, 2), shard(0, 1, target=(2, 3)), topics=[before])
    assert set(factors(image, placed(image, topic(4), usual=USUAL))) == {2}


def test_the_minimum_in_sync_is_held_against_what_a_shard_will_have() -> None:
    image = cluster(shard(0, 1, 2), shard(0, 1, target=(2, 3)))
    asked = topic(1, **{"min.insync.replicas": "3"})
    with pytest.raises(InvalidConfig):
        placed(image, asked, Placing(nodes=((2, 3),)), USUAL)
    assert placed(image, asked, usual=USUAL).record.shards == (0,)
