"""Which nodes a shard should be on: even by weight, replicas in different racks, leaders spread. Pure.

A plan names only what changes, and moves as little as it can: what lies well stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Plan = dict[int, tuple[int, ...]]  # the replicas that a shard is to have; the first is to lead


class HeldShard(NamedTuple):
    """A shard as it is: its replicas, how many it should have, and what it weighs."""

    replicas: tuple[int, ...]
    wanted: int
    weight: int = 1


class _Board:
    """Shards on nodes while a plan is made."""

    def __init__(self, shards: Mapping[int, HeldShard], racks: Mapping[int, str]) -> None:
        self.shards = shards
        self.racks = racks
        self.placed = {shard: [node for node in one.replicas if node in racks] for shard, one in shards.items()}
        self.loads = dict.fromkeys(racks, 0)
        for shard, nodes in self.placed.items():
            for node in nodes:
                self.loads[node] += shards[shard].weight

    def add(self, shard: int, node: int) -> None:
        self.placed[shard].append(node)
        self.loads[node] += self.shards[shard].weight

    def drop(self, shard: int, node: int) -> None:
        self.placed[shard].remove(node)
        self.loads[node] -= self.shards[shard].weight

    def candidates(self, shard: int, without: int | None = None) -> list[int]:
        """Nodes that could hold it too, the best first: in a rack of their own, and with little."""
        used = [self.racks[node] for node in self.placed[shard] if node != without]
        free = [node for node in self.racks if node not in self.placed[shard]]
        return sorted(free, key=lambda node: (used.count(self.racks[node]), self.loads[node], node))


def planned(shards: Mapping[int, HeldShard], racks: Mapping[int, str], even: bool = True) -> Plan:
    """`racks` are the nodes that may hold something. Without `even`, only what has to move does: shards of other nodes,
    and those with too few replicas or too many."""
    board = _Board(shards, racks)
    for shard in sorted(shards, key=lambda one: (-shards[one].weight, one)):
        _complete(board, shard)
    if even:
        _even_out(board)
    return _named(board, _led(board, even))


def _complete(board: _Board, shard: int) -> None:
    wanted = board.shards[shard].wanted
    while len(board.placed[shard]) < wanted and (free := board.candidates(shard)):
        board.add(shard, free[0])
    while len(board.placed[shard]) > wanted:
        board.drop(shard, max(board.placed[shard], key=lambda node: (board.loads[node], node)))


def _even_out(board: _Board) -> None:
    """One replica after the other, each from a fuller node to an emptier one, while that makes the two more alike."""
    for _ in range(4 * len(board.shards) + 4):
        if not _improved(board):
            return


def _improved(board: _Board) -> bool:
    for fullest in sorted(board.loads, key=lambda node: (-board.loads[node], node)):
        held = [shard for shard, nodes in board.placed.items() if fullest in nodes]
        for shard in sorted(held, key=lambda one: (-board.shards[one].weight, one)):
            for node in board.candidates(shard, without=fullest):
                if _is_better(board, shard, fullest, node):
                    board.drop(shard, fullest)
                    board.add(shard, node)
                    return True
    return False


def _is_better(board: _Board, shard: int, source: int, target: int) -> bool:
    weight, others = board.shards[shard].weight, [one for one in board.placed[shard] if one != source]
    crowded = [board.racks[one] for one in others]
    if crowded.count(board.racks[target]) > crowded.count(board.racks[source]):
        return False
    return board.loads[target] + weight < board.loads[source]


def _led(board: _Board, even: bool) -> dict[int, int]:
    """Who leads each: whoever does now, unless another of its replicas leads much less."""
    leads = dict.fromkeys(board.racks, 0)
    chosen: dict[int, int] = {}
    for shard in sorted(board.placed):
        nodes = board.placed[shard]
        if not nodes:
            continue
        now = board.shards[shard].replicas[0]
        chosen[shard] = now if now in nodes else min(nodes, key=lambda node: (leads[node], node))
        leads[chosen[shard]] += 1
    if even:
        _spread_leaders(board, chosen, leads)
    return chosen


def _spread_leaders(board: _Board, chosen: dict[int, int], leads: dict[int, int]) -> None:
    for _ in range(len(chosen)):
        moved = False
        for shard, leader in chosen.items():
            other = min(board.placed[shard], key=lambda node: (leads[node], node))
            if leads[other] + 1 < leads[leader]:
                leads[leader], leads[other], chosen[shard] = leads[leader] - 1, leads[other] + 1, other
                moved = True
        if not moved:
            return


def _named(board: _Board, leaders: Mapping[int, int]) -> Plan:
    plan: Plan = {}
    for shard, leader in leaders.items():
        target = (leader, *_in_order(board.placed[shard], board.shards[shard].replicas, leader))
        if target != board.shards[shard].replicas:
            plan[shard] = target
    return plan


def _in_order(nodes: Sequence[int], before: Sequence[int], leader: int) -> list[int]:
    """Those that were there in the order that they had."""
    staying = [node for node in before if node in nodes and node != leader]
    return [*staying, *(node for node in nodes if node not in staying and node != leader)]
