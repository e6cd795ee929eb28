"""The seven levels: which earlier versions a new schema is compared with, and in which direction.

BACKWARD: the new schema reads what the last one wrote. FORWARD: the last one reads what the new one writes. FULL: both.
The transitive forms ask that of all versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from goqueue.core.compat.breaks import Incompatibility
from goqueue.core.schemas.model import Level

T = TypeVar("T")
Compare = Callable[[T, T, bool], list[Incompatibility]]  # reader, writer, is the reader the newer one


class VersionBreak(msgspec.Struct, frozen=True):
    """A break against an earlier version. In `forward` the earlier one is the reader."""

    version: int
    forward: bool
    broken: Incompatibility

    def __str__(self) -> str:
        reads = f"version {self.version} cannot read" if self.forward else f"cannot read version {self.version}"
        return f"{reads}: {self.broken}"


def against(level: Level, new: T, earlier: Sequence[tuple[int, T]], compare: Compare[T]) -> list[VersionBreak]:
    """All breaks of a new schema; `earlier` are the live versions by number."""
    if level == "NONE":
        return []
    chosen = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    return [found for number, old in reversed(chosen) for found in _both(level, new, number, old, compare)]


def _both(level: Level, new: T, number: int, old: T, compare: Compare[T]) -> Iterator[VersionBreak]:
    if level.startswith(("BACKWARD", "FULL")):
        yield from (VersionBreak(number, False, one) for one in compare(new, old, True))
    if level.startswith(("FORWARD", "FULL")):
        yield from (VersionBreak(number, True, one) for one in compare(old, new, False))
