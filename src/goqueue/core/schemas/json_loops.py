"""Which subschemas of a JSON Schema hold themselves, and how often one place of a value can meet each of them.

The engine remembers what it found for a place when a reference leads back into a schema that it is within. So a schema
that holds itself does not multiply with the depth of a value; only the references within one round do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class Loop:
    """Subschemas that lead to each other. `often`: how many ways within one round lead to the same subschema."""

    __slots__ = ("members", "often")

    def __init__(self, members: frozenset[int]) -> None:
        self.members = members
        self.often = 1.0


def find_loops(nodes: Iterable[int], following: Callable[[int], Iterable[int]]) -> dict[int, Loop]:
    """By subschema the loop it is in; those in none are left out. Tarjan's way, without recursion."""
    found: dict[int, Loop] = {}
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for start in nodes:
        trail: list[tuple[int, Iterator[int]]] = []
        if start not in order:
            _enter(start, order, low, stack, on_stack, trail, following)
        while trail:
            node, steps = trail[-1]
            step = next(steps, None)
            if step is None:
                trail.pop()
                if trail:
                    low[trail[-1][0]] = min(low[trail[-1][0]], low[node])
                if low[node] == order[node]:
                    _close(node, stack, on_stack, found, following)
            elif step not in order:
                _enter(step, order, low, stack, on_stack, trail, following)
            elif step in on_stack:
                low[node] = min(low[node], order[step])
    return found


def _enter(
    node: int,
    order: dict[int, int],
    low: dict[int, int],
    stack: list[int],
    on_stack: set[int],
    trail: list[tuple[int, Iterator[int]]],
    following: Callable[[int], Iterable[int]],
) -> None:
    order[node] = low[node] = len(order)
    stack.append(node)
    on_stack.add(node)
    trail.append((node, iter(following(node))))


def _close(
    node: int,
    stack: list[int],
    on_stack: set[int],
    found: dict[int, Loop],
    following: Callable[[int], Iterable[int]],
) -> None:
    members: set[int] = set()
    while node not in members:
        one = stack.pop()
        on_stack.discard(one)
        members.add(one)
    if len(members) > 1 or node in following(node):
        loop = Loop(frozenset(members))
        found.update((one, loop) for one in members)
