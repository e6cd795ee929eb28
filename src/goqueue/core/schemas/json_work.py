"""Bounds the work of checking one message against a JSON Schema, before it is done: the engine cannot be stopped.

Three estimates, each dearer and closer than the one before: by the message's length, by its brackets and commas, and
by a walk through the value that counts what every subschema would do. Ordinary messages need the first alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from goqueue.base.limits import CHECK_ERROR_STEPS_MAX, CHECK_STEPS_MAX, CHECK_WALK_STEPS_MAX, NUMBER_DIGITS_MAX
from goqueue.core.schemas.json_cost import JsonCost, Reach
from goqueue.core.schemas.json_loops import Loop
from goqueue.core.schemas.mismatch import Mismatch

_ROUNDS_MAX: Final = 8
_ENDLESS: Final = float("inf")
_OFTEN_MAX: Final = 1e12
_BLOCK: Final = NUMBER_DIGITS_MAX // 2
_NUMBER_MAX: Final = 10**NUMBER_DIGITS_MAX

_Steps = tuple[float, float, float]  # for an object or array, for another value, for each byte of text
_Known = dict[int, _Steps]
_NOTHING: Final[_Steps] = (0.0, 0.0, 0.0)


class JsonWork:
    """`light_bytes`: a message no longer than this needs no further look."""

    def __init__(self, cost: JsonCost) -> None:
        self._cost = cost
        reached = cost.reachable()
        _limit_loops(cost, reached)
        self._whole, self._leaf, self._text = _bounds(cost, reached)
        self._spread = max((_spread(one) for one in reached), default=0)
        self._most = max((one.whole for one in reached), default=1)
        self._for_each = (
            self._whole / 2 + self._text
        )  # a value takes two bytes at least, with what parts it from others
        fits = 0 if self._whole == _ENDLESS else int(max(0.0, CHECK_STEPS_MAX - self._whole) / self._for_each)
        self.light_bytes = min(fits, NUMBER_DIGITS_MAX - 1)  # a number too long does not fit into fewer

    def admit(self, data: bytes, value: Any) -> None:
        """Raises a `Mismatch` if the message would take too much work, or holds a number that does."""
        if len(data) >= NUMBER_DIGITS_MAX and _has_long_run(data):
            _refuse_long_numbers(value)
        if len(data) * self._for_each + self._whole <= CHECK_STEPS_MAX:
            return
        opened = data.count(b"{") + data.count(b"[")
        values = opened + data.count(b",") + 1
        text = len(data) * self._text
        if opened * self._whole + values * self._leaf + text <= CHECK_STEPS_MAX:
            return
        depth = min(opened, 64)
        if values * self._most * max(1, self._spread) ** depth + text <= CHECK_STEPS_MAX:
            return
        self._walk(value)

    def can_explain(self, value: Any) -> bool:
        """Whether the engine's own account of a mismatch stays small: it copies the value for every branch it tried."""
        if not self._cost.has_choices:
            return True
        size, depth = _extent(value, CHECK_ERROR_STEPS_MAX)
        per_value = self._whole
        if self._cost.loops:  # what the engine remembers helps it to decide, not to explain
            per_value = self._most * float(max(1, self._spread)) ** min(depth, 64)
        return size * depth * per_value <= CHECK_ERROR_STEPS_MAX

    def _walk(self, value: Any) -> None:
        steps, done = 0.0, 0
        start, loops = self._cost.start, self._cost.loops
        waiting: list[tuple[Any, str, dict[int, int]]] = [] if start is None else [(value, "", {id(start.node): 1})]
        while waiting:
            one, name, active = waiting.pop()
            reached = [(self._cost.reach(node_id), times) for node_id, times in active.items()]
            steps += _steps(one, name, reached)
            for label, child in _children(one):
                met = _met(loops, reached, label)
                waiting.append((child, label if isinstance(label, str) else "", met))
                done += 1 + len(reached) + len(met)
                if steps > CHECK_STEPS_MAX or done > CHECK_WALK_STEPS_MAX:
                    message = "checking it takes too many steps: it is too large for a schema of so many branches"
                    raise Mismatch((), message)
        if steps > CHECK_STEPS_MAX:
            raise Mismatch((), "checking it takes too many steps for the schema's patterns and branches")


def _children(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _steps(value: Any, name: str, reached: list[tuple[Reach, int]]) -> float:
    if isinstance(value, dict | list):
        steps = float(sum(times * one.whole for one, times in reached))
        size = len(name)
    else:
        steps = float(sum(times * one.leaf for one, times in reached))
        size = len(name) + (len(value) if isinstance(value, str) else 0)
    return steps + size * sum(times * one.text for one, times in reached)


def _met(loops: dict[int, Loop], reached: list[tuple[Reach, int]], label: str | int) -> dict[int, int]:
    """The subschemas that a member or an item meets, and how often."""
    found: dict[int, int] = {}
    within: dict[int, int] = {}
    for one, times in reached:
        loop = loops.get(id(one.node))
        for listed in (one.named.get(label), one.members if isinstance(label, str) else one.elements):
            for node_id, often in (listed or {}).items():
                to = within if loop is not None and node_id in loop.members else found
                to[node_id] = to.get(node_id, 0) + times * often
    for node_id, times in within.items():
        found[node_id] = found.get(node_id, 0) + min(times, int(loops[node_id].often))
    return found


def _limit_loops(cost: JsonCost, reached: list[Reach]) -> None:
    """Between two rounds every way passes one reference whose outcome is remembered."""
    for loop in {id(one): one for one in cost.loops.values()}.values():
        spread = max((_spread(one) for one in reached if id(one.node) in loop.members), default=1)
        loop.often = min(float(max(1, spread)) ** max(0, cost.referred(loop.members) - 1), _OFTEN_MAX)


def _bounds(cost: JsonCost, order: list[Reach]) -> _Steps:
    """The most steps at any one place of any value: for objects and arrays, for others, and for each byte of text."""
    if cost.start is None:
        return 1, 1, 0
    known = {id(one.node): (float(one.whole), float(one.leaf), one.text) for one in order}
    for _ in range(_ROUNDS_MAX):
        before = dict(known)
        totals: dict[int, _Steps] = {}  # by loop: each of its subschemas may be met at the same place of the value
        for one in order:
            own, inner = (float(one.whole), float(one.leaf), one.text), _inner(one, known, cost.loops)
            loop = cost.loops.get(id(one.node))
            if loop is None:
                known[id(one.node)] = _higher(own, inner)
            else:
                totals[id(loop)] = _sum(totals.get(id(loop), _NOTHING), _sum(own, inner), loop.often)
        for one in order:
            loop = cost.loops.get(id(one.node))
            if loop is not None:
                known[id(one.node)] = totals[id(loop)]
        if known == before:
            return known[id(cost.start.node)]
    return _ENDLESS, _ENDLESS, _ENDLESS


def _inner(one: Reach, known: _Known, loops: dict[int, Loop]) -> _Steps:
    """What a member or item of the value meets at most; the rest of a loop is counted for the loop as a whole."""
    loop = loops.get(id(one.node))
    inside = frozenset[int]() if loop is None else loop.members
    anywhere = _higher(_total(one.members, known, inside), _total(one.elements, known, inside))
    best = anywhere
    for listed in one.named.values():
        best = _higher(best, _sum(anywhere, _total(listed, known, inside)))
    return best


def _total(found: dict[int, int], known: _Known, inside: frozenset[int]) -> _Steps:
    whole = leaf = text = 0.0
    for node_id, times in found.items():
        if node_id not in inside:
            steps = known[node_id]
            whole, leaf, text = whole + times * steps[0], leaf + times * steps[1], text + times * steps[2]
    return whole, leaf, text


def _sum(one: _Steps, other: _Steps, often: float = 1.0) -> _Steps:
    return one[0] + often * other[0], one[1] + often * other[1], one[2] + often * other[2]


def _higher(one: _Steps, other: _Steps) -> _Steps:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def _spread(one: Reach) -> int:
    """How many subschemas one member meets at most."""
    named = max((sum(listed.values()) for listed in one.named.values()), default=0)
    return named + max(sum(one.members.values()), sum(one.elements.values()))


def _has_long_run(data: bytes) -> bool:
    """A run of so many digits fills at least one whole block."""
    for at in range(0, len(data), _BLOCK):  # noqa: SIM110 - a generator takes three times as long
        if data[at : at + _BLOCK].isdigit():
            return True
    return False


def _refuse_long_numbers(value: Any) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, int) and not -_NUMBER_MAX < one < _NUMBER_MAX:
            raise Mismatch((), f"a number of more than {NUMBER_DIGITS_MAX} digits")
        waiting += one if isinstance(one, list) else one.values() if isinstance(one, dict) else ()


def _extent(value: Any, size_max: int) -> tuple[int, int]:
    """How many values it holds, itself included, and how deep; counting stops at the limit."""
    size, depth, level = 0, 0, [value]
    while level and size <= size_max:
        size += len(level)
        depth += 1
        level = [
            child
            for one in level
            if isinstance(one, list | dict)
            for child in (one if isinstance(one, list) else one.values())
        ]
    return size, depth
