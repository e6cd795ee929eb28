"""Compares Protobuf schemas by what happens on the wire: does the reader understand what was written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from goqueue.base.limits import SCHEMA_COMPARE_STEPS_MAX
from goqueue.core.compat.breaks import GiveUp, Incompatibility, TooHard, distinct, never
from goqueue.core.schemas.proto_schema import ProtoDocument

# Types whose bytes are the same, so that one can be read as the other.
_ALIKE: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
_NAMES: Final = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
    "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip


def compare(
    reader: ProtoDocument, writer: ProtoDocument, is_newer: bool, give_up: GiveUp = never
) -> list[Incompatibility]:
    """Why the reader cannot take all that the writer writes; empty if it can. `is_newer`: the reader is."""
    try:
        return distinct(list(_Comparison(is_newer, give_up).files(reader.file, writer.file)))
    except (TooHard, RecursionError):
        return [Incompatibility("TOO_COMPLEX", "#/", "the schemas are too complex to compare; treated as incompatible")]


class _Comparison:
    def __init__(self, is_newer: bool, give_up: GiveUp) -> None:
        self._give_up = give_up
        self._is_newer = is_newer
        self._seen: set[tuple[str, str]] = set()

    def files(self, reader: Any, writer: Any) -> Iterator[Incompatibility]:
        for name, written in writer.message_types_by_name.items():
            found = reader.message_types_by_name.get(name)
            if found is None:
                yield Incompatibility("MESSAGE_REMOVED", f"#/{name}", f"the message {name} is not there any more")
            else:
                yield from self.messages(found, written, f"#/{name}")

    def messages(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        pair = (reader.full_name, writer.full_name)
        if pair in self._seen:
            return
        self._seen.add(pair)
        self._spend()
        written, read = _by_number(writer), _by_number(reader)
        for number, field in read.items():
            if number in written:
                yield from self._fields(field, written[number], f"{path}/{number}")
            elif field.is_required:
                yield Incompatibility(
                    "REQUIRED_FIELD_ADDED", f"{path}/{number}", f"{field.name} is required and not written"
                )
        if self._is_newer:
            yield from self._reserved_breaks(reader, writer, path)
        yield from self._oneof_breaks(reader, writer, path)
        for nested in writer.nested_types:
            yield from self._nested(reader, nested, path)

    def _spend(self) -> None:
        if len(self._seen) > SCHEMA_COMPARE_STEPS_MAX or self._give_up():
            raise TooHard

    def _nested(self, reader: Any, nested: Any, path: str) -> Iterator[Incompatibility]:
        if nested.GetOptions().map_entry:
            return
        found = reader.nested_types_by_name.get(nested.name)
        at = f"{path}/{nested.name}"
        if found is None:
            yield Incompatibility("MESSAGE_REMOVED", at, f"the message {nested.name} is not there any more")
        else:
            yield from self.messages(found, nested, at)

    def _fields(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        if reader.is_required and not writer.is_required:
            yield Incompatibility("REQUIRED_FIELD_ADDED", path, f"{reader.name} is required and not always written")
        if _is_map(reader) != _is_map(writer) or (_kind(reader) == "message") != (_kind(writer) == "message"):
            message = f"{_shown(writer)} {writer.name} cannot be read as {_shown(reader)}"
            yield Incompatibility("FIELD_KIND_CHANGED", path, message)
        elif _kind(reader) == "message":
            yield from self._message_fields(reader, writer, path)
        elif not _alike(_kind(reader), _kind(writer)):
            message = f"{_kind(writer)} {writer.name} cannot be read as {_kind(reader)}"
            yield Incompatibility("FIELD_SCALAR_KIND_CHANGED", path, message)
        elif reader.is_repeated != writer.is_repeated and _kind(reader) not in ("string", "bytes"):
            message = f"{writer.name} changes between one and many numbers"
            yield Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path, message)

    def _message_fields(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        first, second = reader.message_type, writer.message_type
        if not _is_map(reader) and _relative(first) != _relative(second):
            message = f"{_relative(second)} {writer.name} cannot be read as {_relative(first)}"
            yield Incompatibility("FIELD_NAMED_TYPE_CHANGED", path, message)
        else:
            yield from self.messages(first, second, path)

    def _reserved_breaks(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        """A number that the writer took out of use may still be in old data, with another meaning."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        described = DescriptorProto()
        writer.CopyToProto(described)
        for field in reader.fields:
            self._spend()
            if any(one.start <= field.number < one.end for one in described.reserved_range):
                message = f"{field.name} takes the number {field.number}, which is reserved"
                yield Incompatibility("FIELD_NUMBER_RESERVED", f"{path}/{field.number}", message)
            elif field.name in described.reserved_name:
                yield Incompatibility(
                    "FIELD_NAME_RESERVED", f"{path}/{field.number}", f"the name {field.name} is reserved"
                )

    def _oneof_breaks(self, reader: Any, writer: Any, path: str) -> Iterator[Incompatibility]:
        read, written = _oneofs(reader), _oneofs(writer)
        numbers = _by_number(writer)
        for name, members in read.items():
            self._spend()
            known = sorted(number for number in members if number in numbers)
            together = any(set(known) <= set(others) for others in written.values())
            if len(known) > 1 and not together:
                message = f"fields {', '.join(map(str, known))} could be written together, and exclude each other now"
                yield Incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", message)
        everywhere = {number for members in read.values() for number in members}
        for name, members in written.items():
            gone = sorted(set(members) - everywhere)
            if gone and name in read:
                message = f"fields {', '.join(map(str, gone))} left the oneof {name}"
                yield Incompatibility("ONEOF_FIELD_REMOVED", f"{path}/{name}", message)


def _by_number(message: Any) -> dict[int, Any]:
    return {field.number: field for field in message.fields}


def _kind(field: Any) -> str:
    return _NAMES[field.type]


def _alike(one: str, other: str) -> bool:
    return one == other or any(one in group and other in group for group in _ALIKE)


def _is_map(field: Any) -> bool:
    return _kind(field) == "message" and bool(field.message_type.GetOptions().map_entry)


def _shown(field: Any) -> str:
    return "map" if _is_map(field) else _kind(field)


def _relative(message: Any) -> str:
    """The name without the file's package, which may change."""
    package = message.file.package
    name = str(message.full_name)
    return name.removeprefix(f"{package}.") if package else name


def _oneofs(message: Any) -> dict[str, list[int]]:
    """Without those that stand for `optional`."""
    found: dict[str, list[int]] = {}
    for oneof in message.oneofs:
        members = [field.number for field in oneof.fields]
        if not (len(members) == 1 and oneof.name == f"_{oneof.fields[0].name}"):
            found[oneof.name] = members
    return found
