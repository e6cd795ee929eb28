"""Are there values that fit two JSON Schemas both? True is a proof that there are none; False means nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.core.compat.json_facts import Conjunction, finite, highest, lowest, required, types_of, value_key
from goqueue.core.compat.json_objects import property_of

if TYPE_CHECKING:
    from goqueue.core.compat.json_schema import JsonProof

_DEPTH_MAX = 8


def are_disjoint(proof: JsonProof, one: Conjunction, other: Conjunction, depth: int = 0) -> bool:
    if depth > _DEPTH_MAX:
        return False
    proof.spend(1 + len(one.parts) + len(other.parts))
    for first, second in ((one, other), (other, one)):
        cases = proof.cases(first)
        if cases is not None:
            return all(are_disjoint(proof, case, second, depth + 1) for case in cases)
    both = types_of(one) & types_of(other)
    if not both or _values_apart(one, other):
        return True
    if both <= {"integer", "number"}:
        return _ranges_apart(one, other) or _ranges_apart(other, one)
    return both == {"object"} and _property_apart(proof, one, other, depth)


def _values_apart(one: Conjunction, other: Conjunction) -> bool:
    first, second = finite(one), finite(other)
    if first is None or second is None:
        return False
    return not {value_key(value) for value in first} & {value_key(value) for value in second}


def _ranges_apart(one: Conjunction, other: Conjunction) -> bool:
    top, bottom = highest(one), lowest(other)
    if top is None or bottom is None:
        return False
    return top.value < bottom.value or (top.value == bottom.value and (top.excluded or bottom.excluded))


def _property_apart(proof: JsonProof, one: Conjunction, other: Conjunction, depth: int) -> bool:
    """A property that must be there, and cannot be both."""
    for name in sorted(required(one) | required(other)):
        first, second = property_of(proof, one, name), property_of(proof, other, name)
        if are_disjoint(proof, first, second, depth + 1):
            return True
    return False
