"""Leaders elected because an administrator asks for it, through Kafka's door."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goqueue.base.ids import TopicPartition
from goqueue.core.cluster.records import NOBODY
from goqueue.core.cluster.shard_choice import Placing
from goqueue.drive.membership import NodeMembership
from goqueue.wire import codes
from goqueue.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.nodes.cluster import Nodes, run_nodes, until
from tests.nodes.test_kafka import KafkaClient

PREFERRED, UNCLEAN = range(2)


def elect(places: Sequence[TopicPartition] | None, kind: int = PREFERRED) -> ElectLeadersRequest:
    named = None if places is None else [TopicPartitions(at.topic, [at.partition]) for at in places]
    return ElectLeadersRequest(kind, named)


def told(answer: Any) -> dict[TopicPartition, int]:
    assert answer.error_code == codes.NONE
    return {
        TopicPartition(topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


async def hand_over(nodes: Nodes, shard: int, node: int) -> None:
    """Every node knows it."""
    await nodes.move(shard, node)
    images = [broker.metadata.image for broker in nodes.brokers.values()]
    await until(lambda: all(image.shard(shard).leader == node for image in images))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No leader goes back by itself."""
    monkeypatch.setattr(NodeMembership, "_steady", lambda _: set())


@pytest.mark.usefixtures("patient")
def test_the_replica_that_is_named_first_leads_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        kafka, image = KafkaClient(nodes, tmp_path), nodes.any.metadata.image
        at = nodes.place_at(0, "t")
        shard = nodes.any.node.shard_map.of_partition(at)
        first, other = image.shard(shard).replicas[:2]
        assert told(await kafka.at(1, elect([at]))) == {at: codes.ELECTION_NOT_NEEDED}
        await hand_over(nodes, shard, other)
        epoch = image.shard(shard).epoch
        assert told(await kafka.at(2, elect([at]))) == {at: codes.NONE}
        assert (image.shard(shard).leader, image.shard(shard).epoch) == (first, epoch + 1)
        await hand_over(nodes, shard, other)
        whole = told(await kafka.at(2, elect(None)))
        assert whole[at] == codes.NONE and set(whole.values()) == {codes.NONE}, "only those that needed it are told"
        assert {nodes.any.node.shard_map.of_partition(one) for one in whole} == {shard}
        assert image.shard(shard).leader == first
        nowhere = TopicPartition("t", 99)
        assert told(await kafka.at(0, elect([nowhere]))) == {nowhere: codes.UNKNOWN_TOPIC_OR_PARTITION}
        assert (await kafka.at(0, elect([at], 7))).error_code == codes.INVALID_REQUEST

    run_nodes(story, monkeypatch)


@pytest.mark.usefixtures("patient")
def test_a_replica_that_is_away_is_not_elected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        kafka = KafkaClient(nodes, tmp_path)
        at = nodes.place_at(0, "t")
        shard = nodes.any.node.shard_map.of_partition(at)
        nodes.kill(0)
        image = nodes.brokers[1].metadata.image
        await until(lambda: image.shard(shard).leader not in (0, NOBODY))
        assert told(await kafka.at(1, elect([at]))) == {at: codes.PREFERRED_LEADER_NOT_AVAILABLE}

    run_nodes(story, monkeypatch)


def test_a_leader_that_lacks_something_is_elected_where_topics_ask_for_it_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.any.topics.create("safe", 1, {"min.insync.replicas": 1}, placing=Placing(nodes=((2, 1),)))
        await nodes.until_known("safe")
        kafka, at = KafkaClient(nodes, tmp_path), TopicPartition("safe", 0)
        shard = nodes.any.node.shard_map.of_partition(at)
        image = nodes.brokers[0].metadata.image
        assert told(await kafka.at(0, elect([at], UNCLEAN))) == {at: codes.ELECTION_NOT_NEEDED}
        nodes.kill(1)
        await until(lambda: image.shard(shard).in_sync == (2,))
        nodes.kill(2)
        await nodes.start(1)
        await until(lambda: image.shard(shard).leader == NOBODY)
        assert told(await kafka.at(0, elect([at], UNCLEAN))) == {at: codes.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        await nodes.run_at(0, nodes.brokers[0].topics.alter("safe", {"unclean.leader.election.enable": "true"}, None))
        code = told(await kafka.at(0, elect([at], UNCLEAN)))[at]
        assert code in (codes.NONE, codes.ELECTION_NOT_NEEDED), "the controller may have been faster"
        await until(lambda: image.shard(shard).leader == 1)
        assert image.shard(shard).unclean == 1

    run_nodes(story, monkeypatch)
