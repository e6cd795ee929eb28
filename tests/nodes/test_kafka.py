"""A transactional client of Kafka at three nodes: each request goes to the node that Kafka's clients send it to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from goqueue.base.ids import TopicPartition
from goqueue.base.settings import DataSettings
from goqueue.wire import codes
from goqueue.wire.messages import (
    add_offsets_to_txn,
    describe_configs,
    describe_share_group_offsets,
    end_txn,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    metadata,
    offset_fetch,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    txn_offset_commit,
)
from tests.edge.kafka.one_of_three import Door
from tests.nodes.cluster import Nodes, run_nodes, until
from tests.nodes.test_queues import jobs, stands_at
from tests.nodes.test_transactions import GROUPED, TOPIC, begin, is_whole, places, read
from tests.txn.world import transactional_batch


class KafkaClient:
    """Knows nothing but what it is told."""

    def __init__(self, nodes: Nodes, path: Path) -> None:
        self.nodes = nodes
        self._doors: Mapping[int, Door] = {
            node: Door(
                broker,
                msgspec.structs.replace(broker.node.settings, data=DataSettings(str(path / str(node)))),
            )
            for node, broker in nodes.brokers.items()
        }

    async def at(self, node: int, request: object, version: int | None = None) -> Any:
        return await self.nodes.run_at(node, self._doors[node].ask(request, version))

    async def coordinator(self, kind: int, name: str) -> int:
        asked = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        (found,) = (await self.at(0, asked)).coordinators
        assert found.error_code == codes.NONE
        return int(found.node_id)

    async def leader(self, at: TopicPartition) -> int:
        asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=at.topic)], False)
        (topic,) = (await self.at(1, asked)).topics
        return int(topic.partitions[at.partition].leader_id)

    async def offsets(self, group: str) -> tuple[int, int]:
        """The committed offset, and the error."""
        part = offset_fetch.OffsetFetchRequestTopics(GROUPED.topic, partition_indexes=[GROUPED.partition])
        asked = offset_fetch.OffsetFetchRequestGroup(group, topics=[part])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
        (found,) = (await self.at(await self.coordinator(0, group), request, 9)).groups
        assert found.error_code == codes.NONE
        one = found.topics[0].partitions[0]
        return int(one.committed_offset), int(one.error_code)


@pytest.mark.parametrize("version", [11, 12])
def test_a_transaction_as_old_and_new_clients_make_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int
) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        client, name, group = KafkaClient(nodes, tmp_path), nodes.id_at(0), nodes.id_at(1, "g")
        keeper = await client.coordinator(1, name)
        begun = await client.at(keeper, init_producer_id.InitProducerIdRequest(name, 60_000), 4)
        who = (begun.producer_id, begun.producer_epoch)
        for at in places(nodes):
            if version < 12:
                await nodes.brokers[keeper].transactions.add_partitions(name, *who, [at])
            await write(client, at, name, who, version)
        if version < 12:
            added = await client.at(keeper, add_offsets_to_txn.AddOffsetsToTxnRequest(name, *who, group), 3)
            assert added.error_code == codes.NONE
        await commit_offsets(client, name, who, group, version)
        assert await client.offsets(group) == (-1, codes.UNSTABLE_OFFSET_COMMIT)
        ended = await client.at(keeper, end_txn.EndTxnRequest(name, *who, True), 4 if version < 12 else 5)
        assert ended.error_code == codes.NONE
        assert await client.offsets(group) == (7, codes.NONE)
        for at in places(nodes):
            assert await read(nodes, at) == ["a", "b"]
            assert is_whole(nodes, at)

    run_nodes(story, monkeypatch)


async def write(client: KafkaClient, at: TopicPartition, name: str, who: tuple[int, int], version: int) -> None:
    topic_id = UUID(client.nodes.any.topics.require(TOPIC).record.id).bytes
    for sequence, value in enumerate("ab"):
        data = [produce.PartitionProduceData(at.partition, transactional_batch([value], *who, sequence))]
        request = produce.ProduceRequest(name, -1, 1_000, [produce.TopicProduceData(TOPIC, topic_id, data)])
        answer = await client.at(await client.leader(at), request, version)
        (one,) = answer.responses[0].partition_responses
        assert one.error_code == codes.NONE, one.error_message


async def commit_offsets(client: KafkaClient, name: str, who: tuple[int, int], group: str, version: int) -> None:
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(GROUPED.partition, 7)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(GROUPED.topic, [part])
    request = txn_offset_commit.TxnOffsetCommitRequest(name, group, *who, topics=[topic])
    answer = await client.at(await client.coordinator(0, group), request, 3 if version < 12 else 5)
    assert answer.topics[0].partitions[0].error_code == codes.NONE


def test_a_share_consumer_takes_from_the_leaders_of_its_partitions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 3), nodes.id_at(1, "g")
        client = KafkaClient(nodes, tmp_path)
        await nodes.brokers[1].groups.configure(group, {"share.auto.offset.reset": "earliest"})
        member: Any = share_group_heartbeat.ShareGroupHeartbeatRequest(group, "m", 0, None, ["jobs"])
        assert (await client.at(await client.coordinator(0, group), member)).error_code == codes.NONE
        leader, topic_id = await client.leader(at), UUID(nodes.any.topics.require("jobs").record.id).bytes
        wanted = share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(at.partition)])
        request: Any = share_fetch.ShareFetchRequest(group, "m", 0, 500, 0, 1 << 20, 10, topics=[wanted])
        (found,) = (await client.at(leader, request)).responses[0].partitions
        assert [(one.first_offset, one.last_offset) for one in found.acquired_records] == [(0, 2)]
        batch = share_acknowledge.AcknowledgementBatch(0, 2, [1])
        topic = share_acknowledge.AcknowledgeTopic(
            topic_id, [share_acknowledge.AcknowledgePartition(at.partition, [batch])]
        )
        answered = await client.at(leader, share_acknowledge.ShareAcknowledgeRequest(group, "m", 1, topics=[topic]))
        assert answered.responses[0].partitions[0].error_code == codes.NONE
        await until(lambda: stands_at(nodes, group, at) == 3)
        assert await share_starts(client, group) == [(at.partition, 3, 0)]
        gone: Any = share_group_heartbeat.ShareGroupHeartbeatRequest(group, "m", -1)
        assert (await client.at(1, gone)).error_code == codes.NONE
        await nodes.brokers[1].share_offsets.alter(group, {at: 1})
        assert await share_starts(client, group) == [(at.partition, 1, 2)]
        await nodes.brokers[1].share_offsets.delete(group, ["jobs"])
        assert await share_starts(client, group) == []

    run_nodes(story, monkeypatch)


async def share_starts(client: KafkaClient, group: str) -> list[tuple[int, int, int]]:
    """Partition, start and lag, as the group's coordinator tells administrators."""
    asked = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group, None)
    request = describe_share_group_offsets.DescribeShareGroupOffsetsRequest([asked])
    (told,) = (await client.at(await client.coordinator(0, group), request)).groups
    assert told.error_code == codes.NONE
    return [(one.partition_index, one.start_offset, one.lag) for topic in told.topics for one in topic.partitions]


def test_settings_of_a_group_are_changed_and_shown_through_any_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story(nodes: Nodes) -> None:
        client, group, key = KafkaClient(nodes, tmp_path), nodes.id_at(1, "g"), "share.auto.offset.reset"
        change = incremental_alter_configs.AlterableConfig(key, 0, "earliest")
        resource = incremental_alter_configs.AlterConfigsResource(32, group, [change])
        altered = await client.at(0, incremental_alter_configs.IncrementalAlterConfigsRequest([resource]))
        assert altered.responses[0].error_code == codes.NONE
        for node in range(3):
            asked = describe_configs.DescribeConfigsResource(32, group, [key])
            (told,) = (await client.at(node, describe_configs.DescribeConfigsRequest([asked]))).results
            assert [(one.name, one.value) for one in told.configs] == [(key, "earliest")]

    run_nodes(story, monkeypatch)
