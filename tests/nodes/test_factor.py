"""Topics that ask for their own number of replicas, or replicas in sync: each lies in shards of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.base.commands import Acks, Browse, InputMessage, PublishMessages, StoredAt
from goqueue.base.errors import (
    GoQueueError,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NotEnoughReplicas,
    NotLeader,
    ReplicasTimedOut,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.core.cluster.records import NOBODY
from goqueue.core.cluster.shard_choice import Placing
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.drive.topic_records import SINGLE
from tests.nodes.cluster import Nodes, patiently, run_nodes, until

UNCLEAN = "unclean.leader.election.enable"
Run = Callable[[Callable[[Nodes], Awaitable[None]]], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def runner(story: Callable[[Nodes], Awaitable[None]]) -> None:
        run_nodes(story, monkeypatch)

    return runner


async def create(nodes: Nodes, name: str, partitions: int, placing: Placing, **config: object) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await nodes.any.topics.create(name, partitions, settings, placing=placing)
    await nodes.until_known(name)


def replicas(nodes: Nodes, topic: str) -> list[tuple[int, ...]]:
    image = nodes.any.metadata.image
    record = image.topic(topic)
    assert record is not None
    return [image.shard(record.shard_of(number)).replicas for number in range(record.partitions)]


async def publish(nodes: Nodes, at: TopicPartition, value: bytes, acks: Acks = Acks.ALL) -> int:
    async def once() -> int:
        broker = nodes.leader_of(at)
        message = InputMessage(None, value, partition=at.partition)
        (result,) = await broker.publish.messages(PublishMessages(at.topic, [message], acks))
        if isinstance(result, GoQueueError):
            raise result
        assert isinstance(result, StoredAt)
        return result.offset

    return int(await patiently(once))


async def values(nodes: Nodes, at: TopicPartition) -> list[bytes]:
    async def once() -> list[bytes]:
        page = await nodes.leader_of(at).browsing.read(Browse(at.topic, {at.partition: 0}, 100))
        return [bytes(one.value or b"") for one in page.messages]

    found: Any = await patiently(once)
    return list(found)


def test_a_topic_gets_as_many_replicas_as_it_asks_for_on_different_nodes(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        shards = len(nodes.any.metadata.image.shards())
        for factor in (1, 2):
            await create(nodes, f"of{factor}", 6, Placing(factor))
            assert {len(one) for one in replicas(nodes, f"of{factor}")} == {factor}
            assert {one[0] for one in replicas(nodes, f"of{factor}")} == {0, 1, 2}, "every node leads some"
            for number in range(6):
                at = TopicPartition(f"of{factor}", number)
                assert await publish(nodes, at, b"v") == 0 and await values(nodes, at) == [b"v"]
        await create(nodes, "usual", 4, Placing())
        assert {len(one) for one in replicas(nodes, "usual")} == {3}
        assert len(nodes.any.metadata.image.shards()) == shards + 6
        await create(nodes, "again", 9, Placing(1))
        assert len(nodes.any.metadata.image.shards()) == shards + 6, "shards of that kind are used again"

    run(story)


def test_new_shards_have_queues_delays_and_a_partition_of_every_own_topic(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await create(nodes, "t", 3, Placing(2), min_insync_replicas=1)
        for broker in nodes.brokers.values():
            await until(lambda broker=broker: _own_are_whole(broker))  # type: ignore[misc]
        at = nodes.place_at(2, "t")
        await publish(nodes, at, b"job")
        broker = nodes.leader_of(at)
        taken = await broker.leasing.take(Take("workers", (at,), "me", 1, 30_000, 0))
        assert len(taken) == 1
        nodes.kill(2)
        await until(lambda: nodes.any.node.shard_map.leader_of(at) != 2)
        await nodes.until_led()
        again = await patiently(lambda: nodes.leader_of(at).leasing.take(Take("workers", (at,), "other", 1, 30_000, 0)))
        assert not again, "the lease still runs"
        assert await values(nodes, at) == [b"job"]

    run(story)


def _own_are_whole(broker: Any) -> bool:
    shards = broker.metadata.image.shards()
    own = [broker.table.get(name) for name in OWN_TOPICS if name not in SINGLE]
    return all(one is not None and len(one.partitions) == len(shards) for one in own)


def test_everything_is_there_after_all_nodes_were_started_again(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await create(nodes, "t", 3, Placing(1))
        places = [TopicPartition("t", number) for number in range(3)]
        for at in places:
            await publish(nodes, at, b"before")
        await nodes.stop_all()
        nodes.brokers.clear()
        await nodes.start_all()
        for at in places:
            await publish(nodes, at, b"after")
            assert await values(nodes, at) == [b"before", b"after"]

    run(story)


def test_one_replica_alone_waits_for_its_node_and_the_rest_goes_on(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await create(nodes, "alone", 3, Placing(1))
        await create(nodes, "usual", 1, Placing())
        at = nodes.place_at(1, "alone")
        await publish(nodes, at, b"kept")
        nodes.kill(1)
        shard = nodes.any.node.shard_map.of_partition(at)
        await until(lambda: nodes.any.metadata.image.shard(shard).leader == NOBODY)
        await publish(nodes, TopicPartition("usual", 0), b"v")
        with pytest.raises(NotLeader):
            nodes.leader_of(at)
        await nodes.start(1)
        await nodes.until_led()
        assert await values(nodes, at) == [b"kept"]

    run(story)


def test_replicas_can_be_named(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        chosen = ((2, 0), (1, 2), (2, 0))
        await create(nodes, "t", 3, Placing(nodes=chosen))
        assert tuple(replicas(nodes, "t")) == chosen
        record = nodes.any.metadata.image.topic("t")
        assert record is not None and record.shards[0] == record.shards[2]
        for other in ((0,), (0, 1, 2)):
            with pytest.raises(InvalidReplicaAssignment, match="has 2 replicas of each partition"):
                await nodes.any.topics.alter("t", {}, 4, Placing(nodes=(other,)))
        await nodes.any.topics.alter("t", {}, 4, Placing(nodes=((0, 1),)))
        assert tuple(replicas(nodes, "t")) == (*chosen, (0, 1))
        await nodes.any.topics.alter("t", {}, 6)
        assert {len(one) for one in replicas(nodes, "t")} == {2}
        for wrong in ((0, 0), (0, 9), ()):
            with pytest.raises(InvalidReplicaAssignment):
                await nodes.any.topics.create("wrong", 1, {}, placing=Placing(nodes=(wrong,)))

    run(story)


def test_what_cannot_be_is_refused_and_leaves_nothing(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        before = nodes.any.metadata.image.shards()
        with pytest.raises(InvalidReplicationFactor):
            await nodes.any.topics.create("t", 1, {}, placing=Placing(4))
        with pytest.raises(InvalidConfig):
            await nodes.any.topics.create("t", 1, {"min.insync.replicas": 2}, placing=Placing(1))
        with pytest.raises(InvalidConfig):
            await nodes.any.topics.create("t", 1, {"min.insync.replicas": 4})
        assert nodes.any.topics.find("t") is None and nodes.any.metadata.image.shards() == before
        await create(nodes, "t", 1, Placing(2))
        with pytest.raises(InvalidConfig):
            await nodes.any.topics.alter("t", {"min.insync.replicas": 3}, None)
        await nodes.any.topics.alter("t", {"min.insync.replicas": 1}, None)
        assert nodes.any.topics.describe("t").overrides == {"min.insync.replicas": "1"}

    run(story)


def test_two_topics_made_at_once_at_two_nodes_do_not_get_in_each_others_way(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        made = [
            nodes.run_at(node, broker.topics.create(f"t{node}", 2, {}, placing=Placing(1 + node % 2)))
            for node, broker in nodes.brokers.items()
        ]
        await asyncio.gather(*made)
        for node in range(3):
            await nodes.until_known(f"t{node}")
            assert {len(one) for one in replicas(nodes, f"t{node}")} == {1 + node % 2}

    run(story)


def test_every_topic_has_its_own_minimum_in_sync(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        for minimum in (1, 2, 3):
            await create(nodes, f"min{minimum}", 1, Placing(nodes=((0, 1, 2),)), min_insync_replicas=minimum)
        places = {minimum: TopicPartition(f"min{minimum}", 0) for minimum in (1, 2, 3)}
        shard = nodes.any.node.shard_map.of_partition(places[1])
        assert {nodes.any.node.shard_map.of_partition(at) for at in places.values()} == {shard}
        for at in places.values():
            await publish(nodes, at, b"all")
        nodes.kill(2)
        await until(lambda: len(nodes.any.metadata.image.shard(shard).in_sync) == 2)
        with pytest.raises(NotEnoughReplicas):
            await publish(nodes, places[3], b"two")
        await publish(nodes, places[2], b"two")
        nodes.kill(1)
        await until(lambda: len(nodes.any.metadata.image.shard(shard).in_sync) == 1)
        for minimum in (2, 3):
            with pytest.raises(NotEnoughReplicas):
                await publish(nodes, places[minimum], b"one")
        await publish(nodes, places[1], b"one")
        assert await values(nodes, places[1]) == [b"all", b"one"]
        assert await values(nodes, places[2]) == [b"all", b"two"]

    run(story)


def test_a_lowered_minimum_is_never_at_the_cost_of_what_is_acknowledged(run: Run) -> None:
    """Who is eligible lacks what is written from then on: it must not be elected any more."""

    async def story(nodes: Nodes) -> None:
        config = {"min_insync_replicas": 2}
        await create(nodes, "t", 1, Placing(nodes=((0, 1),)), **config)
        at = TopicPartition("t", 0)
        shard = nodes.any.node.shard_map.of_partition(at)
        await publish(nodes, at, b"both")
        nodes.kill(1, "kept")
        await until(lambda: nodes.any.metadata.image.shard(shard).in_sync == (0,))
        assert nodes.any.metadata.image.shard(shard).eligible == (1,)
        await nodes.brokers[0].topics.alter("t", {"min.insync.replicas": 1}, None)
        await publish(nodes, at, b"one")
        assert nodes.any.metadata.image.shard(shard).eligible == ()

    run(story)


def test_replicas_that_take_too_long_are_told_of(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await create(nodes, "t", 1, Placing(nodes=((0, 1),)))
        at = TopicPartition("t", 0)
        await publish(nodes, at, b"v")
        nodes.kill(1)
        broker = nodes.brokers[0]
        (result,) = await broker.publish.messages(
            PublishMessages("t", [InputMessage(None, b"w", partition=0)], Acks.LEADER)
        )
        assert isinstance(result, StoredAt)
        with pytest.raises(ReplicasTimedOut):
            await broker.publish.wait_durable(at, Acks.ALL, 100)

    run(story)


def test_an_unclean_leader_is_elected_only_where_every_topic_asks_for_it(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        both = Placing(nodes=((2, 1),))
        await nodes.any.topics.create("any", 1, {UNCLEAN: "true", "min.insync.replicas": 1}, placing=both)
        await nodes.any.topics.create("safe", 1, {"min.insync.replicas": 1}, placing=both)
        for name in ("any", "safe"):
            await nodes.until_known(name)
        places = {name: TopicPartition(name, 0) for name in ("any", "safe")}
        shards = {name: nodes.any.node.shard_map.of_partition(at) for name, at in places.items()}
        assert shards["any"] != shards["safe"], "what is safe does not lie where something may be lost"
        for at in places.values():
            await publish(nodes, at, b"both")
        nodes.kill(1)
        await until(lambda: all(nodes.any.metadata.image.shard(one).in_sync == (2,) for one in shards.values()))
        for at in places.values():
            await publish(nodes, at, b"one")
        nodes.kill(2)
        await nodes.start(1)
        image = nodes.any.metadata.image
        await until(lambda: image.shard(shards["any"]).leader == 1)
        record = image.shard(shards["any"])
        assert (record.unclean, record.unclean_epoch, record.in_sync) == (1, record.epoch, (1,))
        assert await values(nodes, places["any"]) == [b"both"]
        assert image.shard(shards["safe"]).leader == NOBODY and image.shard(shards["safe"]).unclean == 0
        await nodes.start(2)
        await nodes.until_led()
        assert await values(nodes, places["safe"]) == [b"both", b"one"], "nothing was lost there"
        assert await values(nodes, places["any"]) == [b"both"]
        await until(lambda: len(image.shard(shards["any"]).in_sync) == 2)

    run(story)
