"""What the controller does about nodes that cannot read everything, or do not know yet whether they can."""

from __future__ import annotations

import msgspec

from goqueue.base.metadata import Change, Entry
from goqueue.core.cluster.controlling import Controlling
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NOBODY, MemberRecord, NodeRecord, ShardRecord, decode, encode

WHOLE = ShardRecord(0, 4, (0, 1, 2), (0, 1, 2), starts={0: "0.1", 1: "1.1", 2: "2.1"})


def decided(record: ShardRecord, *nodes: tuple[int, NodeRecord]) -> ShardRecord:
    """The record after everything that the controller wants is done."""
    while True:
        image = Image()
        values = {"shards/0": record, **{f"members/{node}": MemberRecord("d") for node in range(3)}}
        values |= {f"nodes/{node}": found for node, found in nodes}
        image.apply(Change(1, [Entry(key, encode(value), 1, 1) for key, value in values.items()], []))
        puts = [commit.puts["shards/0"] for commit in Controlling(1).commits(image) if "shards/0" in commit.puts]
        if not puts:
            return record
        found = decode(puts[0], ShardRecord)
        assert found is not None
        record = found


def node(number: int, start: int = 1, **facts: object) -> tuple[int, NodeRecord]:
    record = NodeRecord("", f"{number}.{start}", disk="d")
    return number, msgspec.structs.replace(record, **facts)


def test_a_damaged_leader_hands_over_to_one_that_is_whole() -> None:
    found = decided(WHOLE, node(0, damaged=(0,)), node(1, damaged=(0,)), node(2))
    assert (found.leader, found.epoch) == (2, 5)


def test_a_damaged_leader_goes_on_if_nobody_else_lives() -> None:
    assert decided(WHOLE, node(0, damaged=(0,))) == WHOLE


def test_a_damaged_node_is_not_elected_while_another_has_everything_even_if_that_is_dead() -> None:
    led_by_2 = msgspec.structs.replace(WHOLE, leader=2)
    assert decided(led_by_2, node(1, damaged=(0,))).leader == NOBODY
    assert decided(led_by_2, node(0, damaged=(0,)), node(1)).leader == 1


def test_a_damaged_node_is_elected_if_only_damaged_ones_have_anything() -> None:
    alone = ShardRecord(NOBODY, 4, (0, 1, 2), (1,), starts={1: "1.1"})
    assert decided(alone, node(0), node(1, damaged=(0,))).leader == 1


def test_damage_of_another_shard_changes_nothing() -> None:
    assert decided(WHOLE, node(0, damaged=(1,), short=(1,)), node(1), node(2)) == WHOLE


def test_a_start_counts_when_it_has_looked_at_its_logs() -> None:
    opening = decided(
        WHOLE, node(0, start=2, opening=True), node(1, start=2, opening=True), node(2, start=2, opening=True)
    )
    assert opening.leader == NOBODY and opening.starts == WHOLE.starts
    looked = decided(opening, node(0, start=2), node(1, start=2, opening=True))
    assert looked.leader == 0 and looked.starts[0] == "0.2"


def test_a_start_that_found_ends_missing_leaves_the_sets_if_others_are_in_them() -> None:
    found = decided(WHOLE, node(0, start=2, short=(0,)), node(1, start=2), node(2, start=2))
    assert found.leader == 1 and set(found.in_sync) == {1, 2}
    alone = ShardRecord(0, 4, (0, 1, 2), (0,), starts={0: "0.1"})
    assert decided(alone, node(0, start=2, short=(0,))).leader == 0
