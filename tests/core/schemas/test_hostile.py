"""Schemas and data that mean harm: each gets a clear error at once, and nothing is ever fetched."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from goqueue.core.schemas.errors import InvalidSchema
from goqueue.core.schemas.json_schema import JsonDocument
from goqueue.core.schemas.kinds import checker, parse
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.model import Kind, Schema, check_bounds

SECONDS_MAX = 0.5


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> NoReturn:
        raise AssertionError("somebody wanted a connection")

    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    monkeypatch.setattr(socket.socket, "connect", forbidden)


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    began = time.process_time()  # what others do on the machine does not count
    yield
    assert time.process_time() - began < SECONDS_MAX


def nested(keyword: str, depth: int) -> str:
    return f'{{"{keyword}":' * depth + "{}" + "}" * depth


BAD_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
REFUSED: list[tuple[str, Kind, str, str]] = [
    ("remote reference", "JSON", '{"$ref": "http://127.0.0.1:1/x.json"}', "nothing is fetched"),
    ("remote reference in a corner", "JSON", '{"properties": {"a": {"$ref": "https://a.b/x"}}}', "nothing is fetched"),
    ("a file", "JSON", '{"$ref": "file:///etc/passwd"}', "nothing is fetched"),
    ("remote meta-schema", "JSON", '{"$schema": "http://127.0.0.1:1/meta"}', "is unknown"),
    ("itself", "JSON", '{"$ref": "#"}', "leads back to itself"),
    ("a circle of two", "JSON", '{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}', "leads back"),
    ("a circle in allOf", "JSON", '{"allOf": [{"$ref": "#"}]}', "leads back to itself"),
    ("a circle in not", "JSON", '{"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}', "leads back to itself"),
    ("objects 10,000 deep", "JSON", nested("not", 10_000), "nested more than"),
    ("arrays 10,000 deep", "JSON", '{"enum": ' + "[" * 10_000 + "]" * 10_000 + "}", "nested more than"),
    ("Avro 10,000 deep", "AVRO", '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000, "nested more than"),
    ("Protobuf 10,000 deep", "PROTOBUF", "message A{" * 10_000, "nested too deep"),
    ("brackets that never close", "JSON", "[" * 100_000, "nested more than"),
    ("look-ahead", "JSON", '{"pattern": "^(?=a)"}', "linear time"),
    ("back-reference", "JSON", r'{"pattern": "(a)\\1"}', "linear time"),
    ("a pattern that unfolds", "JSON", '{"pattern": "((a{100}){100}){100}"}', "linear time"),
    ("a name pattern that unfolds", "JSON", '{"patternProperties": {"((a{100}){100}){100}": {}}}', "linear time"),
    ("not a schema of its draft", "JSON", '{"type": "strin"}', "#/type"),
    ("not JSON", "JSON", "{", "not JSON"),
    ("not a schema", "JSON", "[1]", "an object, true or false"),
    ("a number too large", "JSON", '{"minimum": 1e999}', "too large"),
    ("NaN", "JSON", '{"minimum": NaN}', "not JSON"),
    ("an unknown Avro type", "AVRO", '"strin"', "is not known"),
    ("an Avro default that does not fit", "AVRO", BAD_DEFAULT, "does not fit"),
    ("an Avro name twice", "AVRO", '[{"type":"fixed","name":"X","size":1},{"type":"enum","name":"X"}]', "twice"),
    ("an import of a file", "PROTOBUF", 'import "/etc/passwd"; message A{}', "is not known"),
    ("an unknown Protobuf type", "PROTOBUF", "message A{Foo x=1;}", "Foo"),
    ("a field number twice", "PROTOBUF", "message A{int32 x=1; int32 y=1;}", "duplicate"),
    ("junk as a description", "PROTOBUF", "AAAAAAAA", "neither"),
    ("a comment that never ends", "PROTOBUF", "/* " + "*" * 100_000, "not expected"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "told"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_is_refused_with_a_reason(kind: Kind, text: str, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        checker(parse(Schema(kind, text), {}))


@pytest.mark.parametrize("kind", ["JSON", "AVRO", "PROTOBUF"])
def test_a_megabyte_is_not_even_parsed(kind: Kind) -> None:
    with pytest.raises(InvalidSchema, match="too large"):
        check_bounds(Schema(kind, '{"a": "' + "x" * 1_000_000 + '"}'))
    check_bounds(Schema(kind, "x" * 999_999))


def test_a_remote_reference_within_a_reference_is_not_followed() -> None:
    with pytest.raises(InvalidSchema, match="nothing is fetched"):
        references = {"a.json": Schema("JSON", '{"$ref": "http://127.0.0.1:1/x"}')}
        checker(parse(Schema("JSON", '{"$ref": "a.json"}'), references))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "(x+x+)+y"])
def test_a_pathological_pattern_takes_no_time(pattern: str) -> None:
    ready = JsonDocument(json.dumps({"pattern": pattern}), {}).compile()
    for text in ("a" * 50_000 + "!", "x" * 50_000):
        with pytest.raises(Mismatch):
            ready.check(json.dumps(text).encode())


def test_a_schema_within_itself_is_fine_where_the_data_ends() -> None:
    ready = JsonDocument('{"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}}', {}).compile()
    ready.check(b'{"next": {"next": {"v": 1}}}')
    with pytest.raises(Mismatch) as why:
        ready.check(b'{"next": {"next": {"v": "x"}}}')
    assert why.value.path == "$.next.next.v"


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b"\xff", b"", b"nul", b"NaN"]
)
def test_data_that_is_not_json_is_no_crash(data: bytes) -> None:
    with pytest.raises(Mismatch):
        JsonDocument('{"type": "object"}', {}).compile().check(data)


def test_avro_data_cannot_claim_more_than_it_brings() -> None:
    record = '{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]}]}'
    for text, data in (
        ('{"type":"array","items":"null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 2),
        ('"bytes"', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ('"long"', b"\xff" * 11),
        (record, b"\x02" * 100_000),
    ):
        with pytest.raises(Mismatch):
            checker(parse(Schema("AVRO", text), {})).check(data)


def test_protobuf_data_cannot_go_deeper_than_allowed() -> None:
    ready = checker(parse(Schema("PROTOBUF", 'syntax="proto3"; message A{A a=1;}'), {}))
    data = b""
    for _ in range(300):
        size = len(data)
        data = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + data
    with pytest.raises(Mismatch, match="deep"):
        ready.check(data)
    with pytest.raises(Mismatch, match="deep"):
        ready.check(b"\x13" * 10_000)
