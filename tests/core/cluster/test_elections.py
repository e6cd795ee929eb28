"""Who leads next, when nobody has to."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.core.cluster.elections import ENOUGH, elected, handed_over
from goqueue.core.cluster.records import NodeRecord, ShardRecord


@dataclass
class Nodes:
    leaving: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    @property
    def living(self) -> dict[int, NodeRecord]:
        return {
            node: NodeRecord("", f"{node}.1", leaving=node in self.leaving)
            for node in range(3)
            if node not in self.gone
        }


STARTS = {node: f"{node}.1" for node in range(3)}


def shard(leader: int, in_sync: tuple[int, ...] = (0, 1, 2)) -> ShardRecord:
    return ShardRecord(leader, 4, (0, 1, 2), in_sync, starts={node: STARTS[node] for node in in_sync})


def test_the_first_replica_gets_its_shard_back_when_it_has_been_there_for_a_while() -> None:
    nodes = Nodes()
    assert handed_over(shard(1), nodes.living, steady=set()) is None
    found = handed_over(shard(1), nodes.living, steady={0})
    assert found is not None and (found.leader, found.epoch) == (0, 5)
    assert handed_over(shard(1, (1, 2)), nodes.living, steady={0}) is None, "it is not in sync"
    assert handed_over(shard(0), nodes.living, steady={0}) is None, "it leads already"


def test_who_is_leaving_hands_over_to_somebody_in_sync_or_stays() -> None:
    nodes = Nodes(leaving=(0,))
    found = handed_over(shard(0), nodes.living, steady={0, 1, 2})
    assert found is not None and (found.leader, found.epoch, found.in_sync) == (1, 5, (1, 2)), "it is not waited for"
    found = handed_over(shard(0, (0, 1)), nodes.living, steady={0, 1, 2})
    assert found is not None and (found.leader, found.in_sync) == (1, (0, 1)), "one alone is not enough"
    assert handed_over(shard(0, (0,)), nodes.living, steady={0, 1, 2}) is None
    assert handed_over(shard(1), nodes.living, steady={0, 1, 2}) is None, "nothing goes back to it"


def test_the_dead_are_not_waited_for_if_enough_live() -> None:
    found = elected(shard(0), Nodes(gone=(0,)).living)
    assert found is not None and (found.leader, found.in_sync) == (1, (1, 2)) and len(found.in_sync) == ENOUGH
    found = elected(shard(0), Nodes(gone=(0, 1)).living)
    assert found is not None and (found.leader, found.in_sync) == (2, (0, 1, 2))


def test_who_was_started_again_and_may_have_lost_its_disk_is_not_one_of_those_that_are_enough() -> None:
    """It is not admitted yet: if it has nothing, the new leader would be the only one left that counts."""
    living = {**Nodes(gone=(0,)).living, 1: NodeRecord("", "1.2", opening=True)}
    found = elected(shard(0), living)
    assert found is not None and (found.leader, found.in_sync) == (2, (0, 1, 2))
