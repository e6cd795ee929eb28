from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.assign import ASSIGNORS, Subscriber, assign_range, assign_roundrobin, assign_sticky
from goqueue.core.groups.parts import Parts


def subscribers(count: int, *topics: str) -> dict[str, Subscriber]:
    return {f"m{number:03}": Subscriber(frozenset(topics)) for number in range(count)}


def flat(assigned: dict[str, Parts]) -> list[tuple[str, int]]:
    return sorted(
        (topic, number) for parts in assigned.values() for topic, numbers in parts.items() for number in numbers
    )


def sizes(assigned: dict[str, Parts]) -> list[int]:
    return [sum(map(len, parts.values())) for parts in assigned.values()]


def stayed(before: dict[str, Parts], after: dict[str, Parts]) -> int:
    return sum(
        len(set(numbers) & set(after.get(name, {}).get(topic, ())))
        for name, parts in before.items()
        for topic, numbers in parts.items()
    )


def test_range_deals_blocks_of_each_topic() -> None:
    assert assign_range(subscribers(2, "a", "b"), {"a": 3, "b": 4}) == {
        "m000": {"a": (0, 1), "b": (0, 1)},
        "m001": {"a": (2,), "b": (2, 3)},
    }


def test_roundrobin_deals_over_all_topics_in_turn() -> None:
    assert assign_roundrobin(subscribers(2, "a", "b"), {"a": 3, "b": 3}) == {
        "m000": {"a": (0, 2), "b": (1,)},
        "m001": {"a": (1,), "b": (0, 2)},
    }


def test_roundrobin_passes_over_members_that_do_not_read_the_topic() -> None:
    members = {"m1": Subscriber(frozenset("a")), "m2": Subscriber(frozenset("ab"))}
    assert assign_roundrobin(members, {"a": 1, "b": 2}) == {"m1": {"a": (0,)}, "m2": {"b": (0, 1)}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_topics_that_do_not_exist_have_no_partitions(name: str) -> None:
    assert ASSIGNORS[name](subscribers(2, "ghost"), {"a": 3}) == {"m000": {}, "m001": {}}
    assert ASSIGNORS[name]({}, {"a": 3}) == {}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_hundred_members_over_a_thousand_partitions_take_no_time(name: str) -> None:
    topics = {f"t{number}": 100 for number in range(10)}
    first = ASSIGNORS[name](subscribers(99, *topics), topics)
    members = {who: Subscriber(frozenset(topics), first.get(who, {})) for who in subscribers(100, *topics)}
    members["m050"] = Subscriber(frozenset(list(topics)[:5]), first["m050"])
    start = time.process_time()
    after = ASSIGNORS[name](members, topics)
    assert time.process_time() - start < 0.2
    assert len(flat(after)) == 1_000


TOPICS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12), max_size=4)


@st.composite
def histories(draw: st.DrawFn, same_topics: bool) -> dict[str, Subscriber]:
    """Members that owned anything, even what others say they own or what is no more."""
    everything = frozenset(draw(st.sets(st.sampled_from("abcd"), min_size=1)))
    members = {}
    for number in range(draw(st.integers(1, 7))):
        topics = everything if same_topics else frozenset(draw(st.sets(st.sampled_from("abcd"))))
        owned = draw(
            st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 14), min_size=1).map(sorted).map(tuple))
        )
        members[f"m{number}"] = Subscriber(topics, owned)
    return members


@given(st.sampled_from(sorted(ASSIGNORS)), histories(same_topics=False), TOPICS)
def test_every_partition_goes_to_one_reader(name: str, members: dict[str, Subscriber], topics: dict[str, int]) -> None:
    assigned = ASSIGNORS[name](members, topics)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert flat(assigned) == sorted((topic, n) for topic in wanted for n in range(topics.get(topic, 0)))
    assert all(set(parts) <= members[who].topics for who, parts in assigned.items())


@given(histories(same_topics=True), TOPICS)
def test_sticky_is_balanced_within_one(members: dict[str, Subscriber], topics: dict[str, int]) -> None:
    share = sizes(assign_sticky(members, topics))
    assert max(share) - min(share) <= 1


@given(histories(same_topics=False), TOPICS)
def test_sticky_leaves_no_move_that_would_help(members: dict[str, Subscriber], topics: dict[str, int]) -> None:
    assigned = assign_sticky(members, topics)
    size = dict(zip(assigned, sizes(assigned), strict=True))
    for giver, parts in assigned.items():
        for topic in parts:
            assert all(size[giver] - size[who] < 2 for who in members if topic in members[who].topics)


@given(st.integers(1, 8), st.integers(1, 8), TOPICS)
def test_sticky_moves_no_more_than_balance_needs(before: int, after: int, topics: dict[str, int]) -> None:
    first = assign_sticky(subscribers(before, *topics), topics)
    members = {who: Subscriber(frozenset(topics), first.get(who, {})) for who in subscribers(after, *topics)}
    second = assign_sticky(members, topics)
    total = sum(topics.values())
    each, more = divmod(total, after)
    kept = sorted((sum(map(len, first[who].values())) for who in first if who in members), reverse=True)
    most = sum(min(size, each + (index < more)) for index, size in enumerate(kept))
    assert stayed(first, second) == most


def test_the_second_member_of_a_sticky_group_gets_its_half() -> None:
    members = {"m1": Subscriber(frozenset("a"), {"a": (0, 1, 2, 3)}), "m2": Subscriber(frozenset("a"))}
    assert sorted(sizes(assign_sticky(members, {"a": 4}))) == [2, 2]
