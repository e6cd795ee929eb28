"""Every keyword of JSON Schema draft 7 and 2020-12: a schema, a value that fits, and one that does not.

None stands for keywords that describe and forbid nothing.
"""

from __future__ import annotations

from typing import Any, Final

OPEN: Final[object] = object()  # no value is wrong

INT = {"type": "integer"}
NAMED: dict[str, Any] = {"properties": {"a": {}}}
Row = tuple[str, dict[str, Any], Any, Any]

BOTH: list[Row] = [
    ("$id", {"$id": "http://a.b/c", "properties": {"x": {"$ref": "c#/properties/y"}, "y": INT}}, {"x": 1}, {"x": "1"}),
    ("$ref", {"properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "integer"}}}, {"x": 1}, {"x": "1"}),
    ("$comment", {"$comment": "for people"}, 1, OPEN),
    ("title", {"title": "t"}, 1, OPEN),
    ("description", {"description": "d"}, 1, OPEN),
    ("default", {"default": 7}, "x", OPEN),
    ("examples", {"examples": [7]}, "x", OPEN),
    ("readOnly", {"readOnly": True}, 1, OPEN),
    ("writeOnly", {"writeOnly": True}, 1, OPEN),
    ("type", {"type": "integer"}, 1.0, 1.5),
    ("type", {"type": ["string", "null"]}, None, False),
    ("enum", {"enum": ["a", {"b": [1]}]}, {"b": [1.0]}, {"b": [2]}),
    ("const", {"const": 5}, 5.0, "5"),
    ("multipleOf", {"multipleOf": 0.01}, 4.35, 4.355),
    ("maximum", {"maximum": 3}, 3, 3.1),
    ("exclusiveMaximum", {"exclusiveMaximum": 3}, 2.9, 3),
    ("minimum", {"minimum": 3}, 3, 2),
    ("exclusiveMinimum", {"exclusiveMinimum": 3}, 4, 3),
    ("maxLength", {"maxLength": 2}, "\U0001f600\U0001f600", "abc"),
    ("minLength", {"minLength": 2}, "ab", "\U0001f600"),
    ("pattern", {"pattern": "^a+$"}, "aa", "ab"),
    ("maxItems", {"maxItems": 1}, [1], [1, 2]),
    ("minItems", {"minItems": 1}, [1], []),
    ("uniqueItems", {"uniqueItems": True}, [1, True, "1"], [1, 1.0]),
    ("contains", {"contains": {"type": "string"}}, [1, "x"], [1]),
    ("maxProperties", {"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
    ("minProperties", {"minProperties": 1}, {"a": 1}, {}),
    ("required", {"required": ["a"]}, {"a": None}, {"b": 1}),
    ("properties", {"properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1}, {"a": 1}),
    ("patternProperties", {"patternProperties": {"^n": {"type": "number"}}}, {"n1": 1, "x": ""}, {"n1": ""}),
    ("additionalProperties", {"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
    ("if", {"if": {"type": "string"}, "then": {"minLength": 1}}, 5, ""),
    ("then", {"if": {"minimum": 10}, "then": {"multipleOf": 10}}, 20, 25),
    ("else", {"if": {"minimum": 10}, "else": {"multipleOf": 2}}, 4, 5),
    ("allOf", {"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4),
    ("anyOf", {"anyOf": [{"type": "string"}, {"minimum": 3}]}, 4, 1),
    ("oneOf", {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, 4, 6),
    ("not", {"not": {"type": "null"}}, 0, None),
    ("format", {"format": "date-time"}, "2026-01-01T00:00:00Z", "yesterday"),
    ("format", {"format": "email"}, "a@b.c", "a"),
    ("format", {"format": "ipv6"}, "::1", "1"),
]  # fmt: skip

DRAFT_7: list[Row] = [
    ("$schema", {}, 1, OPEN),
    ("definitions", {"definitions": {"p": {"minimum": 0}}, "$ref": "#/definitions/p"}, 1, -1),
    ("items", {"items": {"type": "integer"}}, [1], ["1"]),
    ("items", {"items": [{"type": "integer"}]}, [1, "x"], ["1"]),
    ("additionalItems", {"items": [{}], "additionalItems": {"type": "string"}}, [1, "x"], [1, 2]),
    ("dependencies", {"dependencies": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
    ("dependencies", {"dependencies": {"a": {"minProperties": 2}}}, {"a": 1, "b": 2}, {"a": 1}),
    ("contentMediaType", {"contentMediaType": "application/json"}, "{}", "{"),
    ("contentEncoding", {"contentEncoding": "base64"}, "YQ==", "#"),
]

DRAFT_2020: list[Row] = [
    ("format", {"format": "uuid"}, "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "x"),
    ("$schema", {}, 1, OPEN),
    ("$vocabulary", {"$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": True}}, 1, OPEN),
    ("$anchor", {"$defs": {"p": {"$anchor": "here", "minimum": 0}}, "$ref": "#here"}, 1, -1),
    ("$dynamicAnchor", {"$defs": {"p": {"$dynamicAnchor": "x", "minimum": 0}}, "$ref": "#x"}, 1, -1),
    ("$dynamicRef", {"$dynamicAnchor": "n", "not": INT, "items": {"$dynamicRef": "#n"}}, [[]], [[1]]),
    ("$defs", {"$defs": {"p": {"minimum": 0}}, "$ref": "#/$defs/p"}, 1, -1),
    ("prefixItems", {"prefixItems": [{"type": "integer"}]}, [1, "x"], ["1"]),
    ("items", {"prefixItems": [{}], "items": {"type": "string"}}, [1, "x"], [1, 2]),
    ("minContains", {"contains": {"const": 1}, "minContains": 2}, [1, 1], [1]),
    ("maxContains", {"contains": {"const": 1}, "maxContains": 1}, [1], [1, 1]),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
    ("dependentSchemas", {"dependentSchemas": {"a": {"minProperties": 2}}}, {"a": 1, "b": 2}, {"a": 1}),
    ("unevaluatedItems", {"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": False}, [1], [1, 2]),
    ("unevaluatedProperties", {"allOf": [NAMED], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ("contentMediaType", {"contentMediaType": "application/json"}, "{", OPEN),
    ("contentEncoding", {"contentEncoding": "base64"}, "#", OPEN),
    ("contentSchema", {"contentMediaType": "application/json", "contentSchema": {"type": "array"}}, "{}", OPEN),
    ("deprecated", {"deprecated": True}, 1, OPEN),
]  # fmt: skip

DRAFTS: Final = {
    "http://json-schema.org/draft-07/schema#": BOTH + DRAFT_7,
    "https://json-schema.org/draft/2020-12/schema": BOTH + DRAFT_2020,
}
