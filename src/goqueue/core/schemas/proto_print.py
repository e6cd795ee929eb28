"""Writes Protobuf's description of a file as .proto text: one text for equal meaning, however it was handed in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from goqueue.core.schemas.proto_parse import SCALARS

_LABELS: Final = {1: "optional ", 2: "required ", 3: "repeated "}
_ENUM_END: Final = (1 << 31) - 1
_END: Final = 1 << 29
_EDITION_2023: Final = 1_000


def print_proto(file: Any) -> str:
    return "\n".join(_file(file)) + "\n"


def _file(file: Any) -> Iterator[str]:
    is_3 = file.syntax in ("proto3", "editions")  # labels are not written where they say nothing
    if file.syntax == "editions":
        yield f'edition = "{file.edition - _EDITION_2023 + 2023}";'
    else:
        yield f'syntax = "{"proto3" if is_3 else "proto2"}";'
    yield from (f"option {one};" for one in _features(file))
    if file.package:
        yield f"package {file.package};"
    for place, name in enumerate(file.dependency):
        yield f"import {'public ' if place in file.public_dependency else ''}{_quoted(name)};"
    for message in file.message_type:
        yield ""
        yield from _message(message, is_3, "")
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum, "")


def _message(message: Any, is_3: bool, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + "  "
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    yield from (f"{inner}option {one};" for one in _features(message))
    yield from _reserved(message, inner, _END - 1, 1)
    done: set[int] = set()
    nested = iter(message.nested_type)
    for field in message.field:
        if field.label == 3 and field.type_name.rpartition(".")[2] in entries:
            # Clients number messages by their places, and a map's entry has one too: it stays where it was.
            for one in itertools.takewhile(lambda one: one.name not in entries, nested):
                yield from _message(one, is_3, inner)
        place = field.oneof_index
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield f"{inner}{_field(field, entries, is_3)}"
        elif place not in done:
            done.add(place)
            yield f"{inner}oneof {message.oneof_decl[place].name} {{"
            for one in message.field:
                if one.HasField("oneof_index") and one.oneof_index == place:
                    yield f"{inner}  {_field(one, entries, is_3, in_oneof=True)}"
            yield f"{inner}}}"
    for bounds in message.extension_range:
        yield f"{inner}extensions {_range(bounds.start, bounds.end - 1, _END - 1)};"
    for one in nested:
        if one.name not in entries:
            yield from _message(one, is_3, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield f"{indent}}}"


def _field(field: Any, entries: dict[str, Any], is_3: bool, in_oneof: bool = False) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == 3 else None
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number};"
    label = "" if in_oneof or (is_3 and field.label == 1 and not field.proto3_optional) else _LABELS[field.label]
    options: list[str] = []
    if field.HasField("default_value"):
        quoted = _quoted(field.default_value) if field.type in (9, 12) else field.default_value
        options.append(f"default = {quoted}")
    if field.options.HasField("packed"):
        options.append(f"packed = {str(field.options.packed).lower()}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    options += _features(field)
    shown = f" [{', '.join(options)}]" if options else ""
    return f"{label}{_type(field)} {field.name} = {field.number}{shown};"


def _features(owner: Any) -> list[str]:
    set_ = owner.options.features.ListFields()
    return [
        f"features.{one.name} = {one.enum_type.values_by_number[value].name}" for one, value in set_ if one.enum_type
    ]


def _type(field: Any) -> str:
    if field.type_name:
        return str(field.type_name)
    return next(name for name in SCALARS if getattr(field, f"TYPE_{name.upper()}") == field.type)


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}  option allow_alias = true;"
    yield from (f"{indent}  option {one};" for one in _features(enum))
    yield from _reserved(enum, indent + "  ", _ENUM_END, 0)
    for value in enum.value:
        yield f"{indent}  {value.name} = {value.number};"
    yield f"{indent}}}"


def _reserved(owner: Any, indent: str, most: int, beyond: int) -> Iterator[str]:
    ranges = [_range(one.start, one.end - beyond, most) for one in owner.reserved_range]
    if ranges:
        yield f"{indent}reserved {', '.join(ranges)};"
    if owner.reserved_name:
        yield f"{indent}reserved {', '.join(map(_quoted, owner.reserved_name))};"


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == most else last}"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)
