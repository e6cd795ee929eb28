"""Nodes are evened out by themselves, a little at a time, and only if that is asked for."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from goqueue.api.cluster import MoveIn
from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.service.auto_balance import AutoBalance
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_moves import is_settled, moves_of

SETTINGS = ClusterSettings(store="etcd://sim:1", balance="leaders", balance_interval_ms=10_000)


def balancing(broker: Broker, settings: ClusterSettings = SETTINGS) -> AutoBalance:
    sizes = broker.routed(broker.shard_sizes)
    return AutoBalance(settings, broker.node.identity.node_id, broker.metadata.image, sizes, moves_of(broker))


async def load(nodes: Nodes, places: list[TopicPartition], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        for at in places:
            message = InputMessage(None, bytes(200_000), partition=at.partition)
            await patiently(lambda: nodes.leader_of(at).publish.messages(PublishMessages(at.topic, [message])))  # noqa: B023
        await asyncio.sleep(0.4)


def test_leaders_of_busy_shards_part_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("busy", 6)
        image, record = nodes.any.metadata.image, nodes.any.topics.require("busy").record
        first = image.shard(record.shard_of(0)).leader
        led = [one for one in range(6) if image.shard(record.shard_of(one)).leader == first]
        assert len(led) == 2
        places = [TopicPartition("busy", one) for one in led]
        await asyncio.sleep(12)  # nodes are there for long enough to be given something
        await load(nodes, places, 8)
        sizes = {one.shard: one for one in await nodes.any.routed(nodes.any.shard_sizes).led()}
        busy = [sizes[record.shard_of(at.partition)].written_per_s for at in places]
        assert all(200_000 < one < 800_000 for one in busy), busy
        planned = await moves_of(nodes.any).plan(MoveIn(rebalance=True, by="traffic"))
        assert any(one.bytes_per_s > 200_000 for one in planned.moves) and planned.bytes == 0
        begun = [await balancing(broker).look() for broker in nodes.brokers.values()]
        (plan,) = [one for one in begun if one]
        assert len(plan) == 1, "one at a time, by the controller's node alone"
        await until(lambda: is_settled(nodes))
        await until(lambda: len({image.shard(record.shard_of(at.partition)).leader for at in places}) == 2)
        parted = {record.shard_of(at.partition) for at in places}
        await load(nodes, places, 6)
        for broker in nodes.brokers.values():
            assert not parted & (await balancing(broker).look()).keys(), "they stay where they are"

    run_nodes(story, monkeypatch)


def test_nothing_is_moved_while_a_node_is_about_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three nodes each shard would be left with two replicas, and never be asked to have three again."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("busy", 6)
        image, record = nodes.any.metadata.image, nodes.any.topics.require("busy").record
        member = nodes.brokers[2].node.member
        assert member is not None
        await asyncio.sleep(12)
        await member.hand_over()
        first = [one for one in range(6) if image.shard(record.shard_of(one)).replicas[0] == 0]
        await load(nodes, [TopicPartition("busy", one) for one in first], 8)
        eager = msgspec.structs.replace(SETTINGS, balance="all", balance_by="traffic", balance_slack_percent=1)
        begun = [await balancing(broker, eager).look() for broker in nodes.brokers.values()]
        await until(lambda: is_settled(nodes))
        assert all(len(image.shard(shard).replicas) == 3 for shard in image.shards()), begun

    run_nodes(story, monkeypatch)


def test_nothing_is_moved_while_a_node_is_away_or_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("busy", 6)
        nodes.kill(2)
        await until(lambda: 2 not in nodes.any.metadata.image.nodes())
        eager = msgspec.structs.replace(SETTINGS, balance="all", balance_by="bytes", balance_slack_percent=1)
        for broker in nodes.brokers.values():
            assert await balancing(broker, eager).look() == {}
        off = balancing(nodes.any, ClusterSettings(store="etcd://sim:1"))
        off.start()
        await off.stop()

    run_nodes(story, monkeypatch)
