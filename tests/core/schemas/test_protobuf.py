"""Protobuf: text and descriptions mean the same, and our walker is judged by Google's own parser."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_data import ProtoChecker
from goqueue.core.schemas.proto_schema import ProtoDocument

TEXT = """
// A shop.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "com.shop";  /* read over */

message Order {
  reserved 40, 50 to 60, 100 to max;
  reserved "old";
  message Line { string sku = 1; repeated sint32 counts = 2; map<string, double> prices = 3; }
  enum Kind { option allow_alias = true; NEW = 0; FRESH = 0; OLD = 1; }
  string id = 1 [json_name = "ID", deprecated = true];
  repeated Line lines = 2;
  map<int32, Line> by_number = 3;
  oneof pay { string card = 4; .shop.v1.Order.Line credit = 5; }
  optional int64 at = 6;
  google.protobuf.Timestamp when = 7;
  Kind kind = 8;
  bytes raw = 9;
  fixed32 a = 10; sfixed64 b = 11; float c = 12; bool d = 13;
  repeated int32 loose = 14 [packed = false];
  Order parent = 15;
}
message Empty {}
service Shop { rpc Buy (Order) returns (stream Empty) { option (some.option) = { get: "/x" }; } }
"""
DOCUMENT = ProtoDocument(TEXT, {})
CHECKER = ProtoChecker(DOCUMENT)
POOL = descriptor_pool.DescriptorPool()
POOL.Add(descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(ProtoDocument(
    'syntax = "proto3"; package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }', {}
).serialized)))  # fmt: skip
DESCRIPTION = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(DOCUMENT.serialized))
DESCRIPTION.name, DESCRIPTION.dependency[0] = "order.proto", "default"
POOL.Add(DESCRIPTION)
ORDER: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.v1.Order"))


def test_text_and_description_are_one_schema() -> None:
    again = ProtoDocument(DOCUMENT.serialized, {})
    assert again.canonical == DOCUMENT.canonical == ProtoDocument(DOCUMENT.canonical, {}).canonical
    assert DOCUMENT.text == TEXT, "text stays as it was handed in"
    assert again.text == DOCUMENT.canonical, "a description is shown as text"
    assert again.description == DOCUMENT.description


def test_messages_are_found_by_place_as_clients_count_them() -> None:
    names = {
        indexes: getattr(DOCUMENT.message(indexes), "name", None) for indexes in [(0,), (1,), (2,), (0, 0), (0, 1)]
    }
    assert names == {(0,): "Order", (1,): "Empty", (2,): None, (0, 0): "Line", (0, 1): "ByNumberEntry"}
    again = ProtoDocument(DOCUMENT.canonical, {})
    assert getattr(again.message((0, 1)), "name", None) == "ByNumberEntry", "printing moves no message"


LINES = st.builds(
    lambda sku, counts, prices: {"sku": sku, "counts": counts, "prices": prices},
    st.text(max_size=5),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_google_writes_fits(data: st.DataObject) -> None:
    order = ORDER(id=data.draw(st.text(max_size=5)), raw=data.draw(st.binary(max_size=5)), a=1, b=-2, c=0.5, d=True)
    order.loose.extend(data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)))
    for line in data.draw(st.lists(LINES, max_size=2)):
        order.lines.add(**line)
    order.by_number[3].sku = "x"
    order.when.seconds = 5
    order.parent.card = "y"
    written = order.SerializeToString()
    CHECKER.check(written)
    CHECKER.check(written + b"\xf8\x3f\x01")  # an unknown field


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=40))
def test_what_fits_can_be_read_by_google(junk: bytes) -> None:
    try:
        CHECKER.check(junk)
    except Mismatch:
        return
    try:
        ORDER.FromString(junk)
    except DecodeError:
        raise AssertionError(junk) from None


BROKEN = [
    (b"\x0a\x05a", "$.id", "5 bytes are announced"),
    (b"\x08\x01", "$.id", "a varint stands where a length belongs"),
    (b"\x12\x03\x0a\x01\xff", "$.lines.sku", "not UTF-8"),
    (b"\x7a\x02\x0a\x05", "$.parent.id", "5 bytes are announced"),
    (b"\x12\x04\x12\x02\x01\x80", "$.lines.counts", "middle of a number"),
    (b"\x55\x01\x02", "$.a", "4 bytes are announced"),
    (b"\x06", "$", "field number 0"),
    (b"\x0c", "$.id", "wire type"),
]


@pytest.mark.parametrize(("data", "path", "told"), BROKEN)
def test_the_path_leads_to_the_place(data: bytes, path: str, told: str) -> None:
    with pytest.raises(Mismatch, match=told) as why:
        CHECKER.check(data)
    assert why.value.path == path


def test_what_is_required_must_be_there() -> None:
    ready = ProtoChecker(ProtoDocument("message A { required int32 x = 1; optional A a = 2; }", {}))
    ready.check(b"\x08\x01")
    with pytest.raises(Mismatch, match="required and missing: x"):
        ready.check(b"")
    with pytest.raises(Mismatch) as why:
        ready.check(b"\x08\x01\x12\x00")
    assert why.value.path == "$.a"


def test_imports_are_references() -> None:
    references = {"common/item.proto": 'syntax="proto3"; package c; message Item { string sku = 1; }'}
    text = 'syntax="proto3"; import "common/item.proto"; message A { c.Item item = 1; }'
    with pytest.raises(Mismatch) as why:
        ProtoChecker(ProtoDocument(text, references)).check(b"\x0a\x02\x0a\x09")
    assert why.value.path == "$.item.sku"


def test_a_long_chain_of_messages_is_no_deep_call() -> None:
    chain = "".join(f"message M{n} {{ M{n + 1} next = 1; }}" for n in range(3000)) + "message M3000 {}"
    ProtoChecker(ProtoDocument('syntax="proto3";' + chain, {})).check(b"\x0a\x00")
