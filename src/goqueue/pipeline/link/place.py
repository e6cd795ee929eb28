"""Where messages lie: a partition, and a stretch of its offsets."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class OffsetRange(msgspec.Struct, frozen=True):
    """The offsets from `start` up to `end`, which is not part of it."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition)
