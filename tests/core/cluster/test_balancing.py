"""Where shards should be: even, in different racks, and with as little moved as it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.cluster.balancing import (
    BalanceBounds,
    HeldShard,
    Plan,
    by_bytes,
    by_traffic,
    next_moves,
    planned,
)


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


def loads(found: Mapping[int, tuple[int, ...]], busy: Mapping[int, tuple[int, int]]) -> Counter[int]:
    """What each node that leads has to do."""
    return Counter({node: sum(sum(busy[one]) for one, nodes in found.items() if nodes[0] == node) for node in range(3)})


def test_leaders_of_busy_shards_are_spread_by_what_they_do() -> None:
    """Shards 0 and 3 are busy, and led by the same node: as many are led everywhere, and yet it is not even."""
    shards, busy = spread(9, 3), {one: (1_000_000, 3_000_000) if one in (0, 3) else (1_000, 0) for one in range(9)}
    held = {number: (one.replicas, one.wanted) for number, one in shards.items()}
    racks = dict.fromkeys(range(3), "")
    assert planned(by_bytes(held, dict.fromkeys(range(9), 100)), racks) == {}, "it is even by what they hold"
    plan = planned(by_traffic(held, busy), racks)
    before, now = loads(after(shards, {}), busy), loads(after(shards, plan), busy)
    assert max(before.values()) > 8_000_000 and max(now.values()) < 4_100_000
    assert all(sorted(target) == [0, 1, 2] for target in plan.values()), "nothing has to be copied"


def test_replicas_of_busy_shards_go_to_idle_nodes_in_racks_of_their_own() -> None:
    shards, racks = spread(6, 3, 2), {0: "a", 1: "b", 2: "c", 3: "a"}
    held = {number: (one.replicas, one.wanted) for number, one in shards.items()}
    busy = dict.fromkeys(range(6), (1000000, 0))
    found = after(shards, planned(by_traffic(held, busy), racks))
    assert sum(3 in nodes for nodes in found.values()) >= 2
    assert all(len({racks[node] for node in nodes}) == 2 for nodes in found.values())


def test_where_nothing_happens_traffic_moves_nothing() -> None:
    held = {number: (one.replicas, one.wanted) for number, one in spread(9, 3).items()}
    assert planned(by_traffic(held, {}), dict.fromkeys(range(3), "")) == {}


# --- by itself ---------------------------------------------------------------------------------------------------


def busy_shards(busy: Mapping[int, tuple[int, int]], count: int = 9, nodes: int = 3) -> dict[int, HeldShard]:
    return by_traffic({number: (one.replicas, one.wanted) for number, one in spread(count, nodes).items()}, busy)


def test_what_is_even_enough_is_left_alone() -> None:
    busy = {one: (100_000 + 3_000 * one, 0) for one in range(9)}
    racks = dict.fromkeys(range(3), "")
    assert next_moves(busy_shards(busy), racks, BalanceBounds(20, 5)) == {}
    assert next_moves({}, racks, BalanceBounds(20, 5)) == {}


def test_nothing_has_fewer_replicas_to_be_even() -> None:
    """A node that is about to stop gets nothing, and comes back."""
    busy = {one: (4_000_000 if one in (0, 3, 6) else 1_000, 0) for one in range(9)}
    assert next_moves(busy_shards(busy), dict.fromkeys((0, 1), ""), BalanceBounds(20, 9)) == {}
    assert next_moves(busy_shards(busy), {}, BalanceBounds(20, 9)) == {}


def test_no_more_moves_than_may_and_the_best_first() -> None:
    busy = {one: (4_000_000 if one in (0, 3, 6) else 1_000, 0) for one in range(9)}
    shards, racks = busy_shards(busy), dict.fromkeys(range(3), "")
    one = next_moves(shards, racks, BalanceBounds(20, 1))
    assert len(one) == 1 and set(one) <= {0, 3, 6}, "a busy one, and nothing else"
    assert len(next_moves(shards, racks, BalanceBounds(20, 2))) == 2
    for _ in range(10):
        plan = next_moves(shards, racks, BalanceBounds(20, 1))
        shards = {number: found._replace(replicas=plan.get(number, found.replicas)) for number, found in shards.items()}
    assert plan == {} and len({shards[number].replicas[0] for number in (0, 3, 6)}) == 3, "it comes to rest"


def test_leaders_alone_copy_nothing() -> None:
    shards = busy_shards(dict.fromkeys(range(9), (1000000, 0)), nodes=3)
    racks = dict.fromkeys(range(4), "")
    assert next_moves(shards, racks, BalanceBounds(20, 9, leaders_only=True)) == {}
    moved = next_moves(shards, racks, BalanceBounds(20, 2))
    assert len(moved) == 2 and all(3 in target for target in moved.values())


@given(st.lists(st.integers(0, 5_000_000), min_size=6, max_size=12), st.integers(3, 5), st.integers(1, 3))
def test_it_always_comes_to_rest_and_keeps_racks(rates: list[int], nodes: int, at_once: int) -> None:
    shards = busy_shards({number: (rate, rate // 2) for number, rate in enumerate(rates)}, len(rates))
    racks = {node: "abc"[node % 3] for node in range(nodes)}
    for _ in range(60):
        plan = next_moves(shards, racks, BalanceBounds(20, at_once))
        if not plan:
            break
        assert len(plan) <= at_once
        shards = {number: one._replace(replicas=plan.get(number, one.replicas)) for number, one in shards.items()}
        assert all(len({racks[node] for node in one.replicas}) == 3 for one in shards.values())
    else:
        raise AssertionError("it moves for ever")
