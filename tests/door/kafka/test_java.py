"""What Apache Kafka's own Java clients ask for and the others do not: each was seen to matter to one of its tools."""

from __future__ import annotations

from goqueue.wire.messages import consumer_group_describe as described
from goqueue.wire.messages import create_partitions as widening
from goqueue.wire.messages import list_offsets
from goqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from goqueue.wire.messages.describe_cluster import DescribeClusterRequest
from goqueue.wire.messages.describe_groups import DescribeGroupsRequest
from goqueue.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from goqueue.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from goqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, unique

UNSAID = -(1 << 31)
UNKNOWN_MEMBER_ID, INVALID_REPLICA_ASSIGNMENT, FENCED_INSTANCE_ID = 25, 39, 82
UNKNOWN_TOPIC_ID, INVALID_REGULAR_EXPRESSION = 100, 128


def test_partitions_are_described_without_nulls(kafka: str, topic: str) -> None:
    """It streams over the lists of replicas, and ends in a null pointer where the protocol allows null."""
    with Line(kafka) as line:
        (told,) = line.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(topic)])).topics
    assert [one.partition_index for one in told.partitions] == [0, 1, 2]
    for one in told.partitions:
        assert one.eligible_leader_replicas == one.last_known_elr == one.offline_replicas == []


def test_a_topic_is_found_by_its_id_with_an_empty_name(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        (by_name,) = line.ask(MetadataRequest([MetadataRequestTopic(name=topic)])).topics
        for name in ("", None):
            (by_id,) = line.ask(MetadataRequest([MetadataRequestTopic(by_name.topic_id, name)])).topics
            assert (by_id.error_code, by_id.name, len(by_id.partitions)) == (0, topic, 3)
        (lost,) = line.ask(MetadataRequest([MetadataRequestTopic(b"\7" * 16, "")])).topics
    assert lost.error_code == UNKNOWN_TOPIC_ID


def test_a_pattern_that_is_none_is_told_as_such(kafka: str, group: str) -> None:
    with Line(kafka) as line:
        told = line.ask(raw.beat(group, "m", 0, owned={}, subscribed_topic_regex="a(("))
    assert told.error_code == INVALID_REGULAR_EXPRESSION


def test_new_partitions_cannot_be_put_on_other_nodes(kafka: str, topic: str) -> None:
    def widened(count: int, *nodes: int) -> int:
        places = [widening.CreatePartitionsAssignment([node]) for node in nodes]
        with Line(kafka) as line:
            asked = widening.CreatePartitionsRequest([widening.CreatePartitionsTopic(topic, count, places)], 5_000)
            code: int = line.ask(asked).results[0].error_code
        return code

    assert widened(4, 77) == widened(5, 0) == INVALID_REPLICA_ASSIGNMENT
    assert widened(5, 0, 0) == 0


def test_an_administrator_removes_members_of_the_server_side_protocol(kafka: str, topic: str, group: str) -> None:
    with Line(kafka) as line:
        assert line.ask(raw.beat(group, "plain", 0, [topic], {})).error_code == 0
        assert line.ask(raw.beat(group, "static", 0, [topic], {}, instance_id="place")).error_code == 0
        asked = [MemberIdentity("plain", None), MemberIdentity("other", "place"), MemberIdentity("gone", None)]
        told = line.ask(LeaveGroupRequest(group, members=asked)).members
        assert [one.error_code for one in told] == [0, FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID]
        (told,) = line.ask(LeaveGroupRequest(group, members=[MemberIdentity("", "place")])).members
        assert told.error_code == 0
        (found,) = line.ask(described.ConsumerGroupDescribeRequest([group])).groups
        assert found.group_state == "Empty" and not found.members
        assert line.ask(raw.beat(group, "plain", 1)).error_code == UNKNOWN_MEMBER_ID


def test_who_reads_a_topic_that_is_deleted_and_made_again_gives_it_back_first(kafka: str, group: str) -> None:
    """Both between two heartbeats: by its name nothing changed, but the reader's position belongs to the old one."""
    name = unique("again")
    with Line(kafka) as line:
        line.ask(raw.new_topic(name, 2))
        first = line.ask(raw.beat(group, "m", 0, [name], {}))
        (old,) = first.assignment.topic_partitions
        deleted = line.ask(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=5_000))
        assert deleted.responses[0].error_code == 0
        line.ask(raw.new_topic(name, 2))
        told = line.ask(raw.beat(group, "m", first.member_epoch))
        assert told.error_code == 0 and told.assignment.topic_partitions == []
        told = line.ask(raw.beat(group, "m", told.member_epoch, owned={}))
        (new,) = told.assignment.topic_partitions
        assert list(new.partitions) == [0, 1] and bytes(new.topic_id) != bytes(old.topic_id)


def test_everything_is_allowed_and_said_to_those_who_ask(kafka: str, topic: str, group: str) -> None:
    with Line(kafka) as line:
        line.ask(raw.beat(group, "m", 0, [topic], {}))
        for asks in (True, False):
            known = line.ask(MetadataRequest([MetadataRequestTopic(name=topic)], True, False, asks))
            cluster = line.ask(DescribeClusterRequest(asks))
            (classic,) = line.ask(DescribeGroupsRequest(["never"], asks)).groups
            (served,) = line.ask(described.ConsumerGroupDescribeRequest([group], asks)).groups
            assert known.topics[0].topic_authorized_operations == (0x0DF8 if asks else UNSAID)
            assert cluster.cluster_authorized_operations == (0x1FA0 if asks else UNSAID)
            assert served.authorized_operations == (0x0D48 if asks else UNSAID)
            assert classic.group_state == "Dead"


def test_an_offset_that_is_not_there_has_no_epoch(kafka: str, topic: str) -> None:
    ahead = list_offsets.ListOffsetsPartition(0, timestamp=1 << 60)
    with Line(kafka) as line:
        (told,) = line.ask(
            list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic(topic, [ahead])])
        ).topics
    (found,) = told.partitions
    assert (found.error_code, found.offset, found.leader_epoch) == (0, -1, -1)
