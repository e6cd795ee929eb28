"""Walks Avro data by its schema, without building values: is it whole, and nothing behind it?"""

from __future__ import annotations

from goqueue.base.limits import MESSAGE_DEPTH_MAX, SCHEMA_EMPTY_VALUES_MAX
from goqueue.core.schemas.avro_cursor import AvroCursor, BadAvro
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
        except BadAvro as error:
            raise Mismatch(walk.steps, str(error)) from None
        if walk.at != len(data):
            raise Mismatch((), f"{len(data) - walk.at} bytes follow the value")


class _Walk(AvroCursor):
    """A place in the data, and the steps that led there; they are left standing where it fails."""

    __slots__ = ("left", "steps")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.steps: list[str | int] = []
        # Of what may take no bytes; everything else is bounded by the length of the data.
        self.left = SCHEMA_EMPTY_VALUES_MAX + _VALUES_PER_BYTE * len(data)

    def value(self, type_: AvroType, depth: int) -> None:
        kind = type_.kind
        if depth > MESSAGE_DEPTH_MAX:
            raise BadAvro("nested too deep")
        if kind == "record":
            self.left -= 1
            if self.left < 0:
                raise BadAvro("too many values that take no bytes")
            for field in type_.fields:
                self.steps.append(field.name)
                self.value(field.type, depth + 1)
                self.steps.pop()
        elif kind in ("int", "long"):
            self.number(32 if kind == "int" else 64)
        elif kind == "string":
            self.text()
        elif kind == "bytes":
            self.octets()
        elif kind == "union":
            self.value(type_.branches[self.choice(len(type_.branches), "branch")], depth + 1)
        elif kind == "enum":
            self.choice(len(type_.symbols), "symbol")
        elif kind in ("array", "map"):
            self._blocks(type_, depth)
        elif kind == "boolean":
            self.truth()
        else:
            self.left -= 1
            if self.left < 0:
                raise BadAvro("too many values that take no bytes")
            self.take(type_.size if kind == "fixed" else _FIXED[kind])

    def _blocks(self, type_: AvroType, depth: int) -> None:
        number = 0
        while count := self.number():
            if count < 0:
                count, _ = -count, self.number()
            for _ in range(count):
                self.steps.append(number)
                if type_.kind == "map":
                    self.text()
                self.value(type_.element, depth + 1)
                self.steps.pop()
                number += 1
