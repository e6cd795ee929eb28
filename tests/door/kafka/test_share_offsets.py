"""Where share groups stand in partitions: told, moved and deleted by administrators, by the protocol itself."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages import alter_share_group_offsets as moving
from goqueue.wire.messages import delete_share_group_offsets as deleting
from goqueue.wire.messages import offset_commit as committing
from goqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.door.kafka.raw import Line, unique
from tests.door.kafka.share import ACCEPT, ShareMember, all_starts, produce, start_of

UNKNOWN_TOPIC_OR_PARTITION, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 3, 68, 69

Join = Callable[[], ShareMember]


@pytest.fixture
def topic(lone: str) -> str:
    return lone


def test_offsets_of_a_share_group_are_told_moved_and_deleted(line: Line, topic: str, group: str, join: Join) -> None:
    produce(line, topic, b"a", b"b", b"c")
    one = join()
    one.fetch()
    assert one.outcome({0: [(0, 0, ACCEPT), (2, 2, ACCEPT)]}) == 0
    assert start_of(line, group, topic) == (1, 1)
    part = moving.AlterShareGroupOffsetsRequestPartition(0, 2)
    move = moving.AlterShareGroupOffsetsRequest(group, [moving.AlterShareGroupOffsetsRequestTopic(topic, [part])])
    assert line.ask(move).error_code == NON_EMPTY_GROUP
    one.beat(-1)
    told = line.ask(move)
    assert (told.error_code, told.responses[0].partitions[0].error_code) == (0, 0)
    assert start_of(line, group, topic) == (2, 1)
    other = join()
    assert other.fetch() == {(0, 2): (b"c", 1)}
    other.beat(-1)
    gone = deleting.DeleteShareGroupOffsetsRequest(group, [deleting.DeleteShareGroupOffsetsRequestTopic(topic)])
    told = line.ask(gone)
    assert (told.error_code, told.responses[0].error_code) == (0, 0)
    assert start_of(line, group, topic) == (-1, -1)
    assert join().fetch() == {(0, 0): (b"a", 1), (0, 1): (b"b", 1), (0, 2): (b"c", 1)}


def altered(line: Line, group: str, topic: str, partition: int, offset: int) -> tuple[int, int]:
    """The codes of the group and of the partition."""
    part = moving.AlterShareGroupOffsetsRequestPartition(partition, offset)
    told = line.ask(
        moving.AlterShareGroupOffsetsRequest(group, [moving.AlterShareGroupOffsetsRequestTopic(topic, [part])])
    )
    return told.error_code, told.responses[0].partitions[0].error_code if told.responses else 0


def test_offsets_make_a_share_group(shared_node: NodeProcess, line: Line, topic: str, group: str, join: Join) -> None:
    """As in Kafka: who knows where a group is to begin says so before its first member comes."""
    produce(line, topic, b"a", b"b", b"c")
    assert altered(line, group, topic, 0, 1) == (0, 0)
    assert start_of(line, group, topic) == (1, 2)
    assert all_starts(line, group) == {topic: [(0, 1, 2)]}
    (found,) = line.ask(ShareGroupDescribeRequest([group])).groups
    assert (found.error_code, found.group_state, found.members) == (0, "Empty", [])
    with httpx.Client(base_url=shared_node.url) as client:
        assert client.get(f"/groups/{group}").json()["kind"] == "share"
    assert set(join().fetch()) == {(0, 1), (0, 2)}


def test_offsets_of_what_is_not_there_make_no_share_group(line: Line, topic: str, group: str) -> None:
    assert altered(line, group, unique("none"), 0, 1) == (0, UNKNOWN_TOPIC_OR_PARTITION)
    assert altered(line, group, topic, 99, 1) == (0, UNKNOWN_TOPIC_OR_PARTITION)
    assert line.ask(ShareGroupDescribeRequest([group])).groups[0].error_code == GROUP_ID_NOT_FOUND


def test_a_consumer_group_is_not_made_a_share_group(line: Line, topic: str, group: str) -> None:
    part = committing.OffsetCommitRequestPartition(0, 1, committed_metadata="")
    told = line.ask(
        committing.OffsetCommitRequest(
            group, topics=[committing.OffsetCommitRequestTopic(name=topic, partitions=[part])]
        ),
        8,
    )
    assert told.topics[0].partitions[0].error_code == 0
    assert altered(line, group, topic, 0, 0) == (GROUP_ID_NOT_FOUND, 0)
    assert start_of(line, group, topic) == (-1, -1)
    assert all_starts(line, group) == {}


def test_no_share_group_has_no_offsets(line: Line, topic: str) -> None:
    """Kafka tells this apart from a failure: no offset, and no error."""
    group = unique("none")
    assert all_starts(line, group) == {}
    assert start_of(line, group, topic) == (-1, -1)
    assert start_of(line, group, unique("none")) == (-1, -1)
    told = line.ask(
        deleting.DeleteShareGroupOffsetsRequest(group, [deleting.DeleteShareGroupOffsetsRequestTopic(topic)])
    )
    assert told.error_code == GROUP_ID_NOT_FOUND
    assert line.ask(moving.AlterShareGroupOffsetsRequest(group)).error_code == 0
    assert line.ask(ShareGroupDescribeRequest([group])).groups[0].error_code == GROUP_ID_NOT_FOUND
