"""Against fastavro, which wrote the bytes."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.source.avro_data import avro_reader
from goqueue.pipeline.source.avro_types import avro_type, parse_avro
from goqueue.pipeline.source.errors import Misfit, Untyped


def _record(*fields: tuple[Any, ...], name: str = "Order") -> dict[str, Any]:
    told = [{"name": field[0], "type": field[1], **(field[2] if len(field) > 2 else {})} for field in fields]
    return {"type": "record", "name": name, "fields": told}


def _written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def _read(data: bytes, writer: Any, reader: Any | None = None) -> Any:
    nodes = [parse_avro(json.dumps(one), {}) for one in (writer, reader or writer)]
    return avro_reader(*nodes)(data, 0)


def _type(schema: Any) -> str:
    return avro_type(parse_avro(json.dumps(schema), {})).simpleString()


_ADDRESS = _record(("street", "string"), ("zip", ["null", "int"]), name="Address")
_WHOLE = _record(
    ("id", "long"),
    ("count", "int"),
    ("price", "double"),
    ("weight", "float"),
    ("paid", "boolean"),
    ("name", "string"),
    ("raw", "bytes"),
    ("note", ["null", "string"]),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["NEW", "USED"]}),
    ("hash", {"type": "fixed", "name": "Hash", "size": 4}),
    ("tags", {"type": "array", "items": "string"}),
    ("counts", {"type": "map", "values": "long"}),
    ("home", _ADDRESS),
    ("others", {"type": "array", "items": "Address"}),
)
_ADDRESSES = st.fixed_dictionaries(
    {"street": st.text(max_size=8), "zip": st.none() | st.integers(-(1 << 31), (1 << 31) - 1)}
)
_VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "count": st.integers(-(1 << 31), (1 << 31) - 1),
        "price": st.floats(allow_nan=False),
        "weight": st.floats(width=32, allow_nan=False),
        "paid": st.booleans(),
        "name": st.text(),
        "raw": st.binary(),
        "note": st.none() | st.text(),
        "kind": st.sampled_from(["NEW", "USED"]),
        "hash": st.binary(min_size=4, max_size=4),
        "tags": st.lists(st.text(max_size=5)),
        "counts": st.dictionaries(st.text(max_size=3), st.integers(0, 9)),
        "home": _ADDRESSES,
        "others": st.lists(_ADDRESSES),
    }
)


@given(_VALUES)
def test_what_fastavro_wrote_is_read(value: dict[str, Any]) -> None:
    found = _read(_written(_WHOLE, value), _WHOLE)
    assert {**found, "counts": dict(found["counts"])} == value


@given(_VALUES, st.data())
def test_data_that_is_cut_off_is_no_value(value: dict[str, Any], data: st.DataObject) -> None:
    whole = _written(_WHOLE, value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Misfit):
        _read(whole[:cut], _WHOLE)
    with pytest.raises(Misfit):
        _read(whole + b"\0", _WHOLE)


def test_types_of_flat_and_nested_records() -> None:
    assert _type(_WHOLE) == (
        "struct<id:bigint,count:int,price:double,weight:float,paid:boolean,name:string,raw:binary,note:string,"
        "kind:string,hash:binary,tags:array<string>,counts:map<string,bigint>,"
        "home:struct<street:string,zip:int>,others:array<struct<street:string,zip:int>>>"
    )


def test_logical_types() -> None:
    schema = _record(
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("at_us", {"type": "long", "logicalType": "timestamp-micros"}),
        ("cost", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("odd", {"type": "string", "logicalType": "date"}),
    )
    assert _type(schema) == "struct<day:date,at:timestamp,at_us:timestamp,cost:decimal(9,2),odd:string>"
    at = datetime(2026, 5, 1, 12, 0, 0, 123000, UTC)
    value = {"day": date(2026, 5, 1), "at": at, "at_us": at, "cost": Decimal("-12.34"), "odd": "x"}
    micros = int(at.timestamp()) * 1_000_000 + 123_000
    assert _read(_written(schema, value), schema) == {
        "day": (date(2026, 5, 1) - date(1970, 1, 1)).days,
        "at": micros,
        "at_us": micros,
        "cost": Decimal("-12.34"),
        "odd": "x",
    }


def test_a_newer_version_reads_what_an_older_one_wrote_as_fastavro_does() -> None:
    older = _record(("id", "int"), ("gone", {"type": "array", "items": "string"}), ("name", "string"))
    newer = _record(
        ("id", "double"),
        ("title", "string", {"aliases": ["name"]}),
        ("colour", "string", {"default": "red"}),
        ("size", ["null", "int"], {"default": None}),
    )
    data = _written(older, {"id": 5, "gone": ["x", "y"], "name": "n"})
    expected = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(older), fastavro.parse_schema(newer))
    assert _read(data, older, newer) == expected == {"id": 5.0, "title": "n", "colour": "red", "size": None}


def test_a_member_that_contains_itself_can_be_left_out() -> None:
    tree = _record(("v", "int"), ("next", ["null", "Order"]))
    data = _written(tree, {"v": 1, "next": {"v": 2, "next": None}})
    assert _read(data, tree, _record(("v", "int"))) == {"v": 1}
    with pytest.raises(Untyped, match=r"\$.next contains itself"):
        _type(tree)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (_record(("x", ["int", "string"])), r"\$.x may be int or string"),
        (_record(("x", "null")), r"\$.x is always null"),
        (_record(("x", "Nowhere")), "'Nowhere' is not known"),
    ],
)
def test_what_has_no_type_says_where(schema: Any, told: str) -> None:
    with pytest.raises(Untyped, match=told):
        _type(schema)


def test_types_of_other_subjects() -> None:
    schema = json.dumps(_record(("home", "Address")))
    assert avro_type(parse_avro(schema, {"Address": json.dumps(_ADDRESS)})).simpleString() == (
        "struct<home:struct<street:string,zip:int>>"
    )


def test_versions_that_cannot_be_read_as_each_other() -> None:
    with pytest.raises(Untyped, match="written as string cannot be read as int"):
        _read(b"", _record(("a", "string")), _record(("a", "int")))


def test_counts_are_bounded() -> None:
    many = _record(("a", {"type": "array", "items": "null"}))
    with pytest.raises(Misfit, match="items"):
        _read(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0", many, _record(("b", "int", {"default": 1})))
