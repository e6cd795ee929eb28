"""Avro schemas: read into nodes, and the typed columns of what they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.pipeline.source.errors import Untyped

_PRIMITIVES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[dict[str, tuple[str, DataType]]] = {
    "date": ("int", DateType()),
    "timestamp-millis": ("long", TimestampType()),
    "timestamp-micros": ("long", TimestampType()),
    "local-timestamp-millis": ("long", TimestampNTZType()),
    "local-timestamp-micros": ("long", TimestampNTZType()),
}
_DIGITS_MAX: Final = 38
_SAY: Final = "Read bytes: leave the option 'schema' away."


class Field(msgspec.Struct, frozen=True):
    """A member of a record. `default` is a list of one, or none."""

    name: str
    type: AvroNode
    default: tuple[Any, ...] = ()
    aliases: tuple[str, ...] = ()


class AvroNode(msgspec.Struct):
    """One type. Records that contain themselves are cycles of nodes."""

    kind: str
    name: str = ""
    fields: list[Field] = []
    branches: list[AvroNode] = []
    element: AvroNode | None = None
    symbols: list[str] = []
    default: str | None = None
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0


def parse_avro(text: str, named: Mapping[str, str]) -> AvroNode:
    """The schema as nodes; `named` are the texts of other subjects' types, the deepest first."""
    known: dict[str, AvroNode] = {}
    for one in named.values():
        _node(msgspec.json.decode(one), "", known)
    return _node(_decoded(text), "", known)


def _decoded(text: str) -> Any:
    """A primitive type may be registered without quotes."""
    return text.strip() if text.strip() in _PRIMITIVES else msgspec.json.decode(text)


def _node(told: Any, space: str, known: dict[str, AvroNode]) -> AvroNode:
    if isinstance(told, list):
        return AvroNode("union", branches=[_node(one, space, known) for one in told])
    if isinstance(told, str):
        return _by_name(told, space, known)
    kind = told["type"]
    if not isinstance(kind, str):
        return _node(kind, space, known)
    if kind in ("record", "error", "enum", "fixed"):
        return _named(told, space, known)
    if kind in ("array", "map"):
        return AvroNode(kind, element=_node(told["items" if kind == "array" else "values"], space, known))
    return _logical(_by_name(kind, space, known), told)


def _by_name(name: str, space: str, known: Mapping[str, AvroNode]) -> AvroNode:
    if name in _PRIMITIVES or name == "null":
        return AvroNode(name)
    full = name if "." in name or not space else f"{space}.{name}"
    found = known.get(full) or known.get(name)
    if found is None:
        raise Untyped(f"The Avro type {name!r} is not defined where it is used. {_SAY}")
    return found


def _named(told: Mapping[str, Any], space: str, known: dict[str, AvroNode]) -> AvroNode:
    name = told["name"]
    space = name.rpartition(".")[0] or told.get("namespace", space)
    full = name if "." in name or not space else f"{space}.{name}"
    node = AvroNode("record" if told["type"] == "error" else told["type"], full, default=told.get("default"))
    known[full] = node  # before its fields, which may name it
    node.symbols = list(told.get("symbols", ()))
    node.size = told.get("size", 0)
    node.fields = [_field(one, space, known) for one in told.get("fields", ())]
    return _logical(node, told)


def _field(told: Mapping[str, Any], space: str, known: dict[str, AvroNode]) -> Field:
    default = (told["default"],) if "default" in told else ()
    return Field(told["name"], _node(told["type"], space, known), default, tuple(told.get("aliases", ())))


def _logical(node: AvroNode, told: Mapping[str, Any]) -> AvroNode:
    """What is said about a type besides; what makes no sense is to be ignored, as Avro has it."""
    logical = told.get("logicalType")
    if logical is None:
        return node
    fits = logical in _LOGICAL and _LOGICAL[logical][0] == node.kind
    if logical == "decimal" and node.kind in ("bytes", "fixed"):
        node.precision, node.scale = told.get("precision", 0), told.get("scale", 0)
        fits = 0 < node.precision <= _DIGITS_MAX and 0 <= node.scale <= node.precision
    node.logical = logical if fits else ""
    return node


# --- columns ------------------------------------------------------------------------------------------------------


def avro_type(node: AvroNode, path: str = "$", inside: tuple[str, ...] = ()) -> DataType:
    """The column's type; `Untyped` says where there is none."""
    if node.kind == "record":
        return _struct(node, path, inside)
    if node.kind == "array" and node.element:
        return ArrayType(avro_type(node.element, f"{path}[]", inside))
    if node.kind == "map" and node.element:
        return MapType(StringType(), avro_type(node.element, f"{path}{{}}", inside))
    if node.kind == "union":
        return avro_type(only_branch(node, path), path, inside)
    if node.kind == "null":
        raise Untyped(f"{path} is always null, which no column is. {_SAY}")
    if node.logical == "decimal":
        return DecimalType(node.precision, node.scale)
    return _LOGICAL[node.logical][1] if node.logical else _PRIMITIVES[node.kind]


def _struct(node: AvroNode, path: str, inside: tuple[str, ...]) -> DataType:
    if node.name in inside:
        raise Untyped(f"{path} contains itself ({node.name}), which no column can. {_SAY}")
    within = (*inside, node.name)
    return StructType([StructField(one.name, avro_type(one.type, f"{path}.{one.name}", within)) for one in node.fields])


def only_branch(union: AvroNode, path: str = "$") -> AvroNode:
    """What a union is when it is not null; `Untyped` if it may be several things."""
    real = [one for one in union.branches if one.kind != "null"]
    if len(real) != 1:
        kinds = " or ".join(one.name or one.kind for one in real) or "nothing"
        raise Untyped(f"{path} may be {kinds}, which no column is. {_SAY}")
    return real[0]
