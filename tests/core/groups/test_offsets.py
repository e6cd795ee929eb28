"""Stories of committed offsets and of groups as administrators see them."""

from __future__ import annotations

import pytest

from goqueue.base.errors import InvalidGroup, UnknownPartition, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.core.groups import CommitRequest, OffsetCommit
from goqueue.core.groups.errors import (
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from tests.core.groups.world import World

WEEK = 7 * 86_400_000
SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff"


def test_anybody_may_commit_for_a_group_without_members() -> None:
    world = World()
    world.commit(5)
    world.commit(9)
    assert world.committed() == {"a/0": 9}
    (listed,) = world.coordinator.list_groups()
    assert (listed.group, listed.kind, listed.state, listed.protocol_type, listed.members) == (
        "g",
        "classic",
        "Empty",
        "",
        0,
    )
    assert world.coordinator.describe("g").members == []
    assert world.coordinator.stats("g").rebalances == 0
    assert world.replayed().offsets("g") == world.coordinator.offsets("g")


def test_a_classic_commit_needs_member_and_generation() -> None:
    world = World()
    with pytest.raises(UnknownGroup):
        world.commit(1, "m1", 3)
    world.settled(world.join(new_member_id="m1"))
    world.commit(5, "m1", 1)
    with pytest.raises(IllegalGeneration):
        world.commit(6, "m1", 0)
    with pytest.raises(UnknownMember):
        world.commit(6, "m9", 1)
    with pytest.raises(UnknownMember):
        world.commit(6)
    world.join("m1")
    with pytest.raises(RebalanceInProgress):
        world.commit(6, "m1", 2)
    assert world.committed() == {"a/0": 5}


def test_a_commit_in_a_transaction_needs_its_generation_and_no_more() -> None:
    world = World()

    def asked(member_id: str, generation: int) -> CommitRequest:
        return CommitRequest("g", member_id, generation, None, [OffsetCommit("a", 0, 5)])

    world.coordinator.check_in_transaction(asked("", -1))
    with pytest.raises(UnknownGroup):
        world.coordinator.check_in_transaction(asked("m1", 3))
    world.settled(world.join(new_member_id="m1"))
    world.coordinator.check_in_transaction(asked("", -1))  # older producers do not say who reads
    world.coordinator.check_in_transaction(asked("m1", 1))
    with pytest.raises(IllegalGeneration):
        world.coordinator.check_in_transaction(asked("m1", 0))
    with pytest.raises(UnknownMember):
        world.coordinator.check_in_transaction(asked("m9", 1))
    world.join("m1")
    world.coordinator.check_in_transaction(asked("m1", 2))  # before the sync


def test_each_partition_has_its_own_result() -> None:
    world = World(offset_metadata_bytes_max=10)
    offsets = [
        OffsetCommit("a", 0, 1, 4, "fine"),
        OffsetCommit("a", 9, 1),
        OffsetCommit("ghost", 0, 1),
        OffsetCommit("a", 1, 1, metadata="x" * 11),
    ]
    reply = world.now_or_never(world.coordinator.commit, CommitRequest("g", "", -1, None, offsets))
    kinds = [type(each.error) for each in reply.results]
    assert kinds == [type(None), UnknownPartition, UnknownTopic, OffsetMetadataTooLarge]
    (record,) = world.coordinator.offsets("g").values()
    assert (record.offset, record.leader_epoch, record.metadata, record.commit_ms) == (1, 4, "fine", 1_000)
    with pytest.raises(InvalidGroup):
        world.now_or_never(world.coordinator.commit, CommitRequest("", "", -1, None, offsets))


def test_offsets_can_be_asked_for_by_partition() -> None:
    world = World()
    world.commit(5)
    world.commit(6, partition=1)
    asked = [TopicPartition("a", 1), TopicPartition("a", 2)]
    assert [record.offset for record in world.coordinator.offsets("g", asked).values()] == [6]
    assert world.coordinator.offsets("nobody") == {}


def test_offsets_are_reset_only_while_the_group_has_no_members() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1"))
    to = [OffsetCommit("a", 0, 3)]
    with pytest.raises(GroupNotEmpty):
        world.now_or_never(world.coordinator.reset_offsets, "g", to)
    world.leave("m1")
    world.now_or_never(world.coordinator.reset_offsets, "g", to)
    assert world.committed() == {"a/0": 3}


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    world = World()
    world.commit(1)
    world.commit(2, topic="b")
    joined = world.join(new_member_id="m1", protocols=[("range", SUBSCRIPTION)])
    world.settled(joined)
    asked = [TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 3)]
    reply = world.now_or_never(world.coordinator.delete_offsets, "g", asked)
    assert [type(each.error) for each in reply.results] == [GroupSubscribed, type(None), type(None)]
    assert world.committed() == {"a/0": 1}
    world.leave("m1")
    world.now_or_never(world.coordinator.delete_offsets, "g", asked)
    assert world.committed() == {}


def test_offsets_of_a_group_whose_members_are_no_consumers_cannot_be_deleted() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1", protocol_type="connect"))
    with pytest.raises(GroupNotEmpty):
        world.now_or_never(world.coordinator.delete_offsets, "g", [TopicPartition("a", 0)])
    with pytest.raises(UnknownGroup):
        world.now_or_never(world.coordinator.delete_offsets, "nobody", [])


def test_a_group_is_deleted_with_its_offsets_once_it_is_empty() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1"))
    world.commit(5, "m1", 1)
    with pytest.raises(GroupNotEmpty):
        world.now_or_never(world.coordinator.delete_group, "g")
    world.leave("m1")
    world.now_or_never(world.coordinator.delete_group, "g")
    with pytest.raises(UnknownGroup):
        world.coordinator.describe("g")
    with pytest.raises(UnknownGroup):
        world.now_or_never(world.coordinator.delete_group, "g")
    assert world.coordinator.list_groups() == world.replayed().list_groups() == []


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    world.commit(5)
    world.commit(6, topic="b")
    world.take(world.coordinator.topic_deleted("a"))
    assert world.committed() == {"b/0": 6}


def test_offsets_expire_after_the_retention_and_the_group_with_them() -> None:
    world = World()
    world.commit(5)
    world.run(WEEK - 1)
    assert world.committed() == {"a/0": 5}
    world.run(600_001)
    assert world.coordinator.list_groups() == []


def test_offsets_of_a_group_expire_from_when_its_last_member_left() -> None:
    world = World()
    world.rest_join("m1", session_ms=1_800_000)
    world.commit(5, "m1", 1)
    for _ in range(2 * WEEK // 1_700_000):
        world.run(1_700_000)
        world.rest_beat("m1", 1)
    assert world.committed() == {"a/0": 5}  # its topic is read
    world.now_or_never(world.coordinator.rest_leave, "g", "m1")
    world.run(WEEK - 1)
    assert world.committed() == {"a/0": 5}
    world.run(600_001)
    assert world.coordinator.list_groups() == []
    assert world.replayed().list_groups() == []


def test_offsets_of_topics_that_members_no_longer_read_expire() -> None:
    world = World()
    world.commit(1)
    world.commit(2, topic="b")
    world.settled(world.join(new_member_id="m1", protocols=[("range", SUBSCRIPTION)], session_ms=1_800_000))
    for _ in range(WEEK // 1_700_000 + 1):
        world.run(1_700_000)
        world.beat("m1", 1)
    assert world.committed() == {"a/0": 1}


def test_a_group_without_members_and_offsets_is_cleaned_up() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1"))
    world.leave("m1")
    world.run(600_000)
    assert world.coordinator.list_groups() == []


def test_nothing_to_wait_for_means_no_deadline() -> None:
    world = World()
    world.run(600_000)
    assert world.coordinator.next_deadline() is None
