"""A place in Avro data, and the simple values that can stand there.

Every count is held against the bytes that are left, so data cannot claim more than it brings.
"""

from __future__ import annotations


class BadAvro(ValueError):
    """The data is not what its schema says."""


class AvroCursor:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise BadAvro(f"{size} bytes are announced, {len(self.data) - self.at} are there")
        found = self.data[self.at : end]
        self.at = end
        return found

    def number(self, bits: int = 64) -> int:
        """A zigzag varint."""
        result = shift = 0
        data, at = self.data, self.at
        while True:
            if at >= len(data):
                raise BadAvro("the data ends in the middle of a number" if shift else "the data ends here")
            byte = data[at]
            at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise BadAvro("a number of more than ten bytes")
        if result >> bits:
            raise BadAvro(f"a number of more than {bits} bits")
        self.at = at
        return (result >> 1) ^ -(result & 1)

    def choice(self, count: int, what: str) -> int:
        number = self.number()
        if not 0 <= number < count:
            raise BadAvro(f"there is no {what} {number}")
        return number

    def truth(self) -> bool:
        found = self.take(1)
        if found not in (b"\0", b"\1"):
            raise BadAvro("a boolean is neither 0 nor 1")
        return found == b"\1"

    def octets(self) -> bytes:
        size = self.number()
        if size < 0:
            raise BadAvro(f"a length of {size}")
        return self.take(size)

    def text(self) -> str:
        try:
            return self.octets().decode()
        except UnicodeDecodeError:
            raise BadAvro("text that is not UTF-8") from None
