"""Verdicts and reasons for every pair, over all levels and types; other implementations judge where there are any."""

from __future__ import annotations

import json
import time
from typing import Any

import avro.schema
import jsonschema_rs
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from goqueue.core.compat.levels import against
from goqueue.core.schemas.kinds import Document, compare, parse
from goqueue.core.schemas.model import LEVELS, Kind, Schema
from tests.core.compat import pairs_avro, pairs_json, pairs_proto


def document(kind: Kind, value: Any) -> Document:
    if kind == "PROTOBUF":
        return parse(Schema(kind, value[2:] if value.startswith("2:") else 'syntax = "proto3"; ' + value), {})
    if kind == "JSON" and isinstance(value, dict):
        value = {"$schema": "https://json-schema.org/draft/2020-12/schema", **value}
    return parse(Schema(kind, json.dumps(value)), {})


ALL: list[tuple[Kind, tuple[str, Any, Any, str, list[str]]]] = [
    *(("JSON", pair) for pair in pairs_json.PAIRS),
    *(("AVRO", pair) for pair in pairs_avro.PAIRS),
    *(("PROTOBUF", pair) for pair in pairs_proto.PAIRS),
]


def test_there_are_enough_pairs() -> None:
    assert len(ALL) >= 150
    assert len({(kind, pair[0]) for kind, pair in ALL}) == len(ALL)


@pytest.mark.parametrize(("kind", "pair"), ALL, ids=[f"{kind}: {pair[0]}" for kind, pair in ALL])
def test_verdict_and_reasons(kind: Kind, pair: tuple[str, Any, Any, str, list[str]]) -> None:
    _, old, new, verdict, reasons = pair
    first, second = document(kind, old), document(kind, new)
    found = [f"B {one.kind} {one.path}" for one in compare(second, first, True)]
    found += [f"F {one.kind} {one.path}" for one in compare(first, second, False)]
    assert found == reasons
    for level in LEVELS:
        wanted = {"BACKWARD": "B", "FORWARD": "F", "FULL": "BF", "NONE": ""}[level.removesuffix("_TRANSITIVE")]
        breaks = against(level, second, [(1, first)], compare)
        assert (not breaks) == all(letter in verdict for letter in wanted), level
        assert all(one.broken.reason and one.version == 1 for one in breaks)


@pytest.mark.parametrize("level", LEVELS)
def test_transitive_levels_look_at_every_version(level: str) -> None:
    """Version 1 says integer, version 2 anything, the new one number: only the first is hurt by going on."""
    first, second, new = (document("JSON", one) for one in ({"type": "string"}, {}, {"type": ["string", "integer"]}))
    earlier = [(1, first), (2, second)]
    found = against(level, new, earlier, compare)  # type: ignore[arg-type]
    versions = {(one.version, one.forward) for one in found}
    backward = {(2, False)} if level.startswith(("BACKWARD", "FULL")) else set()
    forward = {(1, True)} if level in ("FORWARD_TRANSITIVE", "FULL_TRANSITIVE") else set()
    assert versions == backward | forward


@pytest.mark.parametrize("other", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("level", LEVELS)
def test_another_type_of_schema_breaks_everything_but_none(level: str, other: Kind) -> None:
    changed = document(other, "string" if other == "AVRO" else "message A{}")
    found = against(level, changed, [(1, document("JSON", {}))], compare)  # type: ignore[arg-type]
    assert (not found) == (level == "NONE")
    assert {one.broken.kind for one in found} <= {"SCHEMA_TYPE_CHANGED"}


@pytest.mark.parametrize("pair", pairs_avro.PAIRS, ids=[pair[0] for pair in pairs_avro.PAIRS])
def test_avro_itself_agrees(pair: tuple[str, Any, Any, str, list[str]]) -> None:
    _, old, new, verdict, _ = pair
    first, second = (avro.schema.parse(json.dumps(one)) for one in (old, new))
    for letter, reader, writer in (("B", second, first), ("F", first, second)):
        judged = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer).compatibility
        assert (judged == SchemaCompatibilityType.compatible) == (letter in verdict)


@pytest.mark.parametrize("pair", pairs_json.PAIRS, ids=[pair[0] for pair in pairs_json.PAIRS])
def test_no_verdict_contradicts_a_proof_of_another_engine(pair: tuple[str, Any, Any, str, list[str]]) -> None:
    _, old, new, verdict, _ = pair
    first, second = (jsonschema_rs.canonicalize(one, offline=True, validate_formats=True) for one in (old, new))
    for letter, reader, writer in (("B", second, first), ("F", first, second)):
        judged = str(reader.covers(writer))
        assert judged in ("unknown", "yes" if letter in verdict else "no"), letter


def test_a_comparison_that_would_take_for_ever_ends_as_a_break() -> None:
    """Every choice of one side against every choice of the other, at every level."""
    deep: Any = {"type": "integer"}
    for level in range(6):
        either = [{"anyOf": [{"properties": {f"p{n}": deep}}, {"required": [f"q{n}{level}"]}]} for n in range(4)]
        deep = {"allOf": either}
    other = json.loads(json.dumps(deep).replace('"integer"', '"number"'))
    reader, writer = document("JSON", deep), document("JSON", other)
    began = time.process_time()
    assert [one.kind for one in compare(reader, writer)] == ["TOO_COMPLEX"]
    assert time.process_time() - began < 10


def test_a_union_of_many_named_variants_is_not_too_much() -> None:
    variants = [{"properties": {"k": {"const": n}}, "required": ["k"], "type": "object"} for n in range(100)]
    for keyword in ("anyOf", "oneOf"):
        old, new = document("JSON", {keyword: variants}), document("JSON", {keyword: [*variants, {"type": "null"}]})
        assert compare(new, old) == []
        assert [one.kind for one in compare(old, new)] == ["SUM_TYPE_NARROWED"]
