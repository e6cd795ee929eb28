"""A schema is never called compatible if there is a value that shows otherwise: random schemas, random values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.core.compat.json_schema import compare
from goqueue.core.schemas.json_schema import JsonDocument
from goqueue.core.schemas.mismatch import Mismatch
from tests.long import LONG

NAMES = st.sampled_from(["a", "b", "xa"])
SCALARS: st.SearchStrategy[Any] = st.sampled_from([None, True, False, 0, 1, 1.0, 2, 3, 6, 0.5, -1, "", "a", "ab", "xa"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SMALL = st.integers(0, 3)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(NAMES, inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr),
        "const": VALUES,
        "minimum": SMALL,
        "exclusiveMaximum": SMALL,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": st.sampled_from(["^a", "b$"]),
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "minContains": SMALL,
        "maxContains": SMALL,
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^x", "a$"]), inner, max_size=1),
        "additionalProperties": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=1),
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
    }
    one_or_two = st.lists(st.sampled_from(sorted(optional)), min_size=1, max_size=3, unique=True)
    return one_or_two.flatmap(lambda names: st.fixed_dictionaries({name: optional[name] for name in names}))


SCHEMAS = st.recursive(st.booleans() | _keywords(st.booleans()), _keywords, max_leaves=4)


def mutated(schema: Any, replacement: Any, chance: int) -> Any:
    """The same with one keyword changed: near pairs find more than far ones."""
    if not isinstance(schema, dict) or not schema:
        return replacement
    names = sorted(schema)
    name = names[chance % len(names)]
    kept = {one: value for one, value in schema.items() if one != name}
    return kept if not isinstance(replacement, dict) else {**kept, **replacement}


def fits(document: JsonDocument, value: Any) -> bool:
    try:
        document.compile().check(json.dumps(value).encode())
    except Mismatch:
        return False
    return True


@settings(max_examples=1500 if LONG else 400, deadline=None)
@given(SCHEMAS, SCHEMAS, st.integers(0, 7), st.lists(VALUES, min_size=1, max_size=12))
def test_what_is_called_compatible_has_no_counterexample(old: Any, other: Any, chance: int, values: list[Any]) -> None:
    writer = JsonDocument(json.dumps(old), {})
    for new in (other, mutated(old, other, chance)):
        reader = JsonDocument(json.dumps(new), {})
        for first, second in ((reader, writer), (writer, reader)):
            if not compare(first, second):
                for value in values:
                    assert fits(first, value) or not fits(second, value), (first.root, second.root, value)


@settings(max_examples=200, deadline=None)
@given(SCHEMAS)
def test_a_schema_is_compatible_with_itself_and_nothing_is_wider_than_everything(schema: Any) -> None:
    document = JsonDocument(json.dumps(schema), {})
    assert compare(document, document) == []
    assert compare(JsonDocument("{}", {}), document) == []
    assert compare(document, JsonDocument("false", {})) == []
