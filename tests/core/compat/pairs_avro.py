"""Pairs of Avro schemas, old and new: who can read the other, and why not. Verdict and reasons as for JSON Schema."""

from __future__ import annotations

from typing import Any


def R(*fields: Any, name: str = "R", **k: Any) -> dict[str, Any]:  # noqa: N802
    return {"type": "record", "name": name, "fields": list(fields), **k}


def f(name: str, type_: Any, **k: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **k}


def E(*symbols: str, name: str = "E", **k: Any) -> dict[str, Any]:  # noqa: N802
    return {"type": "enum", "name": name, "symbols": list(symbols), **k}


def X(size: int, name: str = "X") -> dict[str, Any]:  # noqa: N802
    return {"type": "fixed", "name": name, "size": size}


def LIST(v: Any) -> dict[str, Any]:  # noqa: N802
    return R(f("v", v), f("next", ["null", "R"], default=None))


PAIRS: list[tuple[str, Any, Any, str, list[str]]] = [
    ("same", R(f("a", "int")), R(f("a", "int")), "BF", []),
    ("int to long", "int", "long", "B", ["F TYPE_MISMATCH /"]),
    ("int to float", "int", "float", "B", ["F TYPE_MISMATCH /"]),
    ("int to double", "int", "double", "B", ["F TYPE_MISMATCH /"]),
    ("long to float", "long", "float", "B", ["F TYPE_MISMATCH /"]),
    ("long to double", "long", "double", "B", ["F TYPE_MISMATCH /"]),
    ("float to double", "float", "double", "B", ["F TYPE_MISMATCH /"]),
    ("string and bytes", "string", "bytes", "BF", []),
    ("int to string", "int", "string", "-", ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"]),
    ("boolean to int", "boolean", "int", "-", ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"]),
    ("null to int", "null", "int", "-", ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"]),
    ("long to int", "long", "int", "F", ["B TYPE_MISMATCH /"]),
    (
        "field without default added",
        R(f("a", "int")),
        R(f("a", "int"), f("b", "string")),
        "F",
        ["B READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"],
    ),
    ("field with default added", R(f("a", "int")), R(f("a", "int"), f("b", "string", default="")), "BF", []),
    (
        "field without default removed",
        R(f("a", "int"), f("b", "string")),
        R(f("a", "int")),
        "B",
        ["F READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"],
    ),
    ("field with default removed", R(f("a", "int"), f("b", "string", default="")), R(f("a", "int")), "BF", []),
    (
        "field renamed",
        R(f("a", "int")),
        R(f("b", "int")),
        "-",
        ["B READER_FIELD_MISSING_DEFAULT_VALUE /fields/0", "F READER_FIELD_MISSING_DEFAULT_VALUE /fields/0"],
    ),
    (
        "field renamed with alias",
        R(f("a", "int")),
        R(f("b", "int", aliases=["a"])),
        "B",
        ["F READER_FIELD_MISSING_DEFAULT_VALUE /fields/0"],
    ),
    ("field reordered", R(f("a", "int"), f("b", "string")), R(f("b", "string"), f("a", "int")), "BF", []),
    ("field widened", R(f("a", "int")), R(f("a", "long")), "B", ["F TYPE_MISMATCH /fields/0/type"]),
    ("field narrowed", R(f("a", "long")), R(f("a", "int")), "F", ["B TYPE_MISMATCH /fields/0/type"]),
    (
        "field type changed",
        R(f("a", "int")),
        R(f("a", "string")),
        "-",
        ["B TYPE_MISMATCH /fields/0/type", "F TYPE_MISMATCH /fields/0/type"],
    ),
    ("field made nullable", R(f("a", "int")), R(f("a", ["null", "int"])), "B", ["F TYPE_MISMATCH /fields/0/type/0"]),
    (
        "field made not nullable",
        R(f("a", ["null", "int"])),
        R(f("a", "int")),
        "F",
        ["B TYPE_MISMATCH /fields/0/type/0"],
    ),
    ("default changed", R(f("a", "int", default=1)), R(f("a", "int", default=2)), "BF", []),
    ("doc changed", R(f("a", "int", doc="x")), R(f("a", "int", doc="y")), "BF", []),
    (
        "record renamed",
        R(f("a", "int")),
        R(f("a", "int"), name="Q"),
        "-",
        ["B NAME_MISMATCH /name", "F NAME_MISMATCH /name"],
    ),
    (
        "record renamed with alias",
        R(f("a", "int")),
        R(f("a", "int"), name="Q", aliases=["R"]),
        "B",
        ["F NAME_MISMATCH /name"],
    ),
    ("namespace changed", R(f("a", "int"), namespace="x"), R(f("a", "int"), namespace="y"), "BF", []),
    (
        "nested field added without default",
        R(f("a", R(f("x", "int"), name="N"))),
        R(f("a", R(f("x", "int"), f("y", "int"), name="N"))),
        "F",
        ["B READER_FIELD_MISSING_DEFAULT_VALUE /fields/0/type/fields/1"],
    ),
    (
        "nested type changed",
        R(f("a", R(f("x", "int"), name="N"))),
        R(f("a", R(f("x", "string"), name="N"))),
        "-",
        ["B TYPE_MISMATCH /fields/0/type/fields/0/type", "F TYPE_MISMATCH /fields/0/type/fields/0/type"],
    ),
    (
        "record to map",
        R(f("a", "int")),
        {"type": "map", "values": "int"},
        "-",
        ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"],
    ),
    (
        "array items widened",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        "B",
        ["F TYPE_MISMATCH /items"],
    ),
    (
        "array items changed",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "string"},
        "-",
        ["B TYPE_MISMATCH /items", "F TYPE_MISMATCH /items"],
    ),
    (
        "array to map",
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        "-",
        ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"],
    ),
    (
        "map values widened",
        {"type": "map", "values": "float"},
        {"type": "map", "values": "double"},
        "B",
        ["F TYPE_MISMATCH /values"],
    ),
    (
        "map values changed",
        {"type": "map", "values": "float"},
        {"type": "map", "values": "boolean"},
        "-",
        ["B TYPE_MISMATCH /values", "F TYPE_MISMATCH /values"],
    ),
    ("enum symbol added", E("A", "B"), E("A", "B", "C"), "B", ["F MISSING_ENUM_SYMBOLS /symbols"]),
    ("enum symbol removed", E("A", "B"), E("A"), "F", ["B MISSING_ENUM_SYMBOLS /symbols"]),
    ("enum symbol removed, with default", E("A", "B"), E("A", default="A"), "BF", []),
    ("enum symbols reordered", E("A", "B"), E("B", "A"), "BF", []),
    ("enum renamed", E("A"), E("A", name="F"), "-", ["B NAME_MISMATCH /name", "F NAME_MISMATCH /name"]),
    ("enum to string", E("A"), "string", "-", ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"]),
    ("fixed size changed", X(4), X(8), "-", ["B FIXED_SIZE_MISMATCH /size", "F FIXED_SIZE_MISMATCH /size"]),
    ("fixed renamed", X(4), X(4, name="Y"), "-", ["B NAME_MISMATCH /name", "F NAME_MISMATCH /name"]),
    ("fixed to bytes", X(4), "bytes", "-", ["B TYPE_MISMATCH /", "F TYPE_MISMATCH /"]),
    ("union grown", ["null", "int"], ["null", "int", "string"], "B", ["F MISSING_UNION_BRANCH /"]),
    ("union shrunk", ["null", "int", "boolean"], ["null", "int"], "F", ["B MISSING_UNION_BRANCH /"]),
    ("union reordered", ["null", "int"], ["int", "null"], "BF", []),
    ("union branch widened", ["null", "int"], ["null", "long"], "B", ["F MISSING_UNION_BRANCH /"]),
    ("type into union", "int", ["null", "int"], "B", ["F TYPE_MISMATCH /0"]),
    ("type into union that widens it", "int", ["null", "double"], "B", ["F TYPE_MISMATCH /0", "F TYPE_MISMATCH /1"]),
    (
        "type into union without it",
        "int",
        ["null", "string"],
        "-",
        ["B MISSING_UNION_BRANCH /", "F TYPE_MISMATCH /0", "F TYPE_MISMATCH /1"],
    ),
    ("union of one to type", ["int"], "int", "BF", []),
    ("records in a union", [R(name="P"), R(name="Q")], [R(name="P")], "F", ["B MISSING_UNION_BRANCH /"]),
    (
        "record in a union changed",
        ["null", R(f("a", "int"), name="P")],
        ["null", R(f("a", "string"), name="P")],
        "-",
        ["B TYPE_MISMATCH /1/fields/0/type", "F TYPE_MISMATCH /1/fields/0/type"],
    ),
    ("list within itself widened", LIST("int"), LIST("long"), "B", ["F TYPE_MISMATCH /fields/0/type"]),
    (
        "list within itself changed",
        LIST("int"),
        LIST("string"),
        "-",
        ["B TYPE_MISMATCH /fields/0/type", "F TYPE_MISMATCH /fields/0/type"],
    ),
    ("logical type added", "int", {"type": "int", "logicalType": "date"}, "BF", []),
    (
        "logical type changed",
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
        "BF",
        [],
    ),
]
