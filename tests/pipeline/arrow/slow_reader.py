"""Records read one by one from the specification, without any of the product's code."""

from __future__ import annotations

Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]  # offset delta, key, value, headers


class Unreadable(Exception):
    """The bytes are not records."""


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Unreadable
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        bits = 0
        for place in range(10):
            (byte,) = self.take(1)
            bits |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                bits &= 2**64 - 1
                return (bits >> 1) ^ -(bits & 1)
        raise Unreadable

    def field(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.take(size)

    def name(self) -> str:
        found = self.field()
        try:
            return found.decode() if found is not None else self._no_name()
        except UnicodeDecodeError:
            raise Unreadable from None

    def _no_name(self) -> str:
        raise Unreadable

    @property
    def is_done(self) -> bool:
        return self.at == len(self.data)


def read_records(data: bytes, count: int, last_delta: int) -> list[Read]:
    """Exactly `count` records, and nothing behind them; `Unreadable` otherwise."""
    cursor = Cursor(data)
    found = [_record(Cursor(cursor.take(cursor.number())), last_delta) for _ in range(count)]
    if not cursor.is_done:
        raise Unreadable
    return found


def _record(cursor: Cursor, last_delta: int) -> Read:
    cursor.take(1)
    cursor.number()
    delta = cursor.number()
    key, value = cursor.field(), cursor.field()
    headers = [(cursor.name(), cursor.field()) for _ in range(_count(cursor))]
    if not cursor.is_done or not 0 <= delta <= last_delta:
        raise Unreadable
    return delta, key, value, headers


def _count(cursor: Cursor) -> int:
    count = cursor.number()
    if not 0 <= count <= len(cursor.data):
        raise Unreadable
    return count
