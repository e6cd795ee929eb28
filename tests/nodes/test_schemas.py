"""Schemas are known at every node, also where their shard is not kept."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.api.cluster import MoveIn
from goqueue.broker import Broker
from goqueue.drive.partition import Partition
from goqueue.drive.topic_records import SINGLE_SHARD
from goqueue.node_services import NodeServices
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_moves import is_settled, moves_of
from tests.service.test_schemas import PRICE, json_schema


def _outsider(nodes: Nodes) -> int:
    """A node without a replica of the shard that holds the schemas."""
    return next(node for node in nodes.brokers if node not in _replicas(nodes))


def _replicas(nodes: Nodes) -> tuple[int, ...]:
    return nodes.any.metadata.image.shard(SINGLE_SHARD).replicas


def _knows(broker: Broker, subject: str) -> bool:
    return subject in broker.schemas.table.subjects()


def test_a_node_without_a_replica_of_their_shard_knows_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        node = _outsider(nodes)
        broker = nodes.brokers[node]
        await patiently(lambda: broker.routed(broker.schemas).register("prices", json_schema(PRICE)))
        assert _knows(broker, "prices"), "it is known where it was asked for when the answer comes"
        leader = nodes.any.metadata.image.shard(SINGLE_SHARD).leader
        nodes.kill(leader)
        await nodes.until_led()
        await patiently(lambda: broker.routed(broker.schemas).register("sizes", json_schema(PRICE)))
        assert _knows(broker, "sizes"), "the next leader is followed"
        assert node not in nodes.any.metadata.image.shard(SINGLE_SHARD).in_sync

    run_nodes(story, monkeypatch, count=4)


def test_a_node_that_gets_the_shard_of_the_schemas_and_gives_it_up_knows_them_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        node = _outsider(nodes)
        broker = nodes.brokers[node]
        await patiently(lambda: broker.routed(broker.schemas).register("prices", json_schema(PRICE)))
        before = _replicas(nodes)
        for target in ((node, *before[1:]), before):
            await moves_of(nodes.any).begin(MoveIn(shards={SINGLE_SHARD: list(target)}))
            await until(lambda: is_settled(nodes) and set(_replicas(nodes)) == set(target))  # noqa: B023
            assert _knows(broker, "prices")
        await patiently(lambda: broker.routed(broker.schemas).register("sizes", json_schema(PRICE)))
        assert _knows(broker, "sizes")

    run_nodes(story, monkeypatch, count=4)


def test_the_next_leader_knows_every_schema_before_it_gives_out_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was acknowledged a moment before its leader died, where reading their log takes a while."""
    load = NodeServices.load_schemas

    async def load_slowly(self: NodeServices, partition: Partition) -> None:
        await asyncio.sleep(0.5)
        await load(self, partition)

    async def story(nodes: Nodes) -> None:
        leader = nodes.any.metadata.image.shard(SINGLE_SHARD).leader
        await nodes.brokers[leader].schemas.register("first", json_schema(PRICE))
        last = await nodes.brokers[leader].schemas.register("last", json_schema('{"type": "string"}'))
        nodes.kill(leader)
        broker = nodes.any
        given = await patiently(lambda: broker.routed(broker.schemas).register("next", json_schema('{"type": "null"}')))
        assert given.id > last.id
        for one in nodes.brokers.values():
            await until(lambda: _knows(one, "next"))  # noqa: B023
            assert _knows(one, "last")
            assert one.schemas.table.version("last", 1).id == last.id

    monkeypatch.setattr(NodeServices, "load_schemas", load_slowly)
    run_nodes(story, monkeypatch)
