"""Stories of the REST protocol."""

from __future__ import annotations

import time
from typing import Any

import pytest

from goqueue.base.errors import InvalidField
from goqueue.core.groups import RestJoin
from goqueue.core.groups.errors import (
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    UnknownMember,
    UnsupportedAssignor,
)
from tests.core.groups.world import World


class Reader:
    """A REST client that does as it is told."""

    def __init__(self, world: World, name: str, *topics: str, **changes: Any) -> None:
        self.world, self.name = world, name
        joined = world.rest_join(name, *topics, **changes)
        self.generation, self.assignment = joined.generation, joined.assignment

    def beat(self) -> Any:
        beat = self.world.rest_beat(self.name, self.generation)
        self.generation, self.assignment = beat.generation, beat.assignment
        if beat.revoke:
            beat = self.world.rest_revoke(self.name, self.generation, beat.revoke)
            self.generation, self.assignment = beat.generation, beat.assignment
        return beat

    @property
    def size(self) -> int:
        return sum(len(numbers) for _, numbers in self.assignment)


def wait_durable(*readers: Reader) -> None:
    for _ in range(3):
        for reader in readers:
            reader.beat()
    assert readers[0].world.state() == "Stable"


def test_two_members_over_three_partitions_get_two_and_one_and_a_third_leaves_one_each() -> None:
    world = World()
    first = Reader(world, "m1")
    assert first.size == 3
    second = Reader(world, "m2")
    wait_durable(first, second)
    assert (first.size, second.size) == (2, 1)
    third = Reader(world, "m3")
    wait_durable(first, second, third)
    assert (first.size, second.size, third.size) == (1, 1, 1)


def test_a_heartbeat_says_what_to_give_back_and_what_was_gained() -> None:
    world = World()
    world.rest_join("m1")
    joined = world.rest_join("m2")
    assert (joined.generation, joined.assignment, joined.session_ms) == (2, [], 30_000)
    beat = world.rest_beat("m1", 1)
    assert (beat.generation, beat.assignment, beat.revoke, beat.gained) == (1, [("a", [0, 1])], [("a", [2])], [])
    assert world.rest_beat("m2", 2).gained == []
    assert world.rest_beat("m1", 1).revoke == [("a", [2])]  # until it did
    beat = world.rest_revoke("m1", 1, [("a", [2])])
    assert (beat.generation, beat.assignment, beat.revoke) == (2, [("a", [0, 1])], [])
    beat = world.rest_beat("m2", 2)
    assert (beat.generation, beat.assignment, beat.gained) == (2, [("a", [2])], [("a", [2])])
    assert world.rest_beat("m2", 2).gained == []


def test_partitions_can_be_given_back_one_by_one() -> None:
    world = World({"a": 4})
    world.rest_join("m1")
    world.rest_join("m2")
    world.rest_beat("m1", 1)
    assert world.rest_revoke("m1", 1, [("a", [3])]).revoke == [("a", [2])]
    assert world.rest_beat("m2", 2).assignment == [("a", [3])]
    assert world.rest_revoke("m1", 1, [("a", [2, 0])]).assignment == [("a", [0, 1])]  # nobody asked for 0
    assert world.rest_beat("m2", 2).assignment == [("a", [2, 3])]


def test_a_heartbeat_with_the_generation_before_is_answered_and_an_older_one_is_not() -> None:
    world = World()
    world.rest_join("m1")
    world.rest_join("m2")
    world.rest_beat("m1", 1)
    world.rest_revoke("m1", 1, [("a", [2])])
    for _ in range(2):
        beat = world.rest_beat("m1", 1)
        assert (beat.generation, beat.assignment) == (2, [("a", [0, 1])])
    assert world.rest_revoke("m1", 1, [("a", [2])]).generation == 2  # a repeat
    world.rest_join("m3")
    world.rest_beat("m1", 2)
    world.rest_revoke("m1", 2, [("a", [1])])
    assert world.rest_beat("m1", 3).generation == 3
    for call in (world.rest_beat, lambda who, at: world.rest_revoke(who, at, []), lambda *who: world.commit(1, *who)):
        with pytest.raises(IllegalGeneration):
            call("m1", 1)


def test_giving_back_in_the_generation_before_gives_nothing_back() -> None:
    world = World()
    world.rest_join("m1")
    world.rest_join("m2")
    world.rest_beat("m1", 1)
    world.rest_revoke("m1", 1, [("a", [2])])
    world.rest_join("m3")
    assert world.rest_beat("m1", 2).revoke == [("a", [1])]
    beat = world.rest_revoke("m1", 1, [("a", [1])])
    assert (beat.generation, beat.revoke) == (2, [("a", [1])])


def test_a_lost_answer_does_not_hide_what_was_gained() -> None:
    world = World()
    world.rest_join("m1")
    world.rest_join("m2")
    world.now_or_never(world.coordinator.rest_leave, "g", "m1")
    first, again = world.rest_beat("m2", 2), world.rest_beat("m2", 2)
    assert first.gained == again.gained == [("a", [0, 1, 2])]


def test_polls_and_commits_need_the_current_generation() -> None:
    world = World()
    world.rest_join("m1")
    world.rest_join("m2")
    assert world.coordinator.rest_readable("g", "m1", 1) == [("a", [0, 1, 2])]
    world.rest_beat("m1", 1)
    assert world.coordinator.rest_readable("g", "m1", 1) == [("a", [0, 1])]
    world.commit(7, "m1", 1, partition=2)  # before it gives the partition back
    world.rest_revoke("m1", 1, [("a", [2])])
    with pytest.raises(IllegalGeneration):
        world.commit(8, "m1", 1)
    with pytest.raises(IllegalGeneration):
        world.coordinator.rest_readable("g", "m1", 1)
    with pytest.raises(UnknownMember):
        world.coordinator.rest_readable("g", "m9", 1)


def test_a_member_keeps_its_id_even_after_its_session_ended() -> None:
    world = World()
    world.rest_join("m1")
    world.run(30_000)
    with pytest.raises(UnknownMember):
        world.rest_beat("m1", 1)
    assert world.rest_join("unused", known_as="m1").member_id == "m1"


def test_a_member_that_joins_again_keeps_what_it_reads() -> None:
    world = World()
    reader = Reader(world, "m1")
    joined = world.rest_join("unused", known_as="m1")
    assert (joined.generation, joined.assignment) == (reader.generation, reader.assignment)
    joined = world.rest_join("unused", "a", "b", known_as="m1")
    assert (joined.generation, len(joined.assignment)) == (2, 2)


def test_a_session_can_be_chosen_within_limits() -> None:
    world = World()
    assert world.rest_join("m1", session_ms=6_000).session_ms == 6_000
    world.run(6_000)
    assert world.state() == "Empty"
    with pytest.raises(InvalidSessionTimeout):
        world.rest_join("m1", session_ms=1)


def test_a_member_that_keeps_what_it_should_give_back_is_removed() -> None:
    world = World(rebalance_ms=10_000)
    world.rest_join("m1")
    world.rest_join("m2")
    world.rest_beat("m1", 1)
    world.run(10_000)
    with pytest.raises(UnknownMember):
        world.rest_beat("m1", 1)
    assert world.rest_beat("m2", 2).assignment == [("a", [0, 1, 2])]


def test_with_eager_everybody_gives_everything_back_first() -> None:
    world = World({"a": 4})
    one, two = (Reader(world, name, protocol="eager") for name in ("m1", "m2"))
    wait_durable(one, two)
    world.rest_join("m3", protocol="eager")
    beat = world.rest_beat("m1", one.generation)
    assert (beat.assignment, beat.revoke) == ([], [("a", [0, 1])])
    beat = world.rest_revoke("m1", one.generation, beat.revoke)
    assert beat.assignment == []  # m2 still reads
    assert world.rest_beat("m3", 3).assignment == []
    two.beat()
    assert two.size == 1
    assert sum(len(numbers) for _, numbers in world.rest_beat("m1", beat.generation).assignment) == 2
    assert world.rest_beat("m3", 3).assignment != []


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [("range", [("a", [0, 1]), ("b", [0, 1])]), ("roundrobin", [("a", [0, 2]), ("b", [1, 3])])],
)
def test_assignors_run_on_the_server(assignor: str, expected: list[tuple[str, list[int]]]) -> None:
    world = World()
    readers = [Reader(world, name, "a", "b", assignor=assignor) for name in ("m1", "m2")]
    wait_durable(*readers)
    assert readers[0].assignment == expected


def test_wrong_joins_are_refused() -> None:
    world = World()
    with pytest.raises(UnsupportedAssignor):
        world.rest_join("m1", assignor="best")
    world.touch("k1", 0, subscribed_topics=["a"])
    with pytest.raises(InconsistentProtocol):
        world.rest_join("unused", known_as="k1")
    with pytest.raises(UnknownMember):
        world.rest_beat("k1", 1)
    world.rest_join("m1")
    with pytest.raises(InconsistentProtocol):
        world.touch("m1", 0, subscribed_topics=["a"])
    with pytest.raises(UnknownMember):
        world.touch("m1", 1)
    with pytest.raises(InvalidField):
        world.now_or_never(world.coordinator.rest_join, RestJoin("g", "", "m5", "c", []))


def test_kafka_and_rest_members_share_a_group() -> None:
    world = World()
    world.touch("k1", 0, subscribed_topics=["a"])
    joined = world.rest_join("m1")
    assert joined.assignment == []
    world.touch("k1", 1, owned=[("a", [0, 1, 2])])
    world.touch("k1", 1, owned=[("a", [0, 1])])
    assert world.rest_beat("m1", joined.generation).assignment == [("a", [2])]


def test_in_a_shared_group_everybody_reads_everything_and_the_first_chooses() -> None:
    world = World()
    for name in ("m1", "m2", "m3", "m4"):
        joined = world.rest_join(name, mode="shared" if name == "m1" else "partition")
        assert (joined.mode, joined.assignment) == ("shared", [("a", [0, 1, 2])])
    with pytest.raises(InconsistentProtocol):
        world.touch("k1", 0, subscribed_topics=["a"])
    assert world.replayed().describe("g").mode == "shared"
    for name in ("m1", "m2", "m3", "m4"):
        world.now_or_never(world.coordinator.rest_leave, "g", name)
    assert world.rest_join("m1").mode == "partition"


def test_a_hundred_members_over_a_thousand_partitions_settle_in_time() -> None:
    world = World({f"t{number}": 100 for number in range(10)})
    start = time.process_time()
    readers = [Reader(world, f"m{number}", *world.topics) for number in range(100)]
    for _ in range(3):
        for reader in readers:
            reader.beat()
    took = time.process_time() - start
    assert world.state() == "Stable"
    assert {reader.size for reader in readers} == {10}
    assert took < 5  # about one; the bound is for slow machines


def test_members_go_on_after_a_restart() -> None:
    world = World()
    first, second = Reader(world, "m1"), Reader(world, "m2")
    first.beat()
    world.crash()
    wait_durable(first, second)
    assert (first.size, second.size) == (2, 1)
