"""Share consumers that ask the wrong node are told where the leader is."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from goqueue.wire import codes
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching
from goqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.cluster import Nodes, run_nodes
from tests.nodes.test_kafka import KafkaClient

MEMBER = "m"


def test_fetches_and_answers_name_the_leader_of_what_another_node_leads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        kafka, group = KafkaClient(nodes, tmp_path), nodes.id_at(0, "g")
        here, there = nodes.place_at(0, "t"), nodes.place_at(2, "t")
        epoch = nodes.any.node.shard_map.epoch(nodes.any.node.shard_map.of_partition(there))
        topic_id = UUID(nodes.any.topics.require("t").record.id).bytes
        told = await kafka.at(0, ShareGroupHeartbeatRequest(group, MEMBER, 0, None, ["t"]))
        assert told.error_code == codes.NONE
        wanted = [fetching.FetchPartition(at.partition) for at in (here, there)]
        asked = fetching.ShareFetchRequest(
            group, MEMBER, 0, 0, 1, 1 << 20, 10, 10, topics=[fetching.FetchTopic(topic_id, wanted)]
        )
        told = await kafka.at(0, asked)
        assert told.error_code == codes.NONE
        (found,) = [one for topic in told.responses for one in topic.partitions if one.error_code]
        assert (found.partition_index, found.error_code) == (there.partition, codes.NOT_LEADER_OR_FOLLOWER)
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, epoch)
        part = acking.AcknowledgePartition(there.partition, [acking.AcknowledgementBatch(0, 0, [1])])
        topic = acking.AcknowledgeTopic(topic_id, [part])
        told = await kafka.at(0, acking.ShareAcknowledgeRequest(group, MEMBER, 1, topics=[topic]))
        (found,) = told.responses[0].partitions
        assert found.error_code == codes.NOT_LEADER_OR_FOLLOWER
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, epoch)

    run_nodes(story, monkeypatch)
