"""Consumers that say where they stand read from a replica there; and nothing of it before all nodes know how."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages
from goqueue.base.features import NEAREST_REPLICA
from goqueue.base.ids import TopicPartition
from goqueue.base.startup_errors import ClusterTooNew
from goqueue.format.batch import split
from goqueue.format.records import decode
from goqueue.service.cluster_view import ClusterView
from goqueue.wire import codes
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.nodes.cluster import Nodes, run_nodes, until
from tests.nodes.test_kafka import KafkaClient
from tests.nodes.test_queues import jobs

NEW_VERSION = 11  # the first that knows of replicas
RACKS = {0: "a", 1: "b", 2: "c"}


def fetch(topic: str, at: TopicPartition, offset: int, rack: str = "", wait_ms: int = 0) -> FetchRequest:
    part = FetchPartition(partition=at.partition, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[part])],
        rack_id=rack,
    )


async def asked(client: KafkaClient, node: int, at: TopicPartition, offset: int, **how: str | int) -> PartitionData:
    version = how.pop("version", NEW_VERSION)
    (topic,) = (await client.at(node, fetch(at.topic, at, offset, **how), version)).responses  # type: ignore[arg-type]
    (found,) = topic.partitions
    assert isinstance(found, PartitionData)
    return found


def values(found: PartitionData) -> list[str]:
    return [(one.value or b"").decode() for batch in split(found.records or b"") for one in decode(batch)]


async def begin(nodes: Nodes) -> tuple[TopicPartition, int, int]:
    """A partition with five messages, its leader, and another node."""
    nodes.racks = dict(RACKS)
    await nodes.start_all()
    await until(lambda: NEAREST_REPLICA in nodes.any.metadata.image.features())
    at = await jobs(nodes, 0, 5)
    leader = nodes.leader_of(at).node.identity.node_id
    return at, leader, (leader + 1) % 3


def test_a_consumer_is_sent_to_the_replica_in_its_rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        at, leader, near = await begin(nodes)
        client = KafkaClient(nodes, tmp_path)
        sent = await asked(client, leader, at, 0, rack=RACKS[near], wait_ms=30_000)
        assert (sent.error_code, sent.preferred_read_replica, sent.records or b"") == (codes.NONE, near, b"")
        await until(lambda: nodes.brokers[near].topics.require(at.topic).partition(at.partition).high_watermark == 5)
        told = await asked(client, near, at, 0, rack=RACKS[near])
        assert (told.error_code, told.high_watermark, told.preferred_read_replica) == (codes.NONE, 5, -1)
        assert values(told) == [f"m{number}" for number in range(5)]
        for rack in (RACKS[leader], "nowhere", ""):
            here = await asked(client, leader, at, 0, rack=rack)
            assert here.preferred_read_replica == -1 and len(values(here)) == 5, rack
        old = await asked(client, leader, at, 0, version=NEW_VERSION - 1)
        assert len(values(old)) == 5
        refused = await asked(client, near, at, 0, version=NEW_VERSION - 1)
        assert refused.error_code == codes.NOT_LEADER_OR_FOLLOWER, "it does not know that it may ask a follower"

    run_nodes(story, monkeypatch, is_started=False)


def test_what_is_published_is_at_the_follower_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        at, leader, near = await begin(nodes)
        client, loop = KafkaClient(nodes, tmp_path), asyncio.get_running_loop()
        assert (await asked(client, leader, at, 5, rack=RACKS[near])).preferred_read_replica == near
        for number in range(5, 9):
            waiting = asyncio.create_task(asked(client, near, at, number, rack=RACKS[near], wait_ms=30_000))
            await asyncio.sleep(1)
            began = loop.time()
            message = InputMessage(None, f"m{number}".encode(), partition=at.partition)
            await nodes.brokers[leader].publish.messages(PublishMessages(at.topic, [message], Acks.ALL))
            assert values(await waiting) == [f"m{number}"]
            assert loop.time() - began < 0.1, "it does not wait for the next fetch"

    run_nodes(story, monkeypatch, is_started=False)


def test_a_follower_that_hears_nothing_sends_readers_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        at, leader, near = await begin(nodes)
        client = KafkaClient(nodes, tmp_path)
        assert (await asked(client, near, at, 0)).error_code == codes.NONE
        assert (await asked(client, near, at, 99)).error_code == codes.NOT_LEADER_OR_FOLLOWER, "the leader says no"
        nodes.end_session(near)
        assert (await asked(client, near, at, 0)).error_code == codes.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(5)
        assert (await asked(client, near, at, 0)).error_code == codes.NONE, "it is registered again, and in sync"
        nodes.kill(leader)
        await asyncio.sleep(0.05)
        await until(lambda: leader not in nodes.brokers[near].metadata.image.nodes())
        (third,) = set(range(3)) - {leader, near}
        await asyncio.sleep(3)
        for node in (near, third):
            found = await asked(client, node, at, 0)
            assert found.error_code == codes.NONE and len(values(found)) == 5, "one leads, and the other is in sync"

    run_nodes(story, monkeypatch, is_started=False)


def test_a_reader_is_not_sent_to_a_log_that_begins_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each replica deletes by itself what is old: the follower's log may begin later, as long as a segment lasts."""

    async def story(nodes: Nodes) -> None:
        at, leader, near = await begin(nodes)
        client = KafkaClient(nodes, tmp_path)
        log = nodes.brokers[near].topics.require(at.topic).partition(at.partition).log
        await until(lambda: log.end_offset == 5)
        log.begin_drop_head(3).run()
        assert (await asked(client, near, at, 0, rack=RACKS[near])).error_code == codes.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(10)
        for offset in (0, 1, 2):
            here = await asked(client, leader, at, offset, rack=RACKS[near])
            assert here.preferred_read_replica == -1 and values(here)[-1] == "m4"
        for _ in range(3):
            assert (await asked(client, leader, at, 3, rack=RACKS[near])).preferred_read_replica == near
            assert values(await asked(client, near, at, 3, rack=RACKS[near]))[-1] == "m4"

    run_nodes(story, monkeypatch, is_started=False)


# --- versions ----------------------------------------------------------------------------------------------------


def features_at(nodes: Nodes, node: int) -> dict[str, tuple[int, list[int]]]:
    broker = nodes.brokers[node]
    view = ClusterView(broker.metadata.image, node, 2, {}, broker.lags, is_alone=False)
    return {one.name: (one.level, one.waits_for) for one in view.state().features}


def test_a_feature_is_on_when_every_node_knows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rolling upgrade: the last node to be started anew switches it on, and nobody goes back behind that."""

    async def story(nodes: Nodes) -> None:
        nodes.racks, nodes.features = dict(RACKS), {1: {}, 2: {}}
        await nodes.start_all()
        at = await jobs(nodes, 0, 3)
        client = KafkaClient(nodes, tmp_path)
        assert features_at(nodes, 0) == {NEAREST_REPLICA: (0, [1, 2])}

        async def sent_to(rack: str) -> int:
            leader = nodes.leader_of(at).node.identity.node_id
            return (await asked(client, leader, at, 0, rack=rack)).preferred_read_replica

        assert {await sent_to(rack) for rack in RACKS.values()} == {-1}
        for node in (1, 2):
            nodes.kill(node)
            await until(lambda: node not in nodes.any.metadata.image.nodes())  # noqa: B023
            await asyncio.sleep(1)
            assert not nodes.any.metadata.image.features(), "a node that is away may come back as it was"
            del nodes.features[node]
            await nodes.start(node)
            await nodes.until_led()
        client = KafkaClient(nodes, tmp_path)
        await until(lambda: features_at(nodes, 1) == {NEAREST_REPLICA: (1, [])})
        await until(lambda: all(len(nodes.any.metadata.image.shard(one).in_sync) == 3 for one in range(6)))
        assert {await sent_to(rack) for rack in RACKS.values()} > {-1}
        nodes.kill(2)
        nodes.features[2] = {}
        await until(lambda: 2 not in nodes.any.metadata.image.nodes())
        with pytest.raises(ClusterTooNew, match="nearest-replica 1"):
            await nodes.start(2)
        assert nodes.any.metadata.image.features() == {NEAREST_REPLICA: 1}, "what is on stays on"
        assert 2 not in nodes.any.metadata.image.nodes()

    run_nodes(story, monkeypatch, is_started=False)


def test_a_node_that_is_gone_for_good_holds_a_feature_back_until_it_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.features = {3: {}}
        await nodes.start_all()
        nodes.kill(3)
        await until(lambda: 3 not in nodes.any.metadata.image.nodes())
        await asyncio.sleep(1)
        assert features_at(nodes, 0) == {NEAREST_REPLICA: (0, [3])}

    run_nodes(story, monkeypatch, count=4, is_started=False)
