"""Kinds of numbers, so that signatures say which one they mean."""

from typing import TypeAlias

import msgspec

Offset: TypeAlias = int  # a place in a log
Position: TypeAlias = int  # a place in a file
Millis: TypeAlias = int  # wall clock, since 1970
Epoch: TypeAlias = int  # leader epoch


class TopicPartition(msgspec.Struct, frozen=True, order=True, gc=False):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"
