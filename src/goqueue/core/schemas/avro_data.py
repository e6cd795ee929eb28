"""Walks Avro data by its schema, without building values: is it whole, and nothing behind it?

Every count is held against the bytes that are left, so data cannot claim more than it brings.
"""

from __future__ import annotations

from goqueue.base.limits import MESSAGE_DEPTH_MAX, SCHEMA_EMPTY_VALUES_MAX
from goqueue.core.schemas.avro_schema import AvroDocument, AvroType
from goqueue.core.schemas.mismatch import Mismatch

_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VALUES_PER_BYTE = 8  # records and unions around what the bytes mean


class AvroChecker:
    """Checks the bytes of messages."""

    def __init__(self, document: AvroDocument) -> None:
        self._root = document.root

    def check(self, data: bytes) -> None:
        """Raises a `Mismatch`, or nothing."""
        walk = _Walk(data)
        try:
            walk.value(self._root, 0)
        except _Bad as error:
            raise Mismatch(walk.steps, str(error)) from None
        if walk.at != len(data):
            raise Mismatch((), f"{len(data) - walk.at} bytes follow the value")


class _Bad(Exception):
    pass


class _Walk:
    """A place in the data, and the steps that led there; they are left standing where it fails."""

    __slots__ = ("at", "data", "left", "steps")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.steps: list[str | int] = []
        # Of what may take no bytes; everything else is bounded by the length of the data.
        self.left = SCHEMA_EMPTY_VALUES_MAX + _VALUES_PER_BYTE * len(data)

    def value(self, type_: AvroType, depth: int) -> None:
        kind = type_.kind
        if depth > MESSAGE_DEPTH_MAX:
            raise _Bad("nested too deep")
        if kind == "record":
            self.left -= 1
            if self.left < 0:
                raise _Bad("too many values that take no bytes")
            for field in type_.fields:
                self.steps.append(field.name)
                self.value(field.type, depth + 1)
                self.steps.pop()
        elif kind in ("int", "long"):
            self._number(32 if kind == "int" else 64)
        elif kind in ("string", "bytes"):
            self._bytes(self._size(), kind == "string")
        elif kind == "union":
            self.value(type_.branches[self._choice(len(type_.branches), "branch")], depth + 1)
        elif kind == "enum":
            self._choice(len(type_.symbols), "symbol")
        elif kind in ("array", "map"):
            self._blocks(type_, depth)
        elif kind == "boolean":
            if self._skip(1) not in (b"\0", b"\1"):
                raise _Bad("a boolean is neither 0 nor 1")
        else:
            self.left -= 1
            if self.left < 0:
                raise _Bad("too many values that take no bytes")
            self._skip(type_.size if kind == "fixed" else _FIXED[kind])

    def _blocks(self, type_: AvroType, depth: int) -> None:
        number = 0
        while count := self._number(64):
            if count < 0:
                count, _ = -count, self._number(64)
            for _ in range(count):
                self.steps.append(number)
                if type_.kind == "map":
                    self._bytes(self._size(), True)
                self.value(type_.element, depth + 1)
                self.steps.pop()
                number += 1

    def _choice(self, count: int, what: str) -> int:
        number = self._number(64)
        if not 0 <= number < count:
            raise _Bad(f"there is no {what} {number}")
        return number

    def _size(self) -> int:
        size = self._number(64)
        if size < 0:
            raise _Bad(f"a length of {size}")
        return size

    def _bytes(self, size: int, is_text: bool) -> None:
        found = self._skip(size)
        if is_text:
            try:
                found.decode()
            except UnicodeDecodeError:
                raise _Bad("text that is not UTF-8") from None

    def _skip(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise _Bad(f"{size} bytes are announced, {len(self.data) - self.at} are there")
        found = self.data[self.at : end]
        self.at = end
        return found

    def _number(self, bits: int) -> int:
        """A zigzag varint."""
        result = shift = 0
        data, at = self.data, self.at
        while True:
            if at >= len(data):
                raise _Bad("the data ends in the middle of a number" if shift else "the data ends here")
            byte = data[at]
            at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise _Bad("a number of more than ten bytes")
        if result >> bits:
            raise _Bad(f"a number of more than {bits} bits")
        self.at = at
        return (result >> 1) ^ -(result & 1)
