"""Stories of the classic protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.base.errors import InvalidGroup
from goqueue.core.groups.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from tests.core.groups.world import World


def two_members(**settings: Any) -> World:
    """m1 leads, m2 follows, both settled in generation 2."""
    world = World(**settings)
    first = world.join(new_member_id="m1")
    second = world.join(new_member_id="m2")
    first = world.join("m1")
    assert world.settled(first, second) == 2
    return world


def test_a_lone_member_joins_at_once_leads_and_gets_its_assignment() -> None:
    world = World()
    joined = world.result(world.join(new_member_id="m1"))
    assert (joined.generation, joined.leader, joined.protocol_name) == (1, "m1", "range")
    assert [(each.member_id, each.metadata) for each in joined.members] == [("m1", b"r")]
    assert world.state() == "CompletingRebalance"
    synced = world.result(world.sync("m1", 1, ("m1", b"mine")))
    assert (synced.assignment, synced.protocol_type, synced.protocol_name) == (b"mine", "consumer", "range")
    assert world.state() == "Stable"
    world.beat("m1", 1)


def test_a_new_dynamic_member_is_given_an_id_and_joins_with_it() -> None:
    world = World()
    with pytest.raises(MemberIdRequired) as told:
        world.result(world.join(new_member_id="m1", requires_member_id=True))
    assert told.value.member_id == "m1"
    assert world.state() == "Empty"
    assert world.result(world.join("m1", requires_member_id=True)).member_id == "m1"


def test_an_id_that_is_not_used_is_forgotten_after_its_session() -> None:
    world = World()
    world.join(new_member_id="m1", requires_member_id=True)
    world.run(10_000)
    with pytest.raises(UnknownMember):
        world.result(world.join("m1"))


def test_a_rebalance_waits_for_an_id_that_was_given_out() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1"))
    world.join(new_member_id="m2", requires_member_id=True)
    rejoined = world.join("m1")  # the leader asks for a rebalance
    assert world.result(rejoined) is None
    joined = world.join("m2")
    assert len(world.result(rejoined).members) == 2
    assert world.result(joined).members == []


def test_a_second_member_makes_the_first_rejoin() -> None:
    world = World()
    world.settled(world.join(new_member_id="m1"))
    second = world.join(new_member_id="m2")
    assert world.result(second) is None
    assert world.state() == "PreparingRebalance"
    with pytest.raises(RebalanceInProgress):
        world.beat("m1", 1)
    first = world.join("m1")
    assert world.result(first).generation == world.result(second).generation == 2
    assert world.result(first).leader == "m1"
    assert [each.member_id for each in world.result(first).members] == ["m1", "m2"]


def test_joins_that_come_while_a_rebalance_waits_are_taken_into_it() -> None:
    world = World()
    world.settled(world.join(new_member_id="m0"))
    tickets = [world.join(new_member_id=f"m{number}") for number in range(1, 6)]
    tickets.append(world.join("m0"))
    assert {world.result(ticket).generation for ticket in tickets} == {2}


def test_the_first_rebalance_waits_for_more_members_if_told_to() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    first = world.join(new_member_id="m1")
    world.run(2_000)
    second = world.join(new_member_id="m2")
    world.run(1_000)
    assert world.result(first) is None  # somebody came, so it waits once more
    world.run(3_000)
    assert world.result(first).generation == world.result(second).generation == 1


def test_the_first_rebalance_does_not_wait_beyond_the_rebalance_time_out() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    first = world.join(new_member_id="m1", rebalance_ms=7_000)
    for number in range(7):
        world.run(1_000)
        world.join(new_member_id=f"n{number}", rebalance_ms=7_000)
    assert world.result(first).generation == 1


def test_a_member_that_does_not_rejoin_in_time_is_left_behind() -> None:
    world = two_members()
    first = world.join("m1")
    for _ in range(4):
        world.run(5_000)
        if world.state() == "PreparingRebalance":
            with pytest.raises(RebalanceInProgress):
                world.beat("m2", 2)
    assert [each.member_id for each in world.result(first).members] == ["m1"]
    with pytest.raises(UnknownMember):
        world.beat("m2", 2)


def test_a_leader_that_does_not_rejoin_in_time_is_replaced() -> None:
    world = two_members()
    second = world.join("m2", protocols=[("range", b"changed")])
    for _ in range(3):
        world.run(5_000)
        with pytest.raises(RebalanceInProgress):
            world.beat("m1", 2)
    world.run(5_000)
    assert world.result(second).leader == "m2"


def test_a_follower_that_rejoins_unchanged_gets_the_same_generation() -> None:
    world = two_members()
    joined = world.result(world.join("m2"))
    assert (joined.generation, joined.members, joined.leader) == (2, [], "m1")
    assert world.state() == "Stable"


def test_a_follower_that_rejoins_with_other_topics_starts_a_rebalance() -> None:
    world = two_members()
    assert world.result(world.join("m2", protocols=[("range", b"changed")])) is None
    assert world.state() == "PreparingRebalance"


def test_a_leader_that_rejoins_starts_a_rebalance() -> None:
    world = two_members()
    assert world.result(world.join("m1")) is None
    assert world.state() == "PreparingRebalance"


def test_a_join_while_others_sync_gets_the_same_answer_if_nothing_changed() -> None:
    world = World()
    first = world.result(world.join(new_member_id="m1"))
    assert world.result(world.join("m1")) == first


def test_a_sync_is_parked_until_the_leaders_comes() -> None:
    world = World()
    world.join(new_member_id="m1")
    second = world.join(new_member_id="m2")
    world.join("m1")
    waiting = world.sync("m2", 2)
    assert world.result(second).generation == 2
    assert world.result(waiting) is None
    world.sync("m1", 2, ("m1", b"one"), ("m2", b"two"))
    assert world.result(waiting).assignment == b"two"


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    world = World()
    world.join(new_member_id="m1")
    world.join(new_member_id="m2")
    world.join("m1")
    waiting = world.sync("m2", 2)
    world.sync("m1", 2, ("m1", b"one"))
    assert world.result(waiting).assignment == b""


def test_a_new_member_while_others_sync_sends_them_back_to_join() -> None:
    world = World()
    world.join(new_member_id="m1")
    world.join(new_member_id="m2")
    world.join("m1")
    waiting = world.sync("m2", 2)
    world.join(new_member_id="m3")
    with pytest.raises(RebalanceInProgress):
        world.result(waiting)
    with pytest.raises(RebalanceInProgress):
        world.result(world.sync("m1", 2))


def test_members_that_never_sync_are_removed() -> None:
    world = World()
    world.join(new_member_id="m1")
    world.join(new_member_id="m2")
    world.join("m1")
    waiting = world.sync("m2", 2)
    for _ in range(4):
        world.run(5_000)
        if world.state() == "CompletingRebalance":
            world.beat("m1", 2)
    with pytest.raises(RebalanceInProgress):
        world.result(waiting)
    with pytest.raises(UnknownMember):
        world.beat("m1", 2)
    assert world.result(world.join("m2")).leader == "m2"


def test_the_protocol_is_the_one_that_most_prefer_of_those_all_speak() -> None:
    world = World()
    world.join(new_member_id="m1", protocols=[("range", b""), ("sticky", b"")])
    tickets = [
        world.join(new_member_id="m2", protocols=[("only2", b""), ("sticky", b""), ("range", b"")]),
        world.join(new_member_id="m3", protocols=[("sticky", b""), ("range", b"")]),
        world.join("m1", protocols=[("range", b""), ("sticky", b"")]),
    ]
    assert {world.result(ticket).protocol_name for ticket in tickets} == {"sticky"}


@pytest.mark.parametrize(
    "changes",
    [{"protocol_type": "connect"}, {"protocols": [("unheard", b"")]}, {"protocols": []}, {"protocol_type": ""}],
)
def test_a_member_that_cannot_agree_is_refused(changes: dict[str, Any]) -> None:
    world = two_members()
    with pytest.raises(InconsistentProtocol):
        world.result(world.join(**changes))


def test_a_silent_member_is_removed_and_the_rest_rebalances() -> None:
    world = two_members()
    for _ in range(3):
        world.run(4_000)
        if world.state() == "Stable":
            world.beat("m1", 2)
    assert world.state() == "PreparingRebalance"
    assert world.result(world.join("m1")).generation == 3
    with pytest.raises(UnknownMember):
        world.beat("m2", 2)


def test_a_member_that_leaves_starts_a_rebalance_and_the_last_leaves_an_empty_group() -> None:
    world = two_members()
    assert world.leave("m2").members == [("m2", None, None)]
    assert world.state() == "PreparingRebalance"
    world.leave("m1")
    described = world.coordinator.describe("g")
    assert (described.state, described.generation, described.protocol) == ("Empty", 3, "")
    with pytest.raises(UnknownMember):
        world.beat("m1", 3)


def test_leaving_answers_each_member_and_a_parked_join() -> None:
    world = two_members()
    parked = world.join("m1")
    (_, _, fine), (_, _, wrong) = world.leave("m1", "stranger").members
    assert fine is None
    assert isinstance(wrong, UnknownMember)
    with pytest.raises(UnknownMember):
        world.result(parked)


def test_a_parked_sync_of_a_member_that_leaves_is_answered() -> None:
    world = World()
    world.join(new_member_id="m1")
    world.join(new_member_id="m2")
    world.join("m1")
    waiting = world.sync("m2", 2)
    world.leave("m2")
    with pytest.raises(UnknownMember):
        world.result(waiting)


def test_stale_and_strange_words_are_refused() -> None:
    world = two_members()
    for call in (lambda: world.beat("m1", 1), lambda: world.result(world.sync("m1", 1)), lambda: world.beat("m1", 3)):
        with pytest.raises(IllegalGeneration):
            call()
    for call in (lambda: world.beat("m9", 2), lambda: world.result(world.sync("m9", 2)), lambda: world.leave("m9").x):
        with pytest.raises((UnknownMember, AttributeError)):
            call()
    with pytest.raises(InconsistentProtocol):
        world.result(world.sync("m1", 2, protocol_name="sticky"))
    with pytest.raises(InconsistentProtocol):
        world.result(world.sync("m1", 2, protocol_type="connect"))
    with pytest.raises(UnknownMember):
        world.result(world.join("m9"))
    with pytest.raises(UnknownMember):
        world.result(world.join("m9", group="nowhere"))
    with pytest.raises(InvalidSessionTimeout):
        world.result(world.join(session_ms=5_999))
    with pytest.raises(InvalidGroup):
        world.result(world.join(group=""))


def test_a_full_group_takes_nobody_new() -> None:
    world = two_members(group_members_max=2)
    with pytest.raises(GroupFull):
        world.result(world.join(new_member_id="m3"))
    assert world.result(world.join("m2")).generation == 2
    assert world.state() == "Stable"


def test_a_known_member_whose_room_is_taken_does_not_hold_up_the_rebalance() -> None:
    world = two_members(group_members_max=2)
    parked = world.join("m1")
    world.join(new_member_id="m3")
    with pytest.raises(GroupFull):
        world.result(world.join("m2"))
    assert [each.member_id for each in world.result(parked).members] == ["m1", "m3"]


@pytest.mark.parametrize("goes", [lambda world: world.run(6_000), lambda world: world.leave("m3")])
def test_an_id_that_was_given_out_and_not_used_disturbs_nobody(goes: Callable[[World], object]) -> None:
    world = two_members()
    world.join(new_member_id="m3", requires_member_id=True, session_ms=6_000)
    goes(world)
    assert world.state() == "Stable"


def test_a_second_join_of_the_same_member_answers_the_first() -> None:
    world = two_members()
    first, again = world.join("m1"), world.join("m1")
    with pytest.raises(RebalanceInProgress):
        world.result(first)
    world.join("m2")
    assert world.result(again).generation == 3


def test_a_member_that_waits_needs_no_heartbeat() -> None:
    world = two_members()
    waiting = world.join("m1", session_ms=6_000)
    for _ in range(3):
        world.run(6_000)
        with pytest.raises(RebalanceInProgress):
            world.beat("m2", 2)
    world.join("m2")
    assert world.result(waiting).generation == 3


# --- static members


def static_pair() -> World:
    """s1 leads as instance i1, m2 is dynamic; settled in generation 2."""
    world = World()
    world.join(new_member_id="s1", group_instance_id="i1")
    second = world.join(new_member_id="m2")
    first = world.join("s1", group_instance_id="i1")
    joins = [world.result(first), world.result(second)]
    given = [("s1", b"one"), ("m2", b"two")]
    for joined in joins:
        instance = "i1" if joined.member_id == "s1" else None
        world.sync(joined.member_id, 2, *given, instance=instance)
    return world


def test_a_static_member_comes_back_under_a_new_id_without_a_rebalance() -> None:
    world = static_pair()
    joined = world.result(world.join(new_member_id="s2", group_instance_id="i1"))
    assert (joined.generation, joined.member_id, joined.leader, joined.skip_assignment) == (2, "s2", "s2", True)
    assert [each.member_id for each in joined.members] == ["s2", "m2"]
    assert world.state() == "Stable"
    assert world.result(world.sync("s2", 2, instance="i1")).assignment == b"one"
    with pytest.raises(FencedInstance):
        world.beat("s1", 2, "i1")
    with pytest.raises(UnknownMember):
        world.beat("s1", 2)


def test_an_old_client_that_led_is_not_asked_to_assign_again() -> None:
    world = static_pair()
    request: dict[str, Any] = {"group_instance_id": "i1", "supports_skipping_assignment": False}
    joined = world.result(world.join(new_member_id="s2", **request))
    assert (joined.leader, joined.members, joined.skip_assignment) == ("s1", [], False)


def test_a_static_member_that_changes_the_protocol_starts_a_rebalance() -> None:
    world = static_pair()
    joined = world.join(new_member_id="s2", group_instance_id="i1", protocols=[("roundrobin", b"")])
    assert world.result(joined) is None
    world.join("m2")
    assert world.result(joined).protocol_name == "roundrobin"


def test_whoever_held_the_place_is_fenced_while_it_waits() -> None:
    world = static_pair()
    waiting = world.join("s1", group_instance_id="i1")
    again = world.join(new_member_id="s2", group_instance_id="i1")
    with pytest.raises(FencedInstance):
        world.result(waiting)
    world.join("m2")
    assert world.result(again).generation == 3


def test_a_static_member_that_is_away_stays_through_a_rebalance_and_leaves_with_its_session() -> None:
    world = static_pair()
    parked = world.join("m2", protocols=[("range", b"new")])
    world.run(9_000)
    with pytest.raises(RebalanceInProgress):
        world.beat("s1", 2, "i1")
    world.run(9_999)
    assert world.result(parked) is None
    world.run(1_001)  # s1's session ends, and all who are left have joined
    assert [each.member_id for each in world.result(parked).members] == ["m2"]


def test_a_rebalance_goes_on_with_static_members_that_did_not_rejoin() -> None:
    world = static_pair()
    parked = world.join("m2", protocols=[("range", b"new")])
    for _ in range(4):
        world.run(5_000)
        if world.state() == "PreparingRebalance":
            with pytest.raises(RebalanceInProgress):
                world.beat("s1", 2, "i1")
    joined = world.result(parked)
    assert joined.leader == "m2"
    assert [each.member_id for each in joined.members] == ["s1", "m2"]


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    world = static_pair()
    assert world.leave(("", "i1")).members == [("", "i1", None)]
    assert [each.member_id for each in world.coordinator.describe("g").members] == ["m2"]


# --- restart and describing


def test_a_settled_group_survives_a_restart_with_fresh_sessions() -> None:
    world = two_members()
    before = world.coordinator.describe("g")
    world.run(9_000)
    world.crash()
    assert world.coordinator.describe("g") == before
    world.run(9_999)
    world.beat("m1", 2)
    assert world.result(world.sync("m1", 2)).assignment == b"m1"


def test_a_restart_within_a_rebalance_finds_the_last_settled_generation() -> None:
    world = two_members()
    world.join("m1")
    world.join("m2")
    world.crash()
    assert world.coordinator.describe("g").generation == 2
    with pytest.raises(IllegalGeneration):
        world.beat("m1", 3)
    first, second = world.join("m1"), world.join("m2", protocols=[("range", b"r2")])
    assert world.result(first).generation == world.result(second).generation == 3


def test_consumers_metadata_is_readable_for_people() -> None:
    subscription = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\xff\xff\xff\xff"
    assignment = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02"
    world = World()
    world.join(new_member_id="m1", protocols=[("range", subscription)])
    world.sync("m1", 1, ("m1", assignment))
    (member,) = world.coordinator.describe("g").members
    assert (member.topics, member.assignment) == (["a"], [("a", [0, 2])])
    assert (member.client_id, member.client_host, member.metadata) == ("client", "/127.0.0.1", subscription)


def test_rebalances_are_counted_and_timed() -> None:
    world = World()
    world.join(new_member_id="m1")
    assert world.coordinator.stats("g").running_since_ms == 1_000
    world.run(70)
    world.sync("m1", 1)
    stats = world.coordinator.stats("g")
    assert (stats.rebalances, stats.last_duration_ms, stats.running_since_ms) == (1, 70, None)
