"""Small schemas and small messages that would take for ever: refused when they are registered, or when they come.

Time is the processor's, so that a busy machine breaks nothing. What is refused here took from seconds to ages before.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.decoding import decoded
from goqueue.core.schemas.errors import InvalidSchema
from goqueue.core.schemas.kinds import checker, compare, parse
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.model import Kind, Schema
from goqueue.core.schemas.proto_schema import ProtoDocument
from goqueue.core.schemas.regex_size import regex_states

SECONDS_MAX = 3.0


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS_MAX


def doubled(keyword: str, levels: int, last: Any = None, **more: Any) -> dict[str, Any]:
    """Every level refers to the next one twice."""
    defs: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}], **more}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": last or {"type": "string"}}}


def dynamic(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {
        f"d{level}": {"$dynamicAnchor": f"x{level}", "anyOf": [{"$dynamicRef": f"#x{level + 1}"}] * 2}
        for level in range(levels)
    }
    defs[f"d{levels}"] = {"$dynamicAnchor": f"x{levels}", "type": "string"}
    return {"$dynamicRef": "#x0", "$defs": defs}


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"patternProperties": {"^q": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "integer"}}
    return schema


def avro_records(levels: int, leaf: str = "null") -> str:
    types: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": leaf}]}]
    for level in range(levels):
        fields = [{"name": name, "type": f"R{level}"} for name in "ab"]
        types.append({"type": "record", "name": f"R{level + 1}", "fields": fields})
    return json.dumps([*types, {"type": "array", "items": f"R{levels}"}])


def avro_default(depth: int) -> str:
    value: Any = {"x": "never"}
    for _ in range(depth):
        value = {"x": value}
    records = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": ["int", "A", "B"] if name == "B" else "int"}]}
        for name in "AB"
    ]
    records[0]["fields"] = [{"name": "x", "type": ["int", "A", records[1]]}]
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "r", "type": records[0], "default": value}]})


TWO_20 = 2**20
JSON_REFUSED: dict[str, Any] = {
    "26 levels of anyOf": doubled("anyOf", 26),
    "26 levels of oneOf": doubled("oneOf", 26),
    "26 levels of allOf": doubled("allOf", 26),
    "under a property": {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubled("anyOf", 26)["$defs"]},
    "for names": {"propertyNames": {"$ref": "#/$defs/d0"}, "$defs": doubled("anyOf", 26)["$defs"]},
    "dynamic references": dynamic(26),
    "unevaluated within unevaluated": unevaluated(40),
    "a long list of arrays": {"items": {"enum": [[number] for number in range(20_000)]}},
    "very many subschemas": {"allOf": [{}] * 100_000},
    "very many patterns": {"patternProperties": {f"a{number}[a-z]{{1,50}}": {} for number in range(10_000)}},
    "patterns that unfold": {"allOf": [{"pattern": f"a{{900}}{number}"} for number in range(1_000)]},
    "a number of 4,000 digits": {"multipleOf": 10**4_000},
    "an address that is long": {"$id": "http://a/" + "x" * 10_000, "properties": {"a": {"$ref": "b"}}},
    "a dynamic circle": {
        "$id": "http://x/r",
        "$dynamicAnchor": "n",
        "$ref": "inner",
        "$defs": {"i": {"$id": "inner", "anyOf": [{"$dynamicRef": "#n"}], "$defs": {"z": {"$dynamicAnchor": "n"}}}},
    },
}


@pytest.mark.parametrize("schema", JSON_REFUSED.values(), ids=JSON_REFUSED.keys())
def test_a_json_schema_that_takes_too_much_work_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        ready({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})


OTHERS_REFUSED: dict[str, tuple[Kind, str, str]] = {
    "Avro records of nothing": ("AVRO", avro_records(26), "take no bytes"),
    "Avro defaults in unions": ("AVRO", avro_default(30), "too much work|does not fit"),
    "a string that never ends": ("JSON", '"' + '\\"' * 400_000, "not JSON"),
    "spaces that never end": ("PROTOBUF", " " * 400_000 + "!", "not expected"),
    "a field number out of range": ("PROTOBUF", f"message A {{ int32 a = {'9' * 50}; }}", "not right"),
}


@pytest.mark.parametrize(("kind", "text", "told"), OTHERS_REFUSED.values(), ids=OTHERS_REFUSED.keys())
def test_other_schemas_that_take_too_much_work_are_refused(kind: Kind, text: str, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        checker(parse(Schema(kind, text), {}))


def ready(schema: Any) -> Any:
    return checker(parse(Schema("JSON", json.dumps(schema)), {}))


def nested(depth: int, inner: Any = 1) -> bytes:
    for _ in range(depth):
        inner = {"x": inner}
    return json.dumps(inner).encode()


TWICE: dict[str, Any] = {  # doubles with every level of the data
    "$defs": {
        "n": {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/n"}}, "required": [name]} for name in ("y", "z")]}
    },
    "$ref": "#/$defs/n",
}


@pytest.mark.parametrize("depth", [18, 60, 100, 120])
def test_a_schema_that_doubles_with_the_depth_of_the_data_refuses_deep_data(depth: int) -> None:
    with pytest.raises(Mismatch):
        ready(TWICE).check(nested(depth, {}))


def test_a_tree_of_alternatives_is_checked_as_long_as_it_is_not_absurd() -> None:
    kinds = [
        {"properties": {"kind": {"const": kind}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["kind"]}
        for kind in ("add", "mul", "sub")
    ]
    check = ready({"anyOf": [{"type": "number"}, {"type": "object", "oneOf": kinds}]}).check

    def tree(depth: int) -> Any:
        return {"kind": "mul", "left": tree(depth - 1), "right": tree(depth - 1)} if depth else 1

    check(json.dumps(tree(6)).encode())
    wrong = tree(4)
    wrong["left"]["right"]["kind"] = "pow"
    with pytest.raises(Mismatch):
        check(json.dumps(wrong).encode())


def test_explaining_a_mismatch_does_not_copy_a_large_message_for_every_branch() -> None:
    check = ready({"anyOf": [{"type": "string", "minLength": number} for number in range(1_000)]}).check
    with pytest.raises(Mismatch, match="too large to say where"):
        check(json.dumps(["x" * 10] * 50_000).encode())


def test_a_mismatch_of_an_ordinary_message_still_has_its_place() -> None:
    item = {"anyOf": [{"properties": {"price": {"type": "number"}}, "required": ["price"]}, {"type": "null"}]}
    with pytest.raises(Mismatch) as refused:
        ready({"properties": {"items": {"items": item}}}).check(b'{"items": [null, {"price": 1}, {"price": "x"}]}')
    assert refused.value.path == "$.items[2]"


JSON_MESSAGES: dict[str, tuple[Any, bytes]] = {
    "many values for many branches": (
        {"items": {"allOf": [{"minimum": n} for n in range(5_000)]}},
        b"[" + b"9999," * 50_000 + b"9]",
    ),
    "many names for many patterns": (
        {"patternProperties": {f"^p{n}x.*y": {} for n in range(500)}},
        json.dumps({f"p{n}": 1 for n in range(20_000)}).encode(),
    ),
    "a long text for a large pattern": ({"pattern": "(.*a.{200}){3}c"}, json.dumps("ab" * 200_000).encode()),
    "numbers of 4,000 digits": (
        {"items": {"allOf": [{"multipleOf": n} for n in range(1, 100)]}},
        b"[" + b",".join([b"9" * 4_000] * 20) + b"]",
    ),
    "different arrays": (
        {"items": {"allOf": [{"uniqueItems": True}] * 200}},
        json.dumps([[[n] for n in range(20_000)]]).encode(),
    ),
}


@pytest.mark.parametrize(("schema", "data"), JSON_MESSAGES.values(), ids=JSON_MESSAGES.keys())
def test_a_message_that_takes_too_much_work_does_not_fit(schema: Any, data: bytes) -> None:
    with pytest.raises(Mismatch, match=r"too many steps|digits"):
        ready(schema).check(data)


def test_a_large_ordinary_message_is_checked() -> None:
    names = [f"p{number}" for number in range(10)]
    item = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    check = ready({"type": "array", "items": item}).check
    rows = [{name: number for number, name in enumerate(names)} for _ in range(9_000)]
    check(json.dumps(rows).encode())
    rows[8_000]["p3"] = "x"  # type: ignore[assignment]
    with pytest.raises(Mismatch) as refused:
        check(json.dumps(rows).encode())
    assert refused.value.path == "$[8000].p3"


def test_few_bytes_of_avro_cannot_mean_many_values() -> None:
    fields = [{"name": f"n{number}", "type": "null"} for number in range(1_000)]
    record = {"type": "record", "name": "R", "fields": fields}
    check = checker(parse(Schema("AVRO", json.dumps({"type": "array", "items": record})), {})).check
    for data in (bytes([0x90, 0x4E, 0]), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"):
        with pytest.raises(Mismatch, match="too many values"):
            check(data)
    check(bytes([4, 0]))


def test_records_that_take_bytes_may_be_many() -> None:
    types = json.loads(avro_records(10, "int"))
    check = checker(parse(Schema("AVRO", json.dumps(types)), {})).check
    check(bytes([22, 2, *[0] * 1_024, 0]))


def test_many_messages_in_one_protobuf_file_are_made_ready_at_once() -> None:
    fields = "".join(f"M{number} f{number} = {number + 1};" for number in range(4_000))
    text = 'syntax = "proto3"; message All {' + fields + "}"
    text += "".join(f"message M{number} {{ string s = 1; }}" for number in range(4_000))
    checker(parse(Schema("PROTOBUF", text), {})).check(b"")


def avro_record(name: str, **more: Any) -> str:
    fields = [{"name": f"{name}{number}", "type": "int", **more} for number in range(12_000)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def avro_enum(name: str) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": [f"{name}{number}" for number in range(40_000)]})


COMPARED: dict[str, tuple[Kind, str, str]] = {
    "Avro fields": ("AVRO", avro_record("a", default=0), avro_record("b")),
    "Avro symbols": ("AVRO", avro_enum("a"), avro_enum("b")),
}


@pytest.mark.parametrize(("kind", "reader", "writer"), COMPARED.values(), ids=COMPARED.keys())
def test_large_schemas_are_compared_in_time(kind: Kind, reader: str, writer: str) -> None:
    compare(parse(Schema(kind, reader), {}), parse(Schema(kind, writer), {}))


PROTO = 'syntax = "proto2"; message A { optional int32 a = 1; optional NAME b = 2; }'
PAIRS: list[tuple[Kind, str, str]] = [
    ("JSON", '{"type": "string"}', '{"type": "integer"}'),
    ("AVRO", '"string"', '"int"'),
    ("PROTOBUF", PROTO.replace("NAME", "string"), PROTO.replace("NAME", "int32")),
]


@pytest.mark.parametrize(("kind", "reader", "writer"), PAIRS)
def test_a_comparison_that_takes_too_long_is_given_up(kind: Kind, reader: str, writer: str) -> None:
    found = compare(parse(Schema(kind, reader), {}), parse(Schema(kind, writer), {}), True, lambda: True)
    assert [one.kind for one in found] == ["TOO_COMPLEX"]


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("abc", 3, 5),
        ("a{100}", 100, 110),
        ("(ab{10}){10}", 100, 150),
        ("[a-z]", 1, 5),
        (r"\p{L}{5}\{3", 40, 50),
        ("(((", 1, 5),
    ],
)
def test_the_size_of_a_pattern_counts_repetitions(pattern: str, least: int, most: int) -> None:
    assert least <= regex_states(pattern) <= most


def test_a_description_of_a_file_is_still_told_from_text() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="a.proto", syntax="proto3")
    file.message_type.add(name="A")
    text = base64.b64encode(file.SerializeToString()).decode()
    assert "message A" in parse(Schema("PROTOBUF", f"  {text}\n "), {}).text


def test_long_names_of_a_schema_do_not_make_short_data_endless() -> None:
    name, count = "n" * 100_000, 1_000
    fields = [{"name": name, "type": "boolean"}]
    avro = AvroDocument(json.dumps({"type": "array", "items": {"type": "record", "name": "R", "fields": fields}}), {})
    assert name in decoded(avro, b"\x02\x01\x00")
    with pytest.raises(Mismatch, match="characters"):
        decoded(avro, b"\xd0\x0f" + b"\x01" * count + b"\x00")
    proto = ProtoDocument(f'syntax = "proto3"; message M {{ repeated E e = 1; }} enum E {{ {name} = 0; }}', {})
    assert name in decoded(proto, b"\x0a\x01\x00", (0,))
    with pytest.raises(Mismatch, match="characters"):
        decoded(proto, b"\x0a\xe8\x07" + bytes(count), (0,))
