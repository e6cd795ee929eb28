"""A shard on its way from some nodes to others: nothing is given up before the new ones have it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.cluster.moving import adding, begun, cancelled, ended
from goqueue.core.cluster.records import NOBODY, NodeRecord, ShardRecord

LIVING = {node: NodeRecord("", f"{node}.1") for node in range(6)}


def shard(replicas: Sequence[int], in_sync: Sequence[int] | None = None, leader: int | None = None) -> ShardRecord:
    held = tuple(replicas if in_sync is None else in_sync)
    starts = {node: f"{node}.1" for node in held}
    return ShardRecord(replicas[0] if leader is None else leader, 4, tuple(replicas), held, starts=starts)


def caught_up(record: ShardRecord, *nodes: int) -> ShardRecord:
    starts = {**record.starts, **{node: f"{node}.1" for node in nodes}}
    return msgspec.structs.replace(record, in_sync=(*record.in_sync, *nodes), starts=starts)


def moved(record: ShardRecord, *target: int) -> ShardRecord:
    found = begun(record, target)
    assert found is not None
    return found


def test_it_is_held_by_old_and_new_until_the_new_are_in_sync() -> None:
    record = moved(shard((0, 1, 2)), 3, 4, 2)
    assert record.replicas == (3, 4, 2, 0, 1)
    assert record.in_sync == (0, 1, 2) and record.leader == 0 and record.epoch == 4
    assert adding(record) == (3, 4)
    assert ended(record, LIVING) is None
    assert ended(caught_up(record, 3), LIVING) is None
    found = ended(caught_up(record, 3, 4), LIVING)
    assert found is not None
    assert found.replicas == (3, 4, 2) and set(found.in_sync) == {2, 3, 4}
    assert (found.leader, found.epoch) == (3, 5), "the old leader hands over in the same change"
    assert found.target == found.before == () and set(found.starts) == {2, 3, 4}


def test_a_leader_that_stays_goes_on_in_its_epoch() -> None:
    found = ended(caught_up(moved(shard((0, 1, 2)), 0, 1, 3), 3), LIVING)
    assert found is not None and (found.leader, found.epoch, found.replicas) == (0, 4, (0, 1, 3))


def test_who_is_in_sync_with_another_start_has_not_arrived() -> None:
    record = caught_up(moved(shard((0,)), 1), 1)
    restarted = {**LIVING, 1: NodeRecord("", "1.2")}
    assert ended(record, restarted) is None
    assert ended(record, {0: LIVING[0]}) is None, "it is gone"


def test_a_move_that_is_cancelled_leaves_it_as_it_was() -> None:
    record = shard((0, 1, 2))
    assert cancelled(moved(record, 3, 4, 5)) == record
    assert cancelled(caught_up(moved(record, 3, 4, 5), 3)) == record
    assert cancelled(record) == record, "it does not move"


def test_a_new_replica_that_leads_gives_up_when_it_is_cancelled() -> None:
    record = msgspec.structs.replace(caught_up(moved(shard((0, 1)), 3, 4), 3), leader=3, epoch=7)
    found = cancelled(record)
    assert found is not None and (found.leader, found.epoch, found.in_sync) == (NOBODY, 8, (0, 1))


def test_the_last_in_sync_is_never_given_up() -> None:
    record = msgspec.structs.replace(
        caught_up(moved(shard((0, 1)), 3, 4), 3), leader=3, in_sync=(3,), starts={3: "3.1"}
    )
    assert cancelled(record) is None
    assert begun(record, (4, 5)) is None


def test_no_more_are_given_up_than_it_can_spare() -> None:
    """What was acknowledged while the new ones counted is on one disk else."""
    moving = caught_up(moved(shard((0, 1, 2)), 3, 4, 5), 3, 4)
    few = msgspec.structs.replace(moving, in_sync=(0, 3, 4), starts={node: f"{node}.1" for node in (0, 3, 4)})
    assert cancelled(few, 2) is None and begun(few, (5, 1, 2), 2) is None and begun(few, (0, 1, 2), 2) is None
    assert moved(few, 3, 4, 1).in_sync == (0, 3, 4), "they stay"
    assert cancelled(caught_up(few, 1), 2) == shard((0, 1, 2), (0, 1))
    alone = msgspec.structs.replace(few, in_sync=(0,), eligible=(3, 4))
    assert cancelled(alone, 2) == shard((0, 1, 2), (0,)), "there is nothing to wait for"


def test_a_move_may_turn_to_other_nodes() -> None:
    record = moved(caught_up(moved(shard((0, 1)), 2, 3), 2), 3, 4)
    assert record.replicas == (3, 4, 0, 1) and record.before == (0, 1) and record.in_sync == (0, 1)
    assert moved(record, 0, 1) == shard((0, 1)), "back to where it was is a cancellation"


sets = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)


@given(sets, sets, sets, st.booleans())
def test_whatever_is_asked_somebody_in_sync_always_stays(
    before: list[int], target: list[int], in_sync: list[int], is_cancelled: bool
) -> None:
    held = [node for node in before if node in in_sync] or before[:1]
    record = moved(shard(before, held, held[0]), *target)
    record = caught_up(record, *(node for node in record.target if node in in_sync and node not in record.in_sync))
    for found in (ended(record, LIVING), cancelled(record) if is_cancelled else None):
        if found is not None:
            assert (
                found.in_sync
                and set(found.in_sync) <= set(found.replicas)
                and set(found.in_sync) <= set(record.in_sync)
            )
            assert found.leader == NOBODY or found.leader in found.in_sync or found.leader == record.leader
            assert found.epoch > record.epoch or found.leader == record.leader
