"""Values against schemas: the verdicts of the study against those of the broker's own checkers."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from goqueue.core.schemas.avro_data import AvroChecker
from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.json_schema import JsonDocument
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_schema import ProtoDocument
from goqueue.pipeline.analytics.checks import CheckPlan, TopicSchemas, check_of, reason, reasons
from goqueue.pipeline.source.registry import Registered

PRICE = '{"type": "object", "properties": {"price": {"type": "number", "minimum": 0}}, "required": ["price"]}'
PARCEL = json.dumps(
    {
        "type": "record",
        "name": "Parcel",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "to", "type": ["null", "string", {"type": "map", "values": "int"}]},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BOX", "BAG"]}},
            {"name": "sizes", "type": {"type": "array", "items": "double"}},
            {"name": "next", "type": ["null", "Parcel"]},
        ],
    }
)
LABEL = ProtoDocument(
    'syntax = "proto3"; message Label { string to = 1; message Line { int32 w = 1; } } message Stamp { int32 n = 1; }',
    {},
).serialized


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def book(framing: str = "none", latest: int | None = 1) -> CheckPlan:
    schemas = {1: Registered(1, "JSON", PRICE), 2: Registered(2, "AVRO", PARCEL), 3: Registered(3, "PROTOBUF", LABEL)}
    return CheckPlan({"orders": TopicSchemas(framing, (1, 2, 3), latest)}, schemas)


def test_json_is_checked_as_the_broker_checks_it() -> None:
    schema = Registered(1, "JSON", PRICE)
    checker = JsonDocument(PRICE, {}).compile()
    for data in (b'{"price": 1}', b'{"price": -1}', b"{}", b'"x"', b"{", b"\xff", b"[" * 5_000, b""):
        assert (check_of(schema)(data, False) is None) == _fits(checker, data), data
    assert check_of(schema)(b'{"price": -1}', False) == "$.price: -1 is less than the minimum of 0"


def test_json_that_names_no_draft_is_of_the_same_draft_as_for_the_broker() -> None:
    text = '{"items": [{"type": "integer"}], "additionalItems": false}'
    checker = JsonDocument(text, {}).compile()
    for data in (b"[1]", b'["x"]', b"[1, 2]"):
        assert (check_of(Registered(1, "JSON", text))(data, False) is None) == _fits(checker, data) == (data == b"[1]")


def test_json_may_refer_to_other_documents() -> None:
    text = '{"$ref": "price.json"}'
    check = check_of(Registered(1, "JSON", text, {"price.json": PRICE}))
    assert check(b'{"price": 1}', False) is None
    assert check(b"{}", False) == '$: "price" is a required property'


def test_avro_is_checked_as_the_broker_checks_it() -> None:
    check = check_of(Registered(2, "AVRO", PARCEL))
    checker = AvroChecker(AvroDocument(PARCEL, {}))
    chance = random.Random(5)
    good = [_parcel(chance, 3) for _ in range(50)]
    assert all(check(data, False) is None for data in good)
    damaged = [_damaged(chance, data) for data in good for _ in range(10)]
    assert [check(data, False) is None for data in damaged] == [_fits(checker, data) for data in damaged]
    assert not all(_fits(checker, data) for data in damaged)
    assert check(good[0] + b"\0", False) == "1 bytes follow the value"


def test_protobuf_is_read_by_its_own_package() -> None:
    check = check_of(Registered(3, "PROTOBUF", LABEL))
    assert check(b"\x0a\x03ann", False) is None
    assert check(b"", False) is None
    assert check(b"\x28\x01", False) is None  # a field that the type does not know
    assert "'Label'" in str(check(b"\x0a\x09ann", False))
    assert check(b"\x0a\x01\xff", False) is not None  # a text that is not UTF-8
    assert check(b"\0\x0a\x03ann", True) is None
    assert check(b"\x04\0\0\x08\x07", True) is None  # the first message in the first one
    assert check(b"\x02\x08\x08\x07", True) == "the schema has no message at [4]"
    assert check(b"\x7f", True) == "-64 is no number of message indexes"
    assert check(b"\x02", True) == check(b"", True) == "the message indexes are cut off"


def _fits(checker: Any, data: bytes) -> bool:
    try:
        checker.check(data)
    except Mismatch:
        return False
    return True


def _number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _parcel(chance: random.Random, depth: int) -> bytes:
    """One record in Avro's binary form, built by hand."""
    to = chance.choice(
        (b"\0", _number(1) + _number(3) + b"ann", _number(2) + _number(1) + _number(1) + b"x\x04" + b"\0")
    )
    sizes = b"".join(bytes(8) for _ in range(2))
    rest = _number(1) + _parcel(chance, depth - 1) if depth else b"\0"
    return _number(chance.randrange(1 << 40)) + to + _number(chance.randrange(2)) + _number(2) + sizes + b"\0" + rest


def _damaged(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return chance.choice((data[:at], data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :], data + data[:at]))


@pytest.mark.parametrize(
    ("framing", "schema_id", "value", "why"),
    [
        ("none", None, b'{"price": 1}', None),
        ("none", 1, b'{"price": 1}', None),
        ("none", 1, framed(1, b'{"price": 1}'), None),
        ("none", 99, b'{"price": 1}', None),  # makes no sense: taken for data of the latest
        ("latest", 2, b'{"price": 1}', None),
        ("prefix", 1, framed(1, b"{}"), '$: "price" is a required property'),
        ("prefix", None, b"{}", "it does not say which schema it has, and orders wants that by prefix"),
        ("header", 99, b"{}", "the schema 99 is not registered for orders"),
        ("header", None, b"{}", "it does not say which schema it has, and orders wants that by header"),
        ("header", 3, b"\x0a\x03ann", None),
        ("prefix", 3, framed(3, b"\x02\x02\x08\x07"), None),  # the second message of the file
        ("none", None, b"", "not JSON: Input data was truncated"),
    ],
)
def test_which_schema_a_value_has(framing: str, schema_id: int | None, value: bytes, why: str | None) -> None:
    assert reason(book(framing), "orders", schema_id, value) == why


def test_what_has_no_schema_is_not_checked() -> None:
    assert reason(book(), "mails", 1, b"junk") is None
    assert not book().is_checked("mails")
    assert book().is_checked("orders")


def test_columns_of_values_and_tombstones() -> None:
    values = pa.array([b'{"price": 1}', None, b"{}"], pa.binary())
    found = reasons(book(), pa.array(["orders"] * 3), pa.array([1, None, None], pa.int32()), values)
    assert found.to_pylist() == [None, None, '$: "price" is a required property']


def test_a_schema_that_cannot_be_used_says_so_for_every_row() -> None:
    why = check_of(Registered(9, "JSON", '{"type": "nonsense"}'))(b"{}", False)
    assert why is not None and why.startswith("the registered schema cannot be used")
