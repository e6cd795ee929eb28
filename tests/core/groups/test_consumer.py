"""Stories of the server-side protocol (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.base.errors import InvalidField
from goqueue.base.limits import GROUP_PATTERNS_MAX
from goqueue.core.groups.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    InconsistentProtocol,
    StaleMemberEpoch,
    UnknownGroup,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from goqueue.core.groups.records import ConsumerMember, GroupState, encode_record
from goqueue.core.patterns import InvalidPattern
from tests.core.groups.world import World


def join(world: World, member_id: str, *topics: str, **changes: Any) -> Any:
    return world.touch(member_id, 0, subscribed_topics=list(topics) or ["a"], rebalance_ms=20_000, owned=[], **changes)


def test_a_lone_member_gets_everything_at_once() -> None:
    world = World()
    reply = join(world, "m1", "a", "b")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_ms) == ("m1", 1, 3_000)
    assert reply.assignment == [("a", [0, 1, 2]), ("b", [0, 1, 2, 3])]
    assert world.state() == "Stable"


def test_an_assignment_is_sent_when_it_changed_or_when_asked_for() -> None:
    world = World()
    join(world, "m1")
    assert world.touch("m1", 1).assignment is None
    assert world.touch("m1", 1, owned=[]).assignment == [("a", [0, 1, 2])]
    assert world.touch("m1", 1).assignment is None


def test_a_partition_goes_to_a_new_owner_only_after_the_old_one_let_go() -> None:
    world = World()
    join(world, "m1")
    second = join(world, "m2")
    assert (second.member_epoch, second.assignment) == (2, [])
    assert world.state() == "Reconciling"
    told = world.touch("m1", 1)
    assert (told.member_epoch, told.assignment) == (1, [("a", [0, 1])])
    assert world.touch("m2", 2).assignment is None  # m1 has not let go
    assert world.touch("m1", 1, owned=[("a", [0, 1, 2])]).member_epoch == 1
    assert world.touch("m1", 1, owned=[("a", [0, 1])]).member_epoch == 2
    assert world.touch("m2", 2).assignment == [("a", [2])]
    assert world.state() == "Stable"


def test_a_third_member_leaves_one_each() -> None:
    world = World()
    owned = {}
    for member in ("m1", "m2", "m3"):
        reply = join(world, member)
        owned[member] = (reply.member_epoch, reply.assignment)
        for _ in range(3):
            for each, (epoch, parts) in list(owned.items()):
                reply = world.touch(each, epoch, owned=parts)
                owned[each] = (reply.member_epoch, parts if reply.assignment is None else reply.assignment)
    assert sorted(number for _, parts in owned.values() for _, [number] in parts) == [0, 1, 2]
    assert world.state() == "Stable"


def test_what_a_leaving_member_had_goes_to_the_others() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    assert world.touch("m1", -1).member_epoch == -1
    reply = world.touch("m2", 2)
    assert (reply.member_epoch, reply.assignment) == (3, [("a", [0, 1, 2])])
    with pytest.raises(UnknownMember):
        world.touch("m1", 1)


def test_a_silent_member_is_removed_after_its_session() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    world.run(29_999)
    world.touch("m2", 2)
    world.run(1)
    assert world.touch("m2", 2).assignment == [("a", [0, 1, 2])]
    with pytest.raises(UnknownMember):
        world.touch("m1", 1)


def test_a_member_that_does_not_let_go_in_time_is_fenced() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    everything = [("a", [0, 1, 2])]
    for _ in range(4):
        world.touch("m1", 1, owned=everything)
        world.touch("m2", 2)
        world.run(5_000)
    with pytest.raises(UnknownMember):
        world.touch("m1", 1, owned=everything)
    assert world.touch("m2", 2).assignment == everything


def test_a_member_that_missed_an_answer_may_use_its_former_epoch() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    world.touch("m1", 1)
    world.touch("m1", 1, owned=[("a", [0, 1])])
    again = world.touch("m1", 1, owned=[("a", [0, 1])])
    assert (again.member_epoch, again.assignment) == (2, [("a", [0, 1])])
    with pytest.raises(FencedMemberEpoch):
        world.touch("m1", 1, owned=[("a", [2])])
    with pytest.raises(FencedMemberEpoch):
        world.touch("m1", 1)
    with pytest.raises(FencedMemberEpoch):
        world.touch("m1", 9)


def test_a_fenced_member_starts_over_with_the_same_id() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    again = join(world, "m1")
    assert (again.member_epoch, again.assignment) == (2, [("a", [0, 1])])
    assert world.touch("m2", 2).assignment == [("a", [2])]


def test_a_changed_subscription_makes_a_new_target() -> None:
    world = World()
    join(world, "m1")
    reply = world.touch("m1", 1, subscribed_topics=["b"], owned=[("a", [0, 1, 2])])
    assert (reply.member_epoch, reply.assignment) == (1, [])
    reply = world.touch("m1", 1, owned=[])
    assert (reply.member_epoch, reply.assignment) == (2, [("b", [0, 1, 2, 3])])


def test_topics_that_come_grow_and_go_change_the_assignment() -> None:
    world = World({"a": 1})
    join(world, "m1", "a", "later")
    world.take(world.coordinator.topics_changed({"a": 2, "later": 1, "other": 5}, world.now))
    assert world.touch("m1", 1).assignment == [("a", [0, 1]), ("later", [0])]
    stored = len(world.stored)
    world.take(world.coordinator.topics_changed({"a": 2, "later": 1}, world.now))
    assert len(world.stored) == stored  # nobody reads the other one
    world.take(world.coordinator.topics_changed({"a": 2}, world.now))
    assert world.touch("m1", 2).assignment == [("a", [0, 1])]


def test_a_pattern_follows_the_topics() -> None:
    world = World({"orders.eu": 1, "clicks": 1})
    reply = world.touch("m1", 0, subscribed_regex="orders\\..*")
    assert reply.assignment == [("orders.eu", [0])]
    world.take(world.coordinator.topics_changed({"orders.eu": 1, "orders.us": 1, "clicks": 1}, world.now))
    assert world.touch("m1", 1).assignment == [("orders.eu", [0]), ("orders.us", [0])]


@pytest.mark.parametrize(
    "pattern", ["(", r"(.)\1", "(?=a)", "x" * 2_000, "(.{0,30}a){30}x", "((a{1,100}){1,100}){1,100}"]
)
def test_a_bad_or_too_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        World().touch("m1", 0, subscribed_regex=pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*", "a*a*a*a*a*b"])
def test_a_pattern_that_is_slow_elsewhere_is_taken(pattern: str) -> None:
    world = World({"a" * 249: 1, "aab": 1})
    assert world.touch("m1", 0, subscribed_regex=pattern).assignment


def test_members_of_a_group_have_a_bounded_number_of_different_patterns() -> None:
    world = World()
    for number in range(GROUP_PATTERNS_MAX):
        world.touch(f"m{number}", 0, subscribed_regex=f"a{number}")
    with pytest.raises(GroupFull):
        world.touch("late", 0, subscribed_regex="another")
    assert world.touch("late", 0, subscribed_regex="a7").member_epoch > 0


def test_a_stored_pattern_that_is_none_any_more_stops_no_start() -> None:
    world = World()
    world.touch("m1", 0, subscribed_regex="a", subscribed_topics=["b"])
    before = GroupState("g", "consumer", 1, consumer={"m1": ConsumerMember("m1", topics=("b",), regex="(?=a)a")})
    world.stored = [encode_record(before)]
    world.crash()
    assert world.coordinator.describe("g").members[0].regex == "(?=a)a"
    assert world.touch("m1", 0, subscribed_regex="a").assignment == [("a", [0, 1, 2]), ("b", [0, 1, 2, 3])]


def test_wrong_joins_are_refused_and_leave_no_group() -> None:
    world = World()
    with pytest.raises(UnsupportedAssignor):
        join(world, "m1", server_assignor="best")
    with pytest.raises(InvalidField):
        world.touch("m1", 0)
    with pytest.raises(InvalidField):
        join(world, "")
    with pytest.raises(UnknownGroup):
        world.touch("m1", 5)
    assert world.coordinator.list_groups() == []
    assert world.stored == []
    join(world, "m1")
    with pytest.raises(InvalidField):
        world.touch("m1", -3)


def test_a_full_group_takes_nobody_new() -> None:
    world = World(group_members_max=1)
    join(world, "m1")
    with pytest.raises(GroupFull):
        join(world, "m2")
    world.touch("m1", 1)


def test_the_range_assignor_can_be_asked_for() -> None:
    world = World()
    join(world, "m1", "a", "b", server_assignor="range")
    join(world, "m2", "a", "b", server_assignor="range")
    described = world.coordinator.describe("g")
    assert described.protocol == "range"
    assert described.members[0].target == [("a", [0, 1]), ("b", [0, 1])]


# --- static members


def test_a_static_member_finds_its_partitions_when_it_is_back() -> None:
    world = World()
    join(world, "s1", instance_id="i1")
    join(world, "m2")
    world.touch("s1", 1, instance_id="i1", owned=[("a", [0, 1])])
    world.touch("s1", 1, instance_id="i1", owned=[("a", [0, 1])])
    assert world.touch("s1", -2, instance_id="i1").member_epoch == -2
    generation = world.coordinator.describe("g").generation
    reply = join(world, "s2", instance_id="i1")
    assert (reply.member_epoch, reply.assignment) == (generation, [("a", [0, 1])])
    with pytest.raises(FencedInstance):
        world.touch("s1", 2, instance_id="i1")


def test_a_static_member_that_is_back_holds_nothing_it_would_have_to_give_back() -> None:
    world = World()
    join(world, "s1", instance_id="i1")
    world.touch("s1", -2, instance_id="i1")
    join(world, "m2")
    reply = join(world, "s2", instance_id="i1")
    assert (reply.member_epoch, reply.assignment) == (2, [("a", [0, 1])])
    assert world.touch("m2", 2).assignment == [("a", [2])]


def test_a_static_place_is_lost_with_the_session() -> None:
    world = World()
    join(world, "s1", instance_id="i1")
    world.touch("s1", -2, instance_id="i1")
    world.run(30_000)
    assert world.state() == "Empty"


def test_a_static_place_that_is_held_is_not_given_away() -> None:
    world = World()
    join(world, "s1", instance_id="i1")
    with pytest.raises(UnreleasedInstance):
        join(world, "s2", instance_id="i1")
    with pytest.raises(UnknownMember):
        world.touch("s1", 1, instance_id="i9")
    with pytest.raises(FencedMemberEpoch):
        world.touch("s1", -2, instance_id="i1")
        world.touch("s1", 1, instance_id="i1", owned=[])


# --- offsets, kinds and restart


def test_commits_need_the_current_epoch() -> None:
    world = World()
    join(world, "m1")
    world.commit(5, "m1", 1)
    assert world.committed() == {"a/0": 5}
    with pytest.raises(StaleMemberEpoch):
        world.commit(6, "m1", 0)
    with pytest.raises(UnknownMember):
        world.commit(6, "m9", 1)
    with pytest.raises(UnknownMember):
        world.commit(6)
    assert world.coordinator.offsets("g", member_id="m1", epoch=1)
    with pytest.raises(StaleMemberEpoch):
        world.coordinator.offsets("g", member_id="m1", epoch=2)


def test_kinds_do_not_mix_and_an_empty_group_changes_kind_with_its_offsets() -> None:
    world = World()
    join(world, "m1")
    world.commit(5, "m1", 1)
    with pytest.raises(InconsistentProtocol):
        world.result(world.join())
    world.touch("m1", -1)
    joined = world.result(world.join(new_member_id="c1"))
    assert joined.generation == 3  # generations go on
    with pytest.raises(InconsistentProtocol):
        join(world, "m1")
    world.leave("c1")
    assert join(world, "m1").member_epoch == 5
    assert world.committed() == {"a/0": 5}
    assert world.replayed().describe("g").kind == "consumer"


def test_everything_survives_a_restart() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    world.touch("m1", 1)
    before = world.coordinator.describe("g")
    world.crash()
    assert world.coordinator.describe("g") == before
    world.run(19_999)
    world.touch("m1", 1, owned=[("a", [0, 1])])
    assert world.touch("m2", 2).assignment == [("a", [2])]


def test_topics_that_changed_while_the_node_was_down_are_seen() -> None:
    world = World({"a": 1})
    join(world, "m1")
    world.topics = {"a": 2}
    world.crash()
    assert world.touch("m1", 1).assignment == [("a", [0, 1])]


def test_rebalances_are_counted_and_timed() -> None:
    world = World()
    join(world, "m1")
    join(world, "m2")
    world.touch("m1", 1)
    world.run(40)
    world.touch("m1", 1, owned=[("a", [0, 1])])
    world.touch("m2", 2)
    stats = world.coordinator.stats("g")
    assert (stats.rebalances, stats.last_duration_ms, stats.running_since_ms) == (2, 40, None)
