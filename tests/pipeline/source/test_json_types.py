from __future__ import annotations

import json
from typing import Any

import pytest

from goqueue.pipeline.source.errors import Misfit, Untyped
from goqueue.pipeline.source.json_types import json_type
from goqueue.pipeline.source.json_values import json_shape


def _type(schema: Any, **named: Any) -> str:
    return json_type(json.dumps(schema), {name: json.dumps(one) for name, one in named.items()}).simpleString()


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_NUMBER = {"type": "number"}


def test_flat_and_nested_records() -> None:
    order = _object(
        id=_TEXT,
        price=_NUMBER,
        count=_WHOLE,
        paid={"type": "boolean"},
        buyer=_object(name=_TEXT, age={"type": ["integer", "null"]}),
        tags={"type": "array", "items": _TEXT},
        lines={"type": "array", "items": _object(sku=_TEXT, n=_WHOLE)},
        labels={"type": "object", "additionalProperties": _NUMBER},
    )
    assert _type(order) == (
        "struct<id:string,price:double,count:bigint,paid:boolean,buyer:struct<name:string,age:bigint>,"
        "tags:array<string>,lines:array<struct<sku:string,n:bigint>>,labels:map<string,double>>"
    )


def test_references_within_and_to_other_subjects() -> None:
    schema = {
        **_object(
            home={"$ref": "#/$defs/address"}, work={"$ref": "place.json"}, code={"$ref": "place.json#/properties/zip"}
        ),
        "$defs": {"address": _object(street=_TEXT)},
    }
    named = {"place.json": _object(zip=_WHOLE)}
    assert json_type(json.dumps(schema), {name: json.dumps(one) for name, one in named.items()}).simpleString() == (
        "struct<home:struct<street:string>,work:struct<zip:bigint>,code:bigint>"
    )


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"anyOf": [_TEXT, {"type": "null"}]}, "string"),
        ({"oneOf": [_WHOLE, _NUMBER]}, "double"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 3}, "bigint"),
        ({"allOf": [_object(a=_TEXT), _object(b=_WHOLE)]}, "struct<a:string,b:bigint>"),
        ({**_object(a=_TEXT), "allOf": [_object(b=_WHOLE), {"required": ["a"]}]}, "struct<a:string,b:bigint>"),
        ({"oneOf": [_object(a=_TEXT), _object(a=_TEXT, c=_NUMBER)]}, "struct<a:string,c:double>"),
        ({"properties": {"a": _TEXT}}, "struct<a:string>"),
        ({"type": "array", "prefixItems": [_WHOLE, _NUMBER]}, "array<double>"),
        ({"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "x"}]}, "string"),
    ],
)
def test_choices_that_come_to_one_type(schema: Any, type_: str) -> None:
    assert _type(schema) == type_


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (True, "allows anything"),
        ({}, "says no type"),
        ({"type": ["string", "integer"]}, "may be integer or string"),
        ({"anyOf": [_TEXT, _object(a=_TEXT)]}, "may be string or struct<a:string>"),
        (_object(a={"type": "object"}), "#/properties/a has no known members"),
        (_object(a={"type": "array"}), "#/properties/a does not say what its items are"),
        ({**_object(next={"$ref": "#"})}, "contains itself"),
        (_object(a={"$ref": "gone.json"}), "leads nowhere"),
        ({"oneOf": [_object(a=_TEXT), _object(a=_WHOLE)]}, "#/a may be string or bigint"),
    ],
)
def test_what_has_no_type_says_where(schema: Any, told: str) -> None:
    with pytest.raises(Untyped, match=told):
        _type(schema)


def test_values_are_brought_into_shape() -> None:
    schema = _object(
        a=_WHOLE,
        b=_object(c=_NUMBER),
        d={"type": "array", "items": _TEXT},
        e={"type": "object", "additionalProperties": _WHOLE},
    )
    shape = json_shape(json_type(json.dumps(schema), {}))
    assert shape({"a": 5.0, "b": {"c": 1, "x": 2}, "d": ["y"], "e": {"k": 1}, "unknown": True}) == {
        "a": 5,
        "b": {"c": 1.0},
        "d": ["y"],
        "e": [("k", 1)],
    }
    assert shape({}) == {"a": None, "b": None, "d": None, "e": None}
    assert shape(None) is None


@pytest.mark.parametrize(
    "value",
    [5, {"a": "5"}, {"a": True}, {"a": 1.5}, {"a": 1 << 63}, {"b": []}, {"b": {"c": "x"}}, {"d": "x"}, {"d": [1]}],
)
def test_values_that_do_not_fit(value: Any) -> None:
    schema = _object(a=_WHOLE, b=_object(c=_NUMBER), d={"type": "array", "items": _TEXT})
    with pytest.raises(Misfit):
        json_shape(json_type(json.dumps(schema), {}))(value)
