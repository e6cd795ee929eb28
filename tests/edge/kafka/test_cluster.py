"""What Kafka's clients are told by one node of three: who is there, who leads what, and where to go instead."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import pytest

from goqueue.base.commands import Acks, Appended, InputMessage, PublishBatch, PublishMessages, StoredAt
from goqueue.base.errors import LeaderChanged, NotLoaded, PeerLost
from goqueue.format.records import NewRecord, build
from goqueue.service.batch_inspection import Inspection
from goqueue.service.hooks import TooMuchHere
from goqueue.service.publish import Publish
from goqueue.wire import codes
from goqueue.wire.errors import WireError
from goqueue.wire.messages import (
    add_partitions_to_txn,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_fetch,
    share_group_heartbeat,
    sync_group,
)
from tests.edge.kafka.one_of_three import EPOCH, LOCAL, TOPIC, Door, Run

T = TypeVar("T")


def asked_for(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names], False)


# --- who is there ----------------------------------------------------------------------------------------------


def test_metadata_names_every_living_node_and_the_leader_of_every_partition(told: Run) -> None:
    async def story(door: Door) -> None:
        answer = await door.ask(asked_for(TOPIC))
        nodes = [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers]
        assert nodes == [(node, f"host{node}", 9000 + node, f"rack{node}") for node in range(3)]
        assert answer.controller_id == 2
        (topic,) = answer.topics
        places = [(one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes) for one in topic.partitions]
        assert places == [
            (0, EPOCH, [0, 1, 2], [0, 1]),
            (1, EPOCH, [1, 2, 0], [1, 2]),
            (2, EPOCH, [2, 0, 1], [2, 0]),
            (1, EPOCH, [1, 2, 0], [1, 2]),
        ]
        assert all(one.error_code == codes.NONE and one.offline_replicas == [] for one in topic.partitions)
        cluster = await door.ask(describe_cluster.DescribeClusterRequest())
        assert [(one.broker_id, one.host, one.port, one.rack) for one in cluster.brokers] == nodes
        assert (cluster.controller_id, cluster.cluster_id) == (2, answer.cluster_id)

    told(story)


def test_a_node_that_is_gone_is_not_named_and_its_partitions_have_no_leader(told: Run) -> None:
    async def story(door: Door) -> None:
        await door.end_node(2)
        answer = await door.ask(asked_for(TOPIC))
        assert [one.node_id for one in answer.brokers] == [0, 1]
        assert answer.controller_id == 0, "any node takes what is meant for the controller"
        orphan = answer.topics[0].partitions[2]
        assert (orphan.error_code, orphan.leader_id) == (codes.LEADER_NOT_AVAILABLE, -1)
        assert orphan.offline_replicas == [2]
        assert answer.topics[0].partitions[1].leader_id == 1

    told(story)


def test_a_shard_that_waits_for_a_leader_tells_who_is_eligible(told: Run) -> None:
    async def story(door: Door) -> None:
        await door.change_shard(1, leader=-1, epoch=9, in_sync=(2,), eligible=(1,))
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=TOPIC)]
        )
        waiting = (await door.ask(request)).topics[0].partitions[1]
        assert (waiting.error_code, waiting.leader_id, waiting.leader_epoch) == (codes.LEADER_NOT_AVAILABLE, -1, 9)
        assert (waiting.isr_nodes, waiting.eligible_leader_replicas, waiting.last_known_elr) == ([2], [1], [])

    told(story)


def test_alone_a_node_is_where_the_client_reached_it(told_alone: Run) -> None:
    async def story(door: Door) -> None:
        answer = await door.ask(asked_for(TOPIC))
        assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [(0, *LOCAL, None)]
        assert answer.controller_id == 0
        assert {one.leader_id for one in answer.topics[0].partitions} == {0}

    told_alone(story)


# --- coordinators ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1])
def test_the_coordinator_of_an_id_is_the_node_that_leads_its_shard(told: Run, kind: int) -> None:
    async def story(door: Door) -> None:
        names = [door.id_led_by(node) for node in range(3)]
        found = await door.ask(find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=names))
        assert [(one.key, one.node_id, one.host, one.port) for one in found.coordinators] == [
            (name, node, f"host{node}", 9000 + node) for node, name in enumerate(names)
        ]
        old = await door.ask(find_coordinator.FindCoordinatorRequest(key=names[1], key_type=kind), 3)
        assert (old.node_id, old.host, old.port, old.error_code) == (1, "host1", 9001, codes.NONE)

    told(story)


def test_what_is_known_of_shared_records_is_with_their_partition(told: Run) -> None:
    async def story(door: Door) -> None:
        topic_id = urlsafe_b64encode(UUID(door.broker.topics.require(TOPIC).record.id).bytes).decode().rstrip("=")
        keys = [f"a:group:{topic_id}:{number}" for number in range(3)]
        found = await door.ask(find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=[*keys, "g"]))
        assert [one.node_id for one in found.coordinators] == [0, 1, 2, -1]
        assert found.coordinators[3].error_code == codes.INVALID_REQUEST

    told(story)


def test_nobody_coordinates_while_nobody_leads(told: Run) -> None:
    async def story(door: Door) -> None:
        gone, waiting = door.id_led_by(2), door.id_led_by(1)
        await door.end_node(2)
        for shard in (1, 3):
            await door.change_shard(shard, leader=-1)
        request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[gone, waiting])
        for one in (await door.ask(request)).coordinators:
            assert (one.error_code, one.node_id, one.port) == (codes.COORDINATOR_NOT_AVAILABLE, -1, -1)
        old = await door.ask(find_coordinator.FindCoordinatorRequest(key=gone, key_type=1), 2)
        assert (old.error_code, old.node_id) == (codes.COORDINATOR_NOT_AVAILABLE, -1)

    told(story)


def asked_of_a_group(group: str) -> list[tuple[object, Callable[[Any], int]]]:
    part = offset_commit.OffsetCommitRequestPartition(0, 1)
    topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    return [
        (join_group.JoinGroupRequest(group, 10_000, 10_000, "m", None, "consumer"), _top),
        (sync_group.SyncGroupRequest(group, 1, "m", None, "consumer", "range"), _top),
        (heartbeat.HeartbeatRequest(group, 1, "m"), _top),
        (leave_group.LeaveGroupRequest(group, members=[leave_group.MemberIdentity("m")]), _top),
        (consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group, "m", 0), _top),
        (share_group_heartbeat.ShareGroupHeartbeatRequest(group, "m", 0), _top),
        (describe_groups.DescribeGroupsRequest([group]), lambda told: told.groups[0].error_code),
        (delete_groups.DeleteGroupsRequest([group]), lambda told: told.results[0].error_code),
        (
            offset_commit.OffsetCommitRequest(group_id=group, topics=[topic]),
            lambda told: told.topics[0].partitions[0].error_code,
        ),
    ]


def _top(told: Any) -> int:
    return int(told.error_code)


def test_a_group_that_is_kept_elsewhere_is_not_coordinated_here(told: Run) -> None:
    async def story(door: Door) -> None:
        for request, code in asked_of_a_group(door.id_led_by(1)):
            version = 9 if isinstance(request, offset_commit.OffsetCommitRequest) else None
            assert code(await door.ask(request, version)) == codes.NOT_COORDINATOR, type(request).__name__
        one = offset_fetch.OffsetFetchRequestGroup(door.id_led_by(1))
        many = await door.ask(offset_fetch.OffsetFetchRequest(groups=[one]))
        assert many.groups[0].error_code == codes.NOT_COORDINATOR
        old = await door.ask(offset_fetch.OffsetFetchRequest(group_id=door.id_led_by(1), topics=None), 7)
        assert old.error_code == codes.NOT_COORDINATOR
        old_version = await door.ask(describe_groups.DescribeGroupsRequest([door.id_led_by(1)]), 1)
        assert old_version.groups[0].error_code == codes.NOT_COORDINATOR, "not that it is dead"

    told(story)


def test_a_group_whose_shard_is_loading_asks_for_patience(told: Run) -> None:
    async def story(door: Door) -> None:
        group = door.id_led_by(0)
        door.broker.group_hosts.of(group).unload()
        for request, code in asked_of_a_group(group):
            version = 9 if isinstance(request, offset_commit.OffsetCommitRequest) else None
            found = code(await door.ask(request, version))
            assert found == codes.COORDINATOR_LOAD_IN_PROGRESS, type(request).__name__
        listed = await door.ask(list_groups.ListGroupsRequest())
        assert listed.error_code == codes.COORDINATOR_LOAD_IN_PROGRESS

    told(story)


def test_a_transactional_id_that_is_kept_elsewhere_is_not_coordinated_here(told: Run) -> None:
    async def story(door: Door) -> None:
        name = door.id_led_by(2)
        begun = await door.ask(init_producer_id.InitProducerIdRequest(name, 10_000), 4)
        ended = await door.ask(end_txn.EndTxnRequest(name, 1, 0, True), 4)
        assert [begun.error_code, ended.error_code] == [codes.NOT_COORDINATOR] * 2
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name, v3_and_below_topics=[topic]
        )
        (added,) = (await door.ask(request, 3)).results_by_topic_v3_and_below
        assert added.results_by_partition[0].partition_error_code == codes.NOT_COORDINATOR
        described = await door.ask(describe_transactions.DescribeTransactionsRequest([name]))
        assert described.transaction_states[0].error_code == codes.NOT_COORDINATOR

    told(story)


def test_producers_without_an_id_are_welcome_everywhere(told: Run) -> None:
    async def story(door: Door) -> None:
        begun = await door.ask(init_producer_id.InitProducerIdRequest(None, 10_000))
        assert (begun.error_code, begun.producer_epoch) == (codes.NONE, 0)
        listed = await door.ask(list_transactions.ListTransactionsRequest())
        assert (listed.error_code, listed.transaction_states) == (codes.NONE, [])

    told(story)


# --- partitions that are led elsewhere -------------------------------------------------------------------------


def produced(door: Door, *partitions: int) -> produce.ProduceRequest:
    batch = build([NewRecord(None, b"v", (), 1_767_225_600_000)])
    data = [produce.PartitionProduceData(number, batch) for number in partitions]
    topic_id = UUID(door.broker.topics.require(TOPIC).record.id).bytes
    return produce.ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=[produce.TopicProduceData(TOPIC, topic_id, data)]
    )


def test_a_produce_for_another_leader_says_where_it_is(told: Run) -> None:
    async def story(door: Door) -> None:
        await door.change_shard(0, replicas=(0,), in_sync=(0,), starts={})  # nobody else takes what is stored here
        answer = await door.ask(produced(door, 0, 1, 2))
        here, *elsewhere = answer.responses[0].partition_responses
        assert (here.error_code, here.base_offset) == (codes.NONE, 0)
        assert (here.current_leader.leader_id, here.current_leader.leader_epoch) == (-1, -1)
        for one in elsewhere:
            assert one.error_code == codes.NOT_LEADER_OR_FOLLOWER
            assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (one.index, EPOCH)
        ends = [(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]
        assert ends == [(1, "host1", 9001, "rack1"), (2, "host2", 9002, "rack2")]
        assert not (await door.ask(produced(door, 0))).node_endpoints

    told(story)


@pytest.mark.parametrize("trouble", [NotLoaded, PeerLost])
def test_a_batch_whose_coordinator_cannot_be_asked_is_sent_again(
    told: Run, monkeypatch: pytest.MonkeyPatch, trouble: type[NotLoaded | PeerLost]
) -> None:
    def append(*_: object) -> None:
        raise trouble("Not now.")

    async def story(door: Door) -> None:
        monkeypatch.setattr(Publish, "append", append)
        (one,) = (await door.ask(produced(door, 0))).responses[0].partition_responses
        assert one.error_code == codes.NOT_ENOUGH_REPLICAS

    told(story)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_produce_without_an_answer_that_is_refused_ends_the_connection(told: Run, is_late: bool) -> None:
    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        await door.tell(write(partition.at.partition, acks=0), 9)
        assert partition.end_offset == 1
        if is_late:
            partition.serve(False)
        else:
            partition.lead(None)
        with pytest.raises(WireError, match=r"refused: .* leader|refused: .* in a moment"):
            await door.tell(write(partition.at.partition, acks=0), 9)
        assert partition.end_offset == 1

    told(story)


def fetched(door: Door, *partitions: int, epoch: int = -1) -> fetch.FetchRequest:
    wanted = [
        fetch.FetchPartition(partition=number, current_leader_epoch=epoch, partition_max_bytes=1_000)
        for number in partitions
    ]
    topic_id = UUID(door.broker.topics.require(TOPIC).record.id).bytes
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1_000, session_epoch=0, topics=[fetch.FetchTopic(TOPIC, topic_id, wanted)]
    )


def test_a_fetch_from_another_leader_says_where_it_is(told: Run) -> None:
    async def story(door: Door) -> None:
        answer = await door.ask(fetched(door, 0, 1))
        here, elsewhere = answer.responses[0].partitions
        assert here.error_code == codes.NONE
        assert elsewhere.error_code == codes.NOT_LEADER_OR_FOLLOWER
        assert (elsewhere.current_leader.leader_id, elsewhere.current_leader.leader_epoch) == (1, EPOCH)
        assert [(one.node_id, one.port) for one in answer.node_endpoints] == [(1, 9001)]
        again = fetch.FetchRequest(max_wait_ms=0, session_id=answer.session_id, session_epoch=1)
        told_again = await door.ask(again)
        assert [one.partition_index for one in told_again.responses[0].partitions] == [1]
        assert [one.node_id for one in told_again.node_endpoints] == [1]

    told(story)


def test_another_leader_epoch_is_refused_in_both_directions(told: Run) -> None:
    async def story(door: Door) -> None:
        old, new = [(await door.ask(fetched(door, 0, epoch=one))) for one in (EPOCH - 1, EPOCH + 1)]
        assert old.responses[0].partitions[0].error_code == codes.FENCED_LEADER_EPOCH
        assert old.responses[0].partitions[0].current_leader.leader_epoch == EPOCH
        assert new.responses[0].partitions[0].error_code == codes.UNKNOWN_LEADER_EPOCH

    told(story)


def test_everything_else_that_is_asked_of_a_partition_is_for_its_leader(told: Run) -> None:
    async def story(door: Door) -> None:
        wanted = list_offsets.ListOffsetsPartition(1, timestamp=-1)
        request: Any = list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic(TOPIC, [wanted])], replica_id=-1
        )
        found = [(await door.ask(request)).topics[0].partitions[0].error_code]
        epoch = offset_for_leader_epoch.OffsetForLeaderPartition(1, -1, EPOCH)
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[offset_for_leader_epoch.OffsetForLeaderTopic(TOPIC, [epoch])]
        )
        found.append((await door.ask(request)).topics[0].partitions[0].error_code)
        request = delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic(TOPIC, [delete_records.DeleteRecordsPartition(1, 0)])]
        )
        found.append((await door.ask(request)).topics[0].partitions[0].error_code)
        request = describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(TOPIC, [1])])
        found.append((await door.ask(request)).topics[0].partitions[0].error_code)
        assert found == [codes.NOT_LEADER_OR_FOLLOWER] * 4

    told(story)


def test_a_share_consumer_is_sent_to_the_leader(told: Run) -> None:
    async def story(door: Door) -> None:
        await door.change_shard(0, replicas=(0,), in_sync=(0,), starts={})
        group = door.id_led_by(0)
        request: Any = share_group_heartbeat.ShareGroupHeartbeatRequest(group, "m", 0, None, [TOPIC])
        assert (await door.ask(request)).error_code == codes.NONE
        topic_id = UUID(door.broker.topics.require(TOPIC).record.id).bytes
        wanted = share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(1)])
        request = share_fetch.ShareFetchRequest(group, "m", 0, 0, 0, 1_000, 10, topics=[wanted])
        (one,) = (await door.ask(request)).responses[0].partitions
        assert one.error_code == codes.NOT_LEADER_OR_FOLLOWER
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (1, 7)

    told(story)


# --- while a shard is taken over -------------------------------------------------------------------------------


def write(partition: int, acks: int = -1, timeout_ms: int = 30_000) -> produce.ProduceRequest:
    batch = build([NewRecord(None, b"v", (), 0)], 0)
    data = produce.PartitionProduceData(partition, batch)
    return produce.ProduceRequest(None, acks, timeout_ms, [produce.TopicProduceData(TOPIC, partition_data=[data])])


def test_a_write_waits_for_the_partition_that_this_node_is_about_to_serve(told: Run) -> None:
    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        partition.serve(False)
        waiting = asyncio.ensure_future(door.ask(write(partition.at.partition, acks=1), 9))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        partition.serve()
        (answer,) = (await waiting).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (codes.NONE, 0)

    told(story)


def test_a_write_is_refused_if_that_takes_long_or_another_node_leads(told: Run) -> None:
    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        partition.serve(False)
        (answer,) = (await door.ask(write(partition.at.partition), 9)).responses[0].partition_responses
        assert answer.error_code == codes.NOT_LEADER_OR_FOLLOWER
        waiting = asyncio.ensure_future(door.ask(write(partition.at.partition), 9))
        await asyncio.sleep(0.1)
        partition.lead(None)
        (answer,) = (await waiting).responses[0].partition_responses
        assert answer.error_code == codes.NOT_LEADER_OR_FOLLOWER

    told(story)


def test_replicas_are_waited_for_as_long_as_the_producer_says(told: Run) -> None:
    async def story(door: Door) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        (answer,) = (await door.ask(write(door.led_by(0), timeout_ms=700), 9)).responses[0].partition_responses
        assert answer.error_code == codes.REQUEST_TIMED_OUT
        assert 0.7 <= loop.time() - began < 1

    told(story)


@pytest.mark.parametrize("is_large", [False, True])
def test_what_another_leader_cut_off_while_others_were_waited_for_is_not_acknowledged(
    told: Run, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    append = Publish.append

    def appended(self: Publish, command: PublishBatch, looked: Inspection | None = None) -> Appended:
        if is_large and looked is None:
            raise TooMuchHere
        return append(self, command, looked)

    async def story(door: Door) -> None:
        monkeypatch.setattr(Publish, "append", appended)
        answer = await with_a_cut_in_between(door, door.ask(produced(door, 0, 1)))
        first, second = answer.responses[0].partition_responses
        assert (first.error_code, second.error_code) == (codes.NONE, codes.NOT_LEADER_OR_FOLLOWER)

    told(story)


def test_neither_are_messages_that_came_in_the_open(told: Run) -> None:
    async def story(door: Door) -> None:
        messages = [InputMessage(None, b"v", partition=number) for number in (0, 1)]
        publishing = door.broker.publish.messages(PublishMessages(TOPIC, messages, Acks.ALL))
        first, second = await with_a_cut_in_between(door, publishing)
        assert isinstance(first, StoredAt) and isinstance(second, LeaderChanged)

    told(story)


async def with_a_cut_in_between(door: Door, publishing: Coroutine[Any, Any, T]) -> T:
    """One of two partitions waits for its replicas while another node leads the second one, and cuts it off there."""
    slow, moved = (door.broker.topics.require(TOPIC).partition(number) for number in (0, 1))
    moved.state.is_led = moved.state.is_served = True
    waiting = asyncio.ensure_future(publishing)
    await asyncio.sleep(0.1)
    assert (slow.end_offset, moved.end_offset) == (1, 1)
    moved.cut(0, 0)
    moved.state.led_by(msgspec.structs.replace(moved.state.shard, epoch=EPOCH + 2))
    slow.replicated(1)
    return await waiting


def test_a_partition_is_of_the_epoch_that_its_shard_got_while_it_was_opened(
    told: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(door: Door) -> None:
        offload, elected = door.broker.node.offload, list[int]()

        async def elect_meanwhile(work: Callable[[], object]) -> object:
            opened = await offload(work)
            if isinstance(opened, tuple) and not elected:  # partitions, and how long they took
                elected.append(0)
                await door.change_shard(0, epoch=EPOCH + 1)
            return opened

        monkeypatch.setattr(door.broker.table, "_offload", elect_meanwhile)
        await door.broker.topics.create("later", 4, {})
        made = door.broker.topics.require("later")
        epochs = {made.record.shard_of(one.at.partition): one.leader_epoch for one in made.partitions}
        assert epochs[0] == EPOCH + 1

    told(story)
