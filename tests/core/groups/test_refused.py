"""Records that could not be written: their groups are as they were, and everybody who waits in them is told."""

from __future__ import annotations

import pytest

from goqueue.base.errors import DiskFull
from goqueue.core.groups import JoinReply, SyncReply
from goqueue.core.groups.errors import UnknownGroup
from tests.core.groups.test_migration import subscription
from tests.core.groups.world import World


def two_settled(world: World) -> tuple[str, str, int]:
    """Two members, settled; their ids and the generation."""
    first, second = world.join(), world.join()
    world.run(6_000)
    generation = world.settled(first, second)
    return world.result(first).member_id, world.result(second).member_id, generation


def test_a_refused_assignment_leaves_the_group_as_it_was_and_tells_all_who_sync() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    one, two, generation = two_settled(world)
    before = world.coordinator.describe("g")
    joins = [world.join(one, protocols=[("range", b"new")]), world.join(two)]
    leader = world.result(joins[0]).leader
    follower = two if leader == one else one
    waiting = world.sync(follower, generation + 1)
    assert waiting not in world.answers
    world.refuses = True
    synced = world.sync(leader, generation + 1, (one, b"all"))
    for ticket in (waiting, synced):
        with pytest.raises(DiskFull):
            world.result(ticket)
    assert world.coordinator.describe("g") == before
    world.refuses = False
    again = [world.join(leader, protocols=[("range", b"new")]), world.join(follower)]
    assert world.settled(*again) == generation + 1


def test_a_static_member_whose_return_could_not_be_written_has_not_come_back() -> None:
    world = World(initial_rebalance_delay_ms=0)
    alone = world.join(group_instance_id="i", new_member_id="s1")
    world.settled(alone)
    world.refuses = True
    back = world.join(group_instance_id="i", new_member_id="s2")
    with pytest.raises(DiskFull):
        world.result(back)
    assert [member.member_id for member in world.coordinator.describe("g").members] == ["s1"]
    assert world.beat("s1", 1), "the one that holds the place goes on"


def test_a_group_that_could_not_be_made_is_not_there() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    world.refuses = True
    with pytest.raises(DiskFull):
        world.result(world.join())
    with pytest.raises(UnknownGroup):
        world.coordinator.describe("g")
    assert world.coordinator.list_groups() == [] and world.stored == []


def test_a_refused_commit_touches_no_member_and_no_offset() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    one, two, generation = two_settled(world)
    world.commit(5, one, generation)
    third = world.join(new_member_id="third")
    world.refuses = True
    with pytest.raises(DiskFull):
        world.commit(9, one, generation)
    assert world.committed() == {"a/0": 5}
    assert world.state() == "PreparingRebalance" and third not in world.answers, "who waits there waits on"
    world.refuses = False
    again = [world.join(one), world.join(two)]
    assert all(isinstance(world.result(ticket), JoinReply) for ticket in (third, *again))


def test_other_groups_go_on_while_one_cannot_be_written() -> None:
    """Both fall due in one tick: of one a member is silent, which is written; of the other a rebalance begins."""
    world = World(initial_rebalance_delay_ms=3_000)
    world.rest_join("silent", "a", session_ms=10_000)
    world.run(7_000)
    waiting = world.join(group="other", new_member_id="m")
    assert waiting not in world.answers
    world.refuses = True
    world.run(3_000)
    assert world.refused == 1 and isinstance(world.result(waiting), JoinReply)
    (member,) = world.coordinator.describe("g").members
    assert member.member_id == "silent", "its end could not be written"
    world.refuses = False
    world.run(10_000)
    assert world.coordinator.describe("g").members == [], "it is tried again when the session is over again"


def test_targets_that_could_not_be_written_are_made_again_by_themselves() -> None:
    world = World({"a": 1})
    world.touch("m", 0, subscribed_topics=("a",), rebalance_ms=20_000, owned=[])
    world.refuses = True
    world.topics = {"a": 3}
    world.take(world.coordinator.topics_changed(world.topics, world.now))
    assert world.coordinator.describe("g").members[0].target == [("a", [0])]
    world.run(5_000)
    assert world.coordinator.describe("g").members[0].target == [("a", [0])]
    world.refuses = False
    world.run(1_000)
    assert world.coordinator.describe("g").members[0].target == [("a", [0, 1, 2])]
    assert isinstance(world.touch("m", 1).member_epoch, int)


def test_a_group_that_could_not_be_deleted_stays_with_its_offsets() -> None:
    world = World()
    world.commit(5)
    world.refuses = True
    with pytest.raises(DiskFull):
        world.now_or_never(world.coordinator.delete_group, "g")
    assert world.committed() == {"a/0": 5}
    world.refuses = False
    world.now_or_never(world.coordinator.delete_group, "g")
    assert world.coordinator.list_groups() == []


def test_a_move_to_the_server_side_protocol_that_is_refused_is_none() -> None:
    world = World()
    joined = world.join(protocols=[("range", subscription(["a"]))])
    world.run(3_000)
    generation = world.settled(joined)
    member_id = world.result(joined).member_id
    world.refuses = True
    with pytest.raises(DiskFull):
        world.touch("new", 0, subscribed_topics=("a",), rebalance_ms=20_000, owned=[])
    assert world.coordinator.describe("g").kind == "classic"
    assert world.beat(member_id, generation)
    assert isinstance(world.result(world.sync(member_id, generation)), SyncReply)
