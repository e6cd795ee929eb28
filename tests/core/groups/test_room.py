"""How much memory a group may take, and how many groups a node has."""

from __future__ import annotations

import pytest

from goqueue.base.errors import InvalidGroup
from goqueue.base.limits import GROUP_NAME_CHARS_MAX
from goqueue.core.groups import CommitRequest, OffsetCommit
from goqueue.core.groups.errors import GroupFull, MemberIdRequired, TooManyGroups
from tests.core.groups.test_migration import subscription
from tests.core.groups.world import World

BIG = [("range", bytes(5_000))]


def test_a_joiner_whose_words_do_not_fit_is_refused_and_the_group_goes_on() -> None:
    world = World(group_bytes_max=10_000)
    world.settled(world.join(new_member_id="m1", protocols=BIG))
    with pytest.raises(GroupFull):
        world.result(world.join(new_member_id="m2", protocols=BIG))
    assert world.state() == "Stable"
    world.join(new_member_id="m3")
    assert world.state() == "PreparingRebalance"


def test_a_member_that_joins_again_counts_once() -> None:
    world = World(group_bytes_max=10_000)
    world.settled(world.join(new_member_id="m1", protocols=BIG))
    assert world.settled(world.join("m1", protocols=[("range", bytes(6_000))])) == 2
    with pytest.raises(GroupFull):
        world.result(world.join("m1", protocols=[("range", bytes(11_000))]))


def test_a_static_member_under_a_new_id_counts_once() -> None:
    world = World(group_bytes_max=10_000)
    world.settled(world.join(new_member_id="m1", protocols=BIG, group_instance_id="place"))
    back = world.result(world.join(new_member_id="m2", protocols=BIG, group_instance_id="place"))
    assert back.member_id == "m2"


def test_assignments_that_do_not_fit_are_refused_to_the_leader() -> None:
    world = World(group_bytes_max=10_000)
    joined = world.result(world.join(new_member_id="m1"))
    with pytest.raises(GroupFull):
        world.result(world.sync("m1", joined.generation, ("m1", bytes(10_000))))
    assert world.result(world.sync("m1", joined.generation, ("m1", b"mine"))).assignment == b"mine"


def test_ids_that_are_given_out_take_places() -> None:
    world = World(group_members_max=3)
    for number in range(3):
        with pytest.raises(MemberIdRequired):
            world.result(world.join(new_member_id=f"m{number}", requires_member_id=True))
    with pytest.raises(GroupFull):
        world.result(world.join(new_member_id="m3", requires_member_id=True))
    world.join("m0")  # who has an id has its place
    world.run(10_000)
    world.join(new_member_id="m4")
    assert {member.member_id for member in world.coordinator.describe("g").members} <= {"m0", "m4"}


def test_a_member_of_the_server_side_protocol_names_no_more_than_fits() -> None:
    world = World(group_bytes_max=10_000)
    world.touch("m1", 0, subscribed_topics=["a"])
    with pytest.raises(GroupFull):
        world.touch("m2", 0, subscribed_topics=[f"topic-{number:0200}" for number in range(50)])
    assert [member.member_id for member in world.coordinator.describe("g").members] == ["m1"]
    assert world.touch("m1", 1).member_epoch == 1


def test_members_that_share_all_partitions_take_no_more_than_fits() -> None:
    world = World({"wide": 1_000}, group_bytes_max=20_000)
    world.rest_join("m1", "wide", mode="shared")
    world.rest_join("m2", "wide", mode="shared")
    with pytest.raises(GroupFull):
        world.rest_join("m3", "wide", mode="shared")


def commit(world: World, group: str) -> object:
    return world.now_or_never(world.coordinator.commit, CommitRequest(group, "", -1, None, [OffsetCommit("a", 0, 1)]))


def test_a_node_has_a_bounded_number_of_groups_however_they_are_made() -> None:
    world = World(groups_max=3)
    world.settled(world.join(new_member_id="m1"))  # the group "g"
    world.take(world.coordinator.move("g", [OffsetCommit("a", 0, 1)], world.now))  # is one, with members and offsets
    commit(world, "two")
    commit(world, "three")
    assert world.coordinator.count() == 3
    for refused in (
        lambda: commit(world, "four"),
        lambda: world.result(world.join(group="four")),
        lambda: world.now_or_never(world.coordinator.reset_offsets, "four", [OffsetCommit("a", 0, 1)]),
        lambda: world.coordinator.check_in_transaction(CommitRequest("four", "", -1, None, [])),
    ):
        with pytest.raises(TooManyGroups):
            refused()
    commit(world, "two")  # those there are go on
    world.now_or_never(world.coordinator.delete_group, "three")
    commit(world, "four")


def test_what_a_transaction_or_a_queue_decided_is_written_in_any_case() -> None:
    world = World(groups_max=1)
    commit(world, "one")
    world.take(world.coordinator.move("two", [OffsetCommit("a", 0, 1)], world.now))
    world.now_or_never(world.coordinator.commit_settled, "three", [OffsetCommit("a", 0, 1)])
    assert world.coordinator.count() == 3


def test_a_new_group_has_a_name_of_bounded_length() -> None:
    world = World()
    commit(world, "g" * GROUP_NAME_CHARS_MAX)
    with pytest.raises(InvalidGroup):
        commit(world, "g" * (GROUP_NAME_CHARS_MAX + 1))


def test_a_classic_member_among_those_of_the_server_says_no_more_than_fits() -> None:
    world = World(group_bytes_max=10_000)
    world.touch("m1", 0, subscribed_topics=["a"])
    small = subscription(["a"])
    with pytest.raises(GroupFull):
        world.result(world.join(new_member_id="m2", protocols=[("range", small), ("other", bytes(20_000))]))
    world.join(new_member_id="m3", protocols=[("range", small)])
    assert {member.member_id for member in world.coordinator.describe("g").members} == {"m1", "m3"}
    with pytest.raises(GroupFull):
        world.result(world.join("m3", protocols=[("range", small), ("other", bytes(20_000))]))
