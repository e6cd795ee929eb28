"""A client is told the addresses of the listener that it came by: of all nodes, in every answer that has addresses."""

from __future__ import annotations

import msgspec

from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import NODES, encode
from goqueue.edge.doors import KAFKA_EXTERNAL
from goqueue.edge.kafka.calls import KafkaPeer
from goqueue.wire.messages import describe_cluster, find_coordinator
from tests.edge.kafka.one_of_three import LOCAL, TOPIC, Door, Run, record_of
from tests.edge.kafka.test_cluster import asked_for, fetched, produced

_GROUP = 0
_INSIDE = {node: (f"host{node}", 9000 + node) for node in range(3)}
_OUTSIDE = {0: ("out0", 31000), 1: ("out1", 31001), 2: _INSIDE[2]}  # node 2 has one listener


async def publish_second_listeners(door: Door) -> None:
    """Of nodes 0 and 1; node 2 is of an earlier version, or has none."""
    puts = {}
    for node in (0, 1):
        record = record_of(node)
        addresses = {**record.addresses, KAFKA_EXTERNAL: f"out{node}:{31000 + node}"}
        puts[f"{NODES}{node}"] = encode(msgspec.structs.replace(record, addresses=addresses))
    await door.broker.metadata.commit(Commit(puts))


async def addresses_told(door: Door, peer: KafkaPeer) -> dict[int, tuple[str, int]]:
    """The same in every answer."""
    found = await door.ask(asked_for(TOPIC), peer=peer)
    told = {one.node_id: (one.host, one.port) for one in found.brokers}
    cluster = await door.ask(describe_cluster.DescribeClusterRequest(), peer=peer)
    assert {one.broker_id: (one.host, one.port) for one in cluster.brokers} == told
    for node in range(3):
        name = door.id_led_by(node)
        asked = find_coordinator.FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[name])
        (one,) = (await door.ask(asked, peer=peer)).coordinators
        assert (one.node_id, one.host, one.port) == (node, *told[node])
    for request in (produced(door, 1, 2), fetched(door, 1, 2)):
        ends = (await door.ask(request, peer=peer)).node_endpoints
        assert {one.node_id: (one.host, one.port) for one in ends} == {node: told[node] for node in (1, 2)}
    return told


def test_every_answer_has_the_addresses_of_the_listener_that_the_client_came_by(told: Run) -> None:
    async def story(door: Door) -> None:
        await publish_second_listeners(door)
        assert await addresses_told(door, KafkaPeer("127.0.0.1")) == _INSIDE
        assert await addresses_told(door, KafkaPeer("127.0.0.1", listener=KAFKA_EXTERNAL)) == _OUTSIDE

    told(story)


def test_alone_a_node_is_where_the_client_reached_it_at_either_listener(told_alone: Run) -> None:
    async def story(door: Door) -> None:
        for peer in (KafkaPeer("127.0.0.1"), KafkaPeer("127.0.0.1", listener=KAFKA_EXTERNAL)):
            answer = await door.ask(asked_for(TOPIC), peer=peer)
            assert [(one.host, one.port) for one in answer.brokers] == [LOCAL]

    told_alone(story)
