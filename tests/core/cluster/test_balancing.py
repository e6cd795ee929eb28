"""Where shards should be: even, in different racks, and with as little moved as it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.cluster.balancing import HeldShard, Plan, planned


def spread(shards: int, nodes: int, factor: int = 3) -> dict[int, HeldShard]:
    return {
        shard: HeldShard(tuple((shard + step) % nodes for step in range(factor)), factor) for shard in range(shards)
    }


def after(shards: Mapping[int, HeldShard], plan: Plan) -> dict[int, tuple[int, ...]]:
    return {number: plan.get(number, one.replicas) for number, one in shards.items()}


def test_what_is_even_stays() -> None:
    assert planned(spread(9, 3), dict.fromkeys(range(3), "")) == {}


def test_a_single_node_gets_company() -> None:
    shards = {shard: HeldShard((0,), 3) for shard in range(8)}
    found = after(shards, planned(shards, dict.fromkeys(range(3), "")))
    assert all(sorted(nodes) == [0, 1, 2] for nodes in found.values())
    leads = Counter(nodes[0] for nodes in found.values())
    assert max(leads.values()) - min(leads.values()) <= 1 and len(leads) == 3


def test_new_nodes_take_their_share() -> None:
    shards = spread(15, 3)
    found = after(shards, planned(shards, dict.fromkeys(range(5), "")))
    held = Counter(node for nodes in found.values() for node in nodes)
    assert set(held.values()) == {9}
    leads = Counter(nodes[0] for nodes in found.values())
    assert max(leads.values()) <= 4


def test_a_node_that_goes_is_replaced_and_nothing_else_moves() -> None:
    shards = spread(8, 4)
    plan = planned(shards, dict.fromkeys((0, 1, 2), ""), even=False)
    assert set(plan) == {number for number, one in shards.items() if 3 in one.replicas}
    for number, target in plan.items():
        assert 3 not in target and set(shards[number].replicas) - {3} <= set(target)


def test_replicas_are_in_different_racks() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    shards = {shard: HeldShard((0,), 3) for shard in range(12)}
    found = after(shards, planned(shards, racks))
    assert all(len({racks[node] for node in nodes}) == 3 for nodes in found.values())


def test_heavy_shards_are_kept_apart() -> None:
    shards = {0: HeldShard((0,), 1, 100), 1: HeldShard((0,), 1, 100), 2: HeldShard((0,), 1), 3: HeldShard((0,), 1)}
    found = after(shards, planned(shards, {0: "", 1: ""}))
    assert found[0] != found[1]


def test_too_few_nodes_hold_what_they_can() -> None:
    shards = spread(4, 3)
    assert after(shards, planned(shards, {0: "", 1: ""}, even=False)) == {
        number: tuple(node for node in one.replicas if node != 2) for number, one in shards.items()
    }


held = st.builds(
    HeldShard,
    st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True).map(tuple),
    st.just(3),
    st.integers(1, 9),
)


@given(
    st.dictionaries(st.integers(0, 20), held, max_size=12),
    st.dictionaries(st.integers(0, 6), st.sampled_from("abc"), min_size=1, max_size=7),
    st.booleans(),
)
def test_any_plan_is_possible_and_the_next_one_is_empty(
    shards: dict[int, HeldShard], racks: dict[int, str], even: bool
) -> None:
    plan = planned(shards, racks, even)
    for number, target in plan.items():
        assert len(set(target)) == len(target) == min(3, len(racks)) and set(target) <= set(racks)
        assert target != shards[number].replicas
    settled = {
        number: HeldShard(plan.get(number, one.replicas), one.wanted, one.weight) for number, one in shards.items()
    }
    assert planned(settled, racks, even=False) == {}
