"""Messages that can be told apart and checked: a number, a seal over it, and filling up to the size."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from bench.compare.model import CheckFailed

_HEAD = 16  # eight digits of number, eight of its seal


def body(number: int, size: int = 100) -> bytes:
    digits = b"%08d" % number
    return digits + b"%08x" % zlib.crc32(digits) + b"x" * (size - _HEAD)


def number_of(found: bytes | str, size: int = 100) -> int:
    """Raises CheckFailed for a message that is not as it was sent."""
    data = found.encode() if isinstance(found, str) else found
    number = int(data[:8]) if data[:8].isdigit() else -1
    if number < 0 or data != body(number, size):
        raise CheckFailed(f"a message came back damaged: {data[:40]!r}")
    return number


class Ledger:
    """Every number that was acknowledged comes back, once."""

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._seen = bytearray(count)
        self.count = 0

    def note(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            at = number - self._first
            if not 0 <= at < len(self._seen):
                raise CheckFailed(f"message {number} came, which was never sent")
            if self._seen[at]:
                raise CheckFailed(f"message {number} came twice")
            self._seen[at] = 1
            self.count += 1

    @property
    def is_whole(self) -> bool:
        return self.count == len(self._seen)

    def close(self) -> None:
        if not self.is_whole:
            missing = self._first + self._seen.index(0)
            raise CheckFailed(f"{len(self._seen) - self.count} messages never came, {missing} the first of them")
