"""Sets of partitions by topic: `{"orders": (0, 2)}`. Numbers ascend, and no topic is empty, so equal sets are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Parts: TypeAlias = dict[str, tuple[int, ...]]
PartList: TypeAlias = list[tuple[str, list[int]]]


def make(pairs: Iterable[tuple[str, Iterable[int]]]) -> Parts:
    """In order, without doubles and empty topics."""
    merged: dict[str, set[int]] = {}
    for topic, numbers in pairs:
        merged.setdefault(topic, set()).update(numbers)
    return {topic: tuple(sorted(merged[topic])) for topic in sorted(merged) if merged[topic]}


def listed(parts: Mapping[str, Sequence[int]]) -> PartList:
    """As replies carry it."""
    return [(topic, list(numbers)) for topic, numbers in sorted(parts.items())]


def minus(left: Parts, right: Mapping[str, Iterable[int]]) -> Parts:
    if not left or not right:
        return left
    return make((topic, set(numbers).difference(right.get(topic, ()))) for topic, numbers in left.items())


def both(left: Parts, right: Mapping[str, Iterable[int]]) -> Parts:
    if not left or not right:
        return {}
    return make((topic, set(numbers).intersection(right.get(topic, ()))) for topic, numbers in left.items())


def plus(left: Parts, right: Parts) -> Parts:
    if not left or not right:
        return left or right
    return make([*left.items(), *right.items()])
