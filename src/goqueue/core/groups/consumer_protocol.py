"""The bytes that Kafka's classic consumers put into their subscriptions and assignments, as far as groups need them."""

from __future__ import annotations

import struct

from goqueue.core.groups.parts import Parts, make


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Topics of a consumer's subscription; None if the bytes are something else."""
    try:
        reader = _Reader(metadata)
        return [reader.text() for _ in range(reader.length())]
    except (struct.error, ValueError):
        return None


def assigned_partitions(assignment: bytes) -> Parts:
    """Partitions of a consumer's assignment; none if the bytes are something else."""
    try:
        reader = _Reader(assignment)
        return make([(reader.text(), reader.numbers()) for _ in range(reader.length())])
    except (struct.error, ValueError):
        return {}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2  # past the version

    def length(self) -> int:
        length = self._number(">i", 4)
        if not 0 <= length <= len(self._data):
            raise ValueError("a length that cannot be")
        return length

    def text(self) -> str:
        size = self._number(">h", 2)
        start = self._at
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise ValueError("a text that cannot be")
        return self._data[start : self._at].decode()

    def numbers(self) -> list[int]:
        return [self._number(">i", 4) for _ in range(self.length())]

    def _number(self, form: str, size: int) -> int:
        (number,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(number)
