"""A break: one reason why a reader cannot take all that a writer may write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from goqueue.base.limits import SCHEMA_BREAKS_MAX

GiveUp = Callable[[], bool]  # asked now and then: has it taken too long


class TooHard(Exception):
    """The comparison takes more steps, or more time, than anybody may cause."""


def never() -> bool:
    return False


class Incompatibility(msgspec.Struct, frozen=True):
    """`path` leads to the place in the schema, as a JSON pointer or a chain of names."""

    kind: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path}: {self.reason}"


def distinct(breaks: list[Incompatibility]) -> list[Incompatibility]:
    """Each once, in order, and not more than anybody would read."""
    return list(dict.fromkeys(breaks))[:SCHEMA_BREAKS_MAX]
