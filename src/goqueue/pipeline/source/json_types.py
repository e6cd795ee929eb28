"""Typed columns of JSON values: what a JSON Schema says about their shape.

A column's type is what every valid value fits: what has none, like an object without known members, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from goqueue.pipeline.source.errors import Untyped

_DEPTH_MAX: Final = 64
_SAY: Final = "Give it one in the registry, or read bytes: leave the option 'schema' away."
_SCALARS: Final[dict[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_OF_PYTHON: Final[dict[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def json_type(text: str, named: Mapping[str, str]) -> DataType:
    """The type of all values that fit this schema; `Untyped` says where it has none."""
    documents = {name: msgspec.json.decode(one) for name, one in named.items()}
    return _Walk({**documents, "": msgspec.json.decode(text)}).type_of(msgspec.json.decode(text), "", "#", 0)


class _Walk:
    """Through a schema and the documents it refers to."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def type_of(self, schema: Any, document: str, path: str, depth: int) -> DataType:
        if depth > _DEPTH_MAX:
            raise Untyped(f"The schema at {path} contains itself, or is nested too deep to be columns.")
        if not isinstance(schema, dict):
            raise Untyped(f"The schema at {path} allows anything, so it has no type. {_SAY}")
        if "$ref" in schema:
            target, there = self._found(schema["$ref"], document, path)
            return self.type_of(target, there, path, depth + 1)
        return self._whole(schema, document, path, depth)

    def _whole(self, schema: dict[str, Any], document: str, path: str, depth: int) -> DataType:
        """What the schema says itself, and what its combinations add."""
        found = [
            _merged([self.type_of(one, document, path, depth + 1) for one in _real(schema.get(way, ()))], path)
            for way in ("allOf", "anyOf", "oneOf")
            if _real(schema.get(way, ()))
        ]
        kinds = _kinds(schema)
        if kinds:
            found.insert(0, self._of_kind(_one_kind(kinds, path), schema, document, path, depth, bool(found)))
        if not found:
            raise Untyped(f"The schema at {path} says no type. {_SAY}")
        return _merged(found, path)

    def _of_kind(
        self, kind: str, schema: dict[str, Any], document: str, path: str, depth: int, is_part: bool
    ) -> DataType:
        if kind == "object":
            return self._object(schema, document, path, depth, is_part)
        if kind == "array":
            return self._array(schema, document, path, depth)
        return _SCALARS[kind]

    def _object(self, schema: dict[str, Any], document: str, path: str, depth: int, is_part: bool) -> DataType:
        members = schema.get("properties", {})
        if members or is_part:
            return StructType(
                [
                    StructField(name, self.type_of(one, document, f"{path}/properties/{name}", depth + 1))
                    for name, one in members.items()
                ]
            )
        others = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        known = [one for one in others if isinstance(one, dict) and one]
        if not known:
            raise Untyped(f"The object at {path} has no known members. {_SAY}")
        types = [self.type_of(one, document, f"{path}/additionalProperties", depth + 1) for one in known]
        return MapType(StringType(), _merged(types, path))

    def _array(self, schema: dict[str, Any], document: str, path: str, depth: int) -> DataType:
        items = schema.get("items", {})
        several = [*schema.get("prefixItems", ()), *(items if isinstance(items, list) else ())]
        known = several + ([items] if isinstance(items, dict) and items else [])
        if not known:
            raise Untyped(f"The array at {path} does not say what its items are. {_SAY}")
        types = [self.type_of(one, document, f"{path}/items", depth + 1) for one in known]
        return ArrayType(_merged(types, path))

    def _found(self, reference: str, document: str, path: str) -> tuple[Any, str]:
        name, _, pointer = reference.partition("#")
        there = name or document
        target = self._documents.get(there)
        for step in unquote(pointer).split("/")[1:] if target is not None else ():
            target = _step(target, step.replace("~1", "/").replace("~0", "~"))
        if target is None:
            raise Untyped(f"The reference {reference!r} at {path} leads nowhere that is registered.")
        return target, there


def _step(target: Any, step: str) -> Any:
    if isinstance(target, list):
        return target[int(step)] if step.isdecimal() and int(step) < len(target) else None
    return target.get(step) if isinstance(target, dict) else None


def _real(schemas: Iterable[Any]) -> list[Any]:
    """The choices that can be more than null, and say something about the shape."""
    return [one for one in schemas if isinstance(one, dict) and one.get("type") != "null" and _says_shape(one)]


def _says_shape(schema: Mapping[str, Any]) -> bool:
    return bool(schema.keys() & {"type", "properties", "items", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"})


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    told = schema.get("type")
    if told is not None:
        return {told} - {"null"} if isinstance(told, str) else set(told) - {"null"}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return {_OF_PYTHON.get(type(value), "object") for value in values if value is not None}
    return {"object"} if "properties" in schema else {"array"} if "items" in schema else set()


def _one_kind(kinds: set[str], path: str) -> str:
    if kinds == {"integer", "number"}:
        return "number"
    if len(kinds) > 1:
        raise Untyped(f"The value at {path} may be {' or '.join(sorted(kinds))}, which no column is. {_SAY}")
    return next(iter(kinds))


def _merged(types: Sequence[DataType], path: str) -> DataType:
    """One type for several that may all be; objects are joined member by member."""
    merged = types[0]
    for other in types[1:]:
        merged = _both(merged, other, path)
    return merged


def _both(one: DataType, other: DataType, path: str) -> DataType:
    if one == other:
        return one
    if isinstance(one, LongType | DoubleType) and isinstance(other, LongType | DoubleType):
        return DoubleType()
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _joined(one, other, path)
    raise Untyped(f"The value at {path} may be {one.simpleString()} or {other.simpleString()}. {_SAY}")


def _joined(one: StructType, other: StructType, path: str) -> StructType:
    members = {field.name: field.dataType for field in one}
    for field in other:
        known = members.get(field.name, field.dataType)
        members[field.name] = _both(known, field.dataType, f"{path}/{field.name}")
    return StructType([StructField(name, type_) for name, type_ in members.items()])
