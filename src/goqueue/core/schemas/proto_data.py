"""Walks Protobuf data by its message type, without building values.

Fields that the type does not know pass, as Protobuf has it. A known field must have its own wire type, whole contents,
text that is UTF-8 where the syntax asks for it, and be there if it is required.
"""

from __future__ import annotations

from typing import Any, Final

from goqueue.base.limits import MESSAGE_DEPTH_MAX
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_schema import ProtoDocument

_NUMBER_MAX: Final = 2**29 - 1
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_WIRE: Final = {
    1: _FIXED64, 2: _FIXED32, 3: _VARINT, 4: _VARINT, 5: _VARINT, 6: _FIXED64, 7: _FIXED32, 8: _VARINT, 9: _BYTES,
    11: _BYTES, 12: _BYTES, 13: _VARINT, 14: _VARINT, 15: _FIXED32, 16: _FIXED64, 17: _VARINT, 18: _VARINT,
}  # fmt: skip
_STRING: Final = 9
_MESSAGE: Final = 11
_VERIFY: Final = 2
_WIRE_NAMES: Final = {
    _VARINT: "a varint",
    _FIXED64: "8 bytes",
    _BYTES: "a length",
    _GROUP: "a group",
    _FIXED32: "4 bytes",
}


class _Message:
    """A message type, made ready: its fields by number."""

    __slots__ = ("fields", "name", "required")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[int, _Field] = {}
        self.required: frozenset[int] = frozenset()


class _Field:
    __slots__ = ("is_packable", "is_utf8", "message", "name", "wire")

    def __init__(self, given: Any, is_utf8: bool, message: _Message | None) -> None:
        self.name = str(given.name)
        self.wire = _WIRE.get(given.type, _BYTES)
        self.is_packable = given.is_repeated and self.wire != _BYTES
        self.is_utf8 = is_utf8 and given.type == _STRING
        self.message = message


class ProtoChecker:
    """Checks the bytes of messages."""

    def __init__(self, document: ProtoDocument) -> None:
        self._document = document
        self._known: dict[str, _Message] = {}
        self._placed: dict[tuple[int, ...], _Message] = {}
        self._texts: dict[str, _TextRules] = {}  # by file

    def check(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> None:
        """Raises a `Mismatch`, or nothing. The indexes say which of the file's messages it is."""
        ready = self._placed.get(indexes)
        if ready is None:
            found = self._document.message(indexes)
            if found is None:
                raise Mismatch((), f"the schema has no message at {list(indexes)}")
            ready = self._placed[indexes] = self._ready(found)
        walk = _Walk(data)
        try:
            walk.message(ready, 0, len(data), 0)
        except _Bad as error:
            raise Mismatch(walk.steps, str(error)) from None

    def _ready(self, given: Any) -> _Message:
        """Also everything that the message can hold."""
        waiting = [] if given.full_name in self._known else [given]
        made = self._made(given)
        while waiting:
            one = waiting.pop()
            message = self._made(one)
            if one.file.name not in self._texts:
                self._texts[one.file.name] = _TextRules(one.file)
            texts = self._texts[one.file.name]
            for field in one.fields:
                nested = field.message_type if field.type == _MESSAGE else None
                if nested is not None and nested.full_name not in self._known:
                    waiting.append(nested)
                is_utf8 = texts.holds_for(field)
                message.fields[field.number] = _Field(field, is_utf8, None if nested is None else self._made(nested))
            message.required = frozenset(field.number for field in one.fields if field.is_required)
        return made

    def _made(self, given: Any) -> _Message:
        return self._known.setdefault(given.full_name, _Message(given.full_name))


class _TextRules:
    """Which fields of a file hold text that must be UTF-8. Found out once a file: it copies the whole description."""

    def __init__(self, file: Any) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        described = FileDescriptorProto()
        file.CopyToProto(described)
        self._is_edition = described.syntax == "editions"
        self._default = described.syntax == "proto3" or (self._is_edition and _verifies(described, True))
        self._fields: dict[str, bool] = {}  # of editions: the nearest that says something decides
        waiting = [(one, described.package, self._default) for one in described.message_type if self._is_edition]
        while waiting:
            message, within, verified = waiting.pop()
            name, verified = f"{within}.{message.name}".lstrip("."), _verifies(message, verified)
            waiting += [(one, name, verified) for one in message.nested_type]
            self._fields |= {f"{name}.{field.name}": _verifies(field, verified) for field in message.field}

    def holds_for(self, field: Any) -> bool:
        return self._fields.get(field.full_name, self._default)


def _verifies(owner: Any, otherwise: bool) -> bool:
    features = owner.options.features
    return features.utf8_validation == _VERIFY if features.HasField("utf8_validation") else otherwise


class _Bad(Exception):
    pass


class _Walk:
    """The steps are left standing where it fails."""

    __slots__ = ("data", "steps")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.steps: list[str | int] = []

    def message(self, type_: _Message, at: int, end: int, depth: int) -> None:
        if depth > MESSAGE_DEPTH_MAX:
            raise _Bad("nested too deep")
        seen: set[int] = set()
        while at < end:
            number, wire, at = self._tag(at, end)
            field = type_.fields.get(number)
            if field is None:
                at = self._over(wire, number, at, end, depth)
            else:
                seen.add(number)
                self.steps.append(field.name)
                at = self._field(field, wire, at, end, depth)
                self.steps.pop()
        missing = type_.required - seen
        if missing:
            names = sorted(type_.fields[number].name for number in missing)
            raise _Bad(f"required and missing: {', '.join(names)}")

    def _field(self, field: _Field, wire: int, at: int, end: int, depth: int) -> int:
        if wire == _BYTES and field.is_packable:
            return self._packed(field, at, end)
        if wire != field.wire:
            raise _Bad(
                f"{_WIRE_NAMES.get(wire, 'an unknown wire type')} stands where {_WIRE_NAMES[field.wire]} belongs"
            )
        if wire != _BYTES:
            return self._over(wire, 0, at, end, depth)
        size, at = self._varint(at, end)
        stop = self._within(at + size, end, size, end - at)
        if field.message is not None:
            self.message(field.message, at, stop, depth + 1)
        elif field.is_utf8:
            try:
                self.data[at:stop].decode()
            except UnicodeDecodeError:
                raise _Bad("text that is not UTF-8") from None
        return stop

    def _packed(self, field: _Field, at: int, end: int) -> int:
        size, at = self._varint(at, end)
        stop = self._within(at + size, end, size, end - at)
        while at < stop:
            at = self._over(field.wire, 0, at, stop, 0)
        return stop

    def _over(self, wire: int, number: int, at: int, end: int, depth: int) -> int:
        """Behind a value that is not looked into."""
        if wire == _VARINT:
            return self._varint(at, end)[1]
        if wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            return self._within(at + size, end, size, end - at)
        if wire == _BYTES:
            size, at = self._varint(at, end)
            return self._within(at + size, end, size, end - at)
        if wire == _GROUP:
            return self._over_group(number, at, end, depth + 1)
        raise _Bad(f"wire type {wire}")

    def _over_group(self, number: int, at: int, end: int, depth: int) -> int:
        if depth > MESSAGE_DEPTH_MAX:
            raise _Bad("nested too deep")
        while True:
            inner, wire, at = self._tag(at, end)
            if wire == _GROUP_END:
                if inner != number:
                    raise _Bad("a group ends that did not begin")
                return at
            at = self._over(wire, inner, at, end, depth)

    def _tag(self, at: int, end: int) -> tuple[int, int, int]:
        """A field's number, its wire type, and the place behind."""
        tag, at = self._varint(at, end)
        if not 0 < tag >> 3 <= _NUMBER_MAX:
            raise _Bad(f"field number {tag >> 3}")
        return tag >> 3, tag & 7, at

    def _within(self, stop: int, end: int, size: int, left: int) -> int:
        if stop > end:
            raise _Bad(f"{size} bytes are announced, {left} are there")
        return stop

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        result = shift = 0
        while True:
            if at >= end:
                raise _Bad("the data ends in the middle of a number")
            byte = self.data[at]
            at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, at
            shift += 7
            if shift > 63:
                raise _Bad("a number of more than ten bytes")
