"""Which nodes a shard should be on: even by weight, replicas in different racks, leaders spread. Pure.

A plan names only what changes, and moves as little as it can: what lies well stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

_GAIN_MIN: Final = 0.01  # of what is uneven: what helps less is not worth a move
Plan = dict[int, tuple[int, ...]]  # the replicas that a shard is to have; the first is to lead


class HeldShard(NamedTuple):
    """A shard as it is: its replicas, how many it should have, what each weighs, and what leading it weighs."""

    replicas: tuple[int, ...]
    wanted: int
    weight: int = 1
    lead_weight: int = 1


Held = tuple[tuple[int, ...], int]  # replicas, and how many there should be


def by_bytes(held: Mapping[int, Held], sizes: Mapping[int, int]) -> dict[int, HeldShard]:
    """Nodes are to hold as many bytes, and lead as many shards. An empty shard has a little weight too."""
    least = 1 + sum(sizes.values()) // max(1, len(sizes))
    return {shard: HeldShard(*one, least + sizes.get(shard, 0)) for shard, one in held.items()}


def by_traffic(held: Mapping[int, Held], busy: Mapping[int, tuple[int, int]]) -> dict[int, HeldShard]:
    """Nodes are to have as much to do. Whatever is written is written at every replica; its leader also sends it to the
    others, and to those who read. A shard where nothing happens has a little weight too."""
    total = sum(written + read for written, read in busy.values())
    least = 1 + total // (10 * max(1, len(held)))
    found = dict[int, HeldShard]()
    for shard, one in held.items():
        written, read = busy.get(shard, (0, 0))
        found[shard] = HeldShard(*one, least + written, least + written + read)
    return found


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
        leads[chosen[shard]] += board.shards[shard].lead_weight
    if even:
        _spread_leaders(board, chosen, leads)
    return chosen


def _spread_leaders(board: _Board, chosen: dict[int, int], leads: dict[int, int]) -> None:
    for _ in range(len(chosen)):
        moved = False
        for shard in sorted(chosen, key=lambda one: (-board.shards[one].lead_weight, one)):
            leader, weight = chosen[shard], board.shards[shard].lead_weight
            other = min(board.placed[shard], key=lambda node: (leads[node], node))
            if leads[other] + weight < leads[leader]:
                leads[leader], leads[other], chosen[shard] = leads[leader] - weight, leads[other] + weight, other
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


# --- a little at a time ------------------------------------------------------------------------------------------


class BalanceBounds(NamedTuple):
    """How uneven nodes may be, in percent above the average, and how many shards may move at once."""

    slack_percent: int
    moves_max: int
    leaders_only: bool = False


def next_moves(shards: Mapping[int, HeldShard], racks: Mapping[int, str], bounds: BalanceBounds) -> Plan:
    """The moves that help most, of those that would make all even; none if it is even enough, or nothing helps. None
    leaves a shard with fewer replicas because there are too few nodes."""
    held, chosen = dict(shards), Plan()
    if max(map(_excess, _loads(held, racks))) <= bounds.slack_percent / 100:
        return chosen
    plan = {
        shard: target
        for shard, target in planned(shards, racks).items()
        if len(target) >= min(shards[shard].wanted, len(shards[shard].replicas))
    }
    if bounds.leaders_only:
        plan = {shard: target for shard, target in plan.items() if {*target} == {*shards[shard].replicas}}
    for _ in range(min(bounds.moves_max, len(plan))):
        left = [shard for shard in sorted(plan) if shard not in chosen]
        best = min(left, key=lambda shard: _unevenness(_moved(held, shard, plan[shard]), racks))
        after = _moved(held, best, plan[best])
        if _unevenness(after, racks) > _unevenness(held, racks) * (1 - _GAIN_MIN):
            break
        held, chosen[best] = after, plan[best]
    return chosen


def _moved(shards: Mapping[int, HeldShard], shard: int, target: tuple[int, ...]) -> dict[int, HeldShard]:
    return {**shards, shard: shards[shard]._replace(replicas=target)}


def _unevenness(shards: Mapping[int, HeldShard], racks: Mapping[int, str]) -> float:
    """Falls with every move from a node that has more to one that has less."""
    return sum((load * len(loads) / max(1, sum(loads)) - 1) ** 2 for loads in _loads(shards, racks) for load in loads)


def _loads(shards: Mapping[int, HeldShard], racks: Mapping[int, str]) -> tuple[Collection[int], Collection[int]]:
    """What nodes lead, and what they hold."""
    leads, holds = dict.fromkeys(racks, 0), dict.fromkeys(racks, 0)
    for one in shards.values():
        for node in one.replicas:
            if node in racks:
                holds[node] += one.weight
        if one.replicas and one.replicas[0] in racks:
            leads[one.replicas[0]] += one.lead_weight
    return leads.values(), holds.values()


def _excess(loads: Collection[int]) -> float:
    """How much more than the average the node has that has most."""
    total = sum(loads)
    return max(loads) * len(loads) / total - 1 if total else 0.0
