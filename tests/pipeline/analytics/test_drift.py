from __future__ import annotations

from goqueue.pipeline.analytics.drift import FieldChange, Profile, drift, profile_of
from goqueue.pipeline.analytics.fields import fields_of


def profile(rows: int, **fields: dict[str, int]) -> Profile:
    return Profile(rows, {name.replace("__", "."): types for name, types in fields.items()})


def test_fields_of_a_message() -> None:
    text = '{"id": 1, "price": 1.5, "to": {"name": "ann", "tags": ["a", 2, null]}, "gone": null, "ok": true}'
    assert fields_of(False, text) == {
        ("", "object"),
        ("id", "integer"),
        ("price", "number"),
        ("to", "object"),
        ("to.name", "string"),
        ("to.tags", "array"),
        ("to.tags[]", "string"),
        ("to.tags[]", "integer"),
        ("to.tags[]", "null"),
        ("gone", "null"),
        ("ok", "boolean"),
    }


def test_values_that_are_no_json() -> None:
    assert fields_of(True, None) == {("", "tombstone")}
    assert fields_of(False, None) == {("", "binary")}
    assert fields_of(False, "hello") == {("", "text")}
    assert fields_of(False, "{" * 10_000) == {("", "text")}
    assert fields_of(False, "12") == {("", "integer")}


def test_nesting_has_a_bound() -> None:
    deepest = max(path.count("[]") for path, _ in fields_of(False, "[" * 50 + "]" * 50))
    assert deepest == 8


def test_a_profile_comes_from_rows() -> None:
    rows = [
        {"field": "", "type": "object", "rows": 8},
        {"field": "", "type": "text", "rows": 2},
        {"field": "id", "type": "integer", "rows": 7},
        {"field": "id", "type": "null", "rows": 1},
    ]
    found = profile_of(rows)
    assert (found.rows, found.present("id"), found.nulls("id"), found.types("id")) == (10, 8, 1, ["integer"])


def test_fields_that_come_and_go() -> None:
    before = profile(100, id={"integer": 100}, old={"string": 50})
    after = profile(100, id={"integer": 100}, new={"number": 3})
    assert drift(before, after) == [
        FieldChange("new", "new field", "", "number, 3.0 %"),
        FieldChange("old", "missing field", "string, 50.0 %", ""),
    ]


def test_a_rare_field_that_a_few_messages_do_not_have_is_not_missing() -> None:
    before = profile(10_000, rare={"string": 100})
    assert drift(before, profile(20)) == []
    assert [one.change for one in drift(before, profile(10_000))] == ["missing field"]


def test_types_and_nulls() -> None:
    before = profile(1_000, id={"integer": 1_000}, to={"string": 990, "null": 10})
    after = profile(1_000, id={"integer": 900, "string": 100}, to={"string": 600, "null": 400})
    assert drift(before, after) == [
        FieldChange("id", "types", "integer", "integer, string"),
        FieldChange("to", "nulls", "1.0 %", "40.0 %"),
    ]


def test_presence_moves_by_a_tenth_and_more_than_by_chance() -> None:
    before = profile(1_000, id={"integer": 1_000})
    assert drift(before, profile(1_000, id={"integer": 950})) == []  # too little
    assert drift(profile(10, id={"integer": 10}), profile(10, id={"integer": 8})) == []  # may be chance
    assert drift(before, profile(1_000, id={"integer": 700})) == [FieldChange("id", "presence", "100.0 %", "70.0 %")]


def test_nothing_is_compared_with_nothing() -> None:
    assert drift(profile(0), profile(10, id={"integer": 10})) == []
    assert drift(profile(10, id={"integer": 10}), profile(10, id={"integer": 10})) == []
