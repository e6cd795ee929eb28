"""Data as JSON text, by the schema that it was written with."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec

from goqueue.base.limits import DECODED_CHARS_MAX, MESSAGE_DEPTH_MAX, SCHEMA_EMPTY_VALUES_MAX
from goqueue.core.schemas.avro_cursor import AvroCursor, BadAvro
from goqueue.core.schemas.avro_schema import AvroDocument, AvroType
from goqueue.core.schemas.kinds import Document
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_schema import ProtoDocument

_VALUES_PER_BYTE = 8  # records and unions around what the bytes mean


def decoded(document: Document, data: bytes, indexes: tuple[int, ...] | None = None) -> str:
    """Raises a `Mismatch` if the data is not what the schema says. The indexes are those of a Protobuf message."""
    if isinstance(document, AvroDocument):
        return _avro(document, data)
    if isinstance(document, ProtoDocument):
        return _proto(document, data, indexes or (0,))
    try:
        msgspec.json.decode(data)
        return data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Mismatch((), "it is not JSON") from None


def _avro(document: AvroDocument, data: bytes) -> str:
    reader = _AvroReader(data)
    try:
        value = reader.value(document.root, 0)
    except BadAvro as error:
        raise Mismatch((), str(error)) from None
    return msgspec.json.encode(_bounded(value)).decode()


def _bounded(value: Any) -> Any:
    """The names in it are the schema's: a byte of data can stand for as long a name as that has."""
    left, waiting = DECODED_CHARS_MAX, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            left -= sum(map(len, one))
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, str):
            left -= len(one)
        if left < 0:
            raise Mismatch((), f"as JSON it has more than {DECODED_CHARS_MAX:,} characters")
    return value


class _AvroReader(AvroCursor):
    """Builds the value. What takes no bytes is counted, everything else is bounded by the length of the data."""

    __slots__ = ("left",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.left = SCHEMA_EMPTY_VALUES_MAX + _VALUES_PER_BYTE * len(data)

    def value(self, type_: AvroType, depth: int) -> Any:
        self.left -= 1
        if depth > MESSAGE_DEPTH_MAX:
            raise BadAvro("nested too deep")
        if self.left < 0:
            raise BadAvro("too many values that take no bytes")
        match type_.kind:
            case "record":
                return {field.name: self.value(field.type, depth + 1) for field in type_.fields}
            case "int" | "long":
                return self.number(32 if type_.kind == "int" else 64)
            case "string":
                return self.text()
            case "bytes":
                return _octets(self.octets())
            case "union":
                return self.value(type_.branches[self.choice(len(type_.branches), "branch")], depth + 1)
            case "enum":
                return type_.symbols[self.choice(len(type_.symbols), "symbol")]
            case "array":
                return [self.value(type_.element, depth + 1) for _ in self._elements()]
            case "map":
                return {self.text(): self.value(type_.element, depth + 1) for _ in self._elements()}
            case "boolean":
                return self.truth()
            case "float":
                return struct.unpack("<f", self.take(4))[0]
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "fixed":
                return _octets(self.take(type_.size))
            case _:
                return None

    def _elements(self) -> Any:
        while count := self.number():
            if count < 0:
                count, _ = -count, self.number()
            yield from range(count)


def _octets(data: bytes) -> str:
    """As Avro's own JSON has it: a character for each byte."""
    return data.decode("latin-1")


def _proto(document: ProtoDocument, data: bytes, indexes: tuple[int, ...]) -> str:
    from google.protobuf import json_format, message, message_factory

    described = document.message(indexes)
    if described is None:
        raise Mismatch((), f"the schema has no message at {list(indexes)}")
    made = message_factory.GetMessageClass(described)()
    try:
        made.ParseFromString(data)
        return json.dumps(_bounded(json_format.MessageToDict(made, preserving_proto_field_name=True)))
    except (message.DecodeError, json_format.Error, ValueError, TypeError, RecursionError) as error:
        raise Mismatch((), str(error)[:200] or "it is not what the schema says") from None
