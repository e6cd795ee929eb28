"""Stories of a group that moves from the classic protocol to the server-side one while its members run, and back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from goqueue.core.groups.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    parse_subscription,
    subscribed_topics,
)
from goqueue.core.groups.errors import (
    FencedInstance,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.core.groups.parts import Parts, make
from tests.core.groups.world import World

Owned = dict[str, tuple[int, ...]]


def subscription(topics: list[str], owned: Owned | None = None, version: int = 1) -> bytes:
    """As Java's consumer writes it."""
    data = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        data += len(topic).to_bytes(2, "big") + topic.encode()
    data += (-1).to_bytes(4, "big", signed=True)
    if version >= 1:
        data += encode_assignment(owned or {}, 0)[2:-4]
    if version >= 2:
        data += (7).to_bytes(4, "big")
    return data


class Classic:
    """A cooperative consumer of the classic protocol, and what it believes."""

    def __init__(self, world: World, name: str, topics: list[str] | None = None, **changes: Any) -> None:
        self.world, self.name, self.topics = world, name, topics or ["a"]
        self.changes = changes
        self.id = ""
        self.generation = -1
        self.owned: Parts = {}

    def send_join(self) -> int:
        metadata = subscription(self.topics, self.owned)
        known = {"new_member_id": self.name, "protocols": [("cooperative-sticky", metadata)], **self.changes}
        return self.world.join(self.id, **known)

    def join(self) -> None:
        """In a group that the server assigns: answered at once."""
        answer = self.world.result(self.send_join())
        assert answer is not None, "parked"
        self.id, self.generation = answer.member_id, answer.generation
        assert answer.leader == ""
        self.sync()

    def sync(self) -> None:
        ticket = self.world.sync(self.id, self.generation, protocol_type="consumer", protocol_name="cooperative-sticky")
        self.owned = assigned_partitions(self.world.result(ticket).assignment)

    def beat(self) -> bool:
        """Whether it has to join again."""
        try:
            self.world.beat(self.id, self.generation)
        except RebalanceInProgress:
            return True
        return False

    def follow(self) -> None:
        while self.beat():
            before = self.generation, dict(self.owned)
            self.join()
            if (self.generation, self.owned) == before:
                return


def classic_group(world: World, *names: str) -> list[Classic]:
    """Settled, with the partitions of `a` shared out by its leader."""
    members = [Classic(world, name) for name in names]
    tickets = [member.send_join() for member in members[:1]]
    first = world.result(tickets[0])
    members[0].id, members[0].generation = first.member_id, first.generation
    world.sync(members[0].id, members[0].generation, (members[0].id, encode_assignment({"a": (0, 1, 2)}, 1)))
    for member in members[1:]:
        tickets = [member.send_join(), *(one.send_join() for one in members if one.id)]
        joined = [world.result(ticket) for ticket in tickets]
        for one, answer in zip(
            [member, *(each for each in members if each.id and each is not member)], joined, strict=True
        ):
            one.id, one.generation = answer.member_id, answer.generation
    shares = {one.id: make([("a", range(at, 3, len(names)))]) for at, one in enumerate(members)}
    leader = next(one for one in members if world.coordinator.describe("g").leader == one.id)
    given = [(name, encode_assignment(parts, 1)) for name, parts in shares.items()]
    for one in (leader, *(each for each in members if each is not leader)):
        world.sync(one.id, one.generation, *(given if one is leader else []))
        one.owned = shares[one.id]
    assert world.state() == "Stable"
    return members


def join(world: World, member_id: str, **changes: Any) -> Any:
    return world.touch(member_id, 0, subscribed_topics=["a"], rebalance_ms=20_000, owned=[], **changes)


def kind(world: World) -> str:
    return world.coordinator.describe("g").kind


def assigned(world: World) -> dict[str, Any]:
    return {one.member_id: one.assignment for one in world.coordinator.describe("g").members}


def test_the_bytes_of_a_subscription_are_read_in_every_version() -> None:
    for version in range(4):
        data = subscription(["b", "a"], {"a": (1, 2)}, version)
        found = parse_subscription(data)
        assert found is not None and found.topics == ("a", "b") and subscribed_topics(data) == ["b", "a"]
        assert found.owned == ({"a": (1, 2)} if version else {})
    for broken in (b"", b"\0", b"\0\1", subscription(["a"])[:-3], b"\xff\xff" + subscription(["a"])[2:]):
        assert parse_subscription(broken) is None
    assert assigned_partitions(encode_assignment({"a": (0, 2), "b": (1,)}, 1)) == {"a": (0, 2), "b": (1,)}


def test_the_first_consumer_of_the_new_protocol_moves_the_group_and_nobody_stops_reading() -> None:
    world = World()
    one, two = classic_group(world, "c1", "c2")
    new = join(world, "n")
    assert (kind(world), new.assignment) == ("consumer", [])
    assert sorted(member.is_classic for member in world.coordinator.describe("g").members) == [False, True, True]
    assert one.beat() and one.owned == {"a": (0, 2)}
    one.follow()
    two.follow()
    told = world.touch("n", new.member_epoch, owned=[])
    assert sorted(assigned(world).values()) == [[("a", [0])], [("a", [1])], [("a", [2])]]
    assert told.assignment and not one.beat() and not two.beat()
    assert world.state() == "Stable"


def test_a_partition_is_given_to_another_only_after_the_classic_member_gave_it_back() -> None:
    world = World()
    (one,) = classic_group(world, "c1")
    new = join(world, "n")
    one.join()  # it still owns everything: it is told what it keeps
    assert world.touch("n", new.member_epoch, owned=[]).assignment == []
    kept = dict(one.owned)
    assert kept != {"a": (0, 1, 2)}
    assert one.beat()
    one.join()  # now without what it gave back
    assert one.owned == kept
    assert sum(len(numbers) for _, numbers in world.touch("n", new.member_epoch, owned=[]).assignment) == 3 - len(
        kept["a"]
    )


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    world = World()
    (one,) = classic_group(world, "c1")
    new = join(world, "n")
    for _ in range(4):
        assert one.beat()
        world.touch("n", new.member_epoch)
        world.run(5_000)
    with pytest.raises(UnknownMember):
        one.beat()
    assert world.touch("n", new.member_epoch, owned=[]).assignment == [("a", [0, 1, 2])]


def test_when_the_last_consumer_of_the_new_protocol_leaves_the_group_is_classic_again() -> None:
    world = World()
    one, two = classic_group(world, "c1", "c2")
    join(world, "n")
    one.follow()
    two.follow()
    world.touch("n", -1)
    assert kind(world) == "classic"
    assert one.beat() and two.beat(), "everybody joins again"
    tickets = [one.send_join(), two.send_join()]
    assert {world.result(ticket).generation for ticket in tickets} == {one.generation + 1}
    world.crash()
    assert kind(world) == "classic"


def test_the_same_by_a_session_that_ends() -> None:
    world = World(session_ms=6_000)
    (one,) = classic_group(world, "c1")
    join(world, "n")
    while kind(world) == "consumer":
        one.follow()
        world.run(2_000)
    assert one.beat() and world.now < 20_000


def test_a_new_classic_consumer_joins_a_group_of_the_new_protocol() -> None:
    world = World()
    first = join(world, "n")
    with pytest.raises(MemberIdRequired):
        world.result(world.join(protocols=[("range", subscription(["a"]))], requires_member_id=True))
    late = Classic(world, "late")
    late.join()
    assert late.owned == {}
    told = world.touch("n", first.member_epoch)
    world.touch("n", first.member_epoch, owned=told.assignment)
    late.follow()
    assert sum(map(len, late.owned.values())) == 1
    assert world.state() == "Stable"


def test_what_a_classic_member_says_is_fenced_by_its_generation() -> None:
    world = World()
    (one,) = classic_group(world, "c1")
    join(world, "n")
    world.commit(5, one.id, one.generation)
    with pytest.raises(IllegalGeneration):
        world.commit(6, one.id, one.generation + 9)
    with pytest.raises(IllegalGeneration):
        world.beat(one.id, one.generation + 9)
    with pytest.raises(UnknownMember):
        world.beat("n", 1)
    with pytest.raises(UnknownMember):
        world.touch(one.id, one.generation)
    assert world.committed() == {"a/0": 5}


def test_members_that_are_no_consumers_do_not_move() -> None:
    world = World()
    world.settled(world.join(new_member_id="w", protocol_type="connect", protocols=[("v1", b"x")]))
    with pytest.raises(InconsistentProtocol):
        join(world, "n")
    assert kind(world) == "classic" and world.state() == "Stable"
    other = World()
    join(other, "n")
    with pytest.raises(InconsistentProtocol):
        other.result(other.join(protocol_type="connect", protocols=[("v1", b"x")]))


def test_a_static_member_comes_back_with_the_other_protocol() -> None:
    world = World()
    first = Classic(world, "s1", group_instance_id="place")
    answer = world.result(first.send_join())
    first.id, first.generation = answer.member_id, answer.generation
    world.sync(first.id, first.generation, (first.id, encode_assignment({"a": (0, 1, 2)}, 1)))
    back = join(world, "n", instance_id="place")
    assert back.assignment == [("a", [0, 1, 2])]
    with pytest.raises(FencedInstance):
        world.beat(first.id, first.generation, "place")


def test_who_waits_in_a_rebalance_when_the_group_moves_is_told_to_join_again() -> None:
    world = World()
    (one,) = classic_group(world, "c1")
    late = Classic(world, "late")
    ticket = late.send_join()
    assert world.result(ticket) is None
    join(world, "n")
    with pytest.raises(RebalanceInProgress):
        world.result(ticket)
    assert one.beat()


def test_a_crash_in_the_middle_changes_nothing() -> None:
    world = World()
    one, two = classic_group(world, "c1", "c2")
    new = join(world, "n")
    one.join()
    before = assigned(world)
    world.crash()
    assert kind(world) == "consumer" and assigned(world) == before
    one.follow()
    two.follow()
    world.touch("n", new.member_epoch, owned=[])
    one.follow()
    two.follow()
    assert world.state() == "Stable"


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_no_partition_has_two_readers_and_in_the_end_each_has_one(seed: int) -> None:
    chance = random.Random(seed)
    world = World(topics={"a": 5})
    classics = [Classic(world, f"c{number}") for number in range(3)]
    consumers: dict[str, int] = {}
    held: dict[str, Parts] = {}
    first = join(world, "n0")
    consumers["n0"], held["n0"] = first.member_epoch, make(first.assignment)
    for member in classics:
        member.join()
    for _ in range(200):
        if chance.random() < 0.5:
            member = chance.choice(classics)
            if member.beat():
                member.join()
        else:
            name = chance.choice(sorted(consumers))
            told = world.touch(name, consumers[name], owned=list(held[name].items()))
            consumers[name] = told.member_epoch
            if told.assignment is not None:
                held[name] = make(told.assignment)
        if chance.random() < 0.05 and len(consumers) < 3:
            name = f"n{len(consumers)}"
            told = join(world, name)
            consumers[name], held[name] = told.member_epoch, make(told.assignment)
        read = [part for owned in (*held.values(), *(one.owned for one in classics)) for part in owned.get("a", ())]
        assert len(read) == len(set(read)), "two readers"
        world.run(chance.choice((0, 100)))
    assert sorted(read) == [0, 1, 2, 3, 4]
