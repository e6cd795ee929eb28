"""Protobuf files of every kind: editions, files without a message, and imports that nobody has to register."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from goqueue.core.schemas.errors import InvalidSchema
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_data import ProtoChecker
from goqueue.core.schemas.proto_known import KNOWN_FILES
from goqueue.core.schemas.proto_schema import ProtoDocument

NOT_UTF8 = b"\x0a\x01\xff"  # field 1, one byte that is no text


def checker(text: str) -> ProtoChecker:
    return ProtoChecker(ProtoDocument(text, {}))


@pytest.mark.parametrize("name", KNOWN_FILES)
def test_what_confluent_knows_can_be_imported(name: str) -> None:
    document = ProtoDocument(f'syntax = "proto3"; import "{name}"; message A {{ int32 a = 1; }}', {})
    again = ProtoDocument(document.canonical, {})
    assert again.canonical == document.canonical


def test_imported_types_hold_for_data() -> None:
    text = """syntax = "proto3"; import "google/type/money.proto"; import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        message A {
          option (confluent.message_meta) = { doc: "x" };
          google.type.Money price = 1 [(confluent.field_meta) = { tags: ["PII"] }]; confluent.type.Decimal exact = 2;
        }"""
    check = checker(text).check
    check(b"\x0a\x05\x0a\x03EUR\x12\x03\x0a\x01\x00")
    with pytest.raises(Mismatch):
        check(b"\x0a\x02\x08\x01")  # the currency is text, not a number


def test_a_reference_goes_before_what_is_known() -> None:
    own = 'syntax = "proto3"; package google.type; message Money { int32 cents = 1; }'
    text = 'syntax = "proto3"; import "google/type/money.proto"; message A { google.type.Money m = 1; }'
    ProtoChecker(ProtoDocument(text, {"google/type/money.proto": own})).check(b"\x0a\x02\x08\x05")


def test_a_file_without_a_message_is_a_schema_for_others() -> None:
    text = 'syntax = "proto3"; package shop; enum Size { SMALL = 0; LARGE = 1; }'
    assert "enum Size" in ProtoDocument(text, {}).canonical
    with pytest.raises(Mismatch, match="no message"):
        checker(text).check(b"")
    outer = 'syntax = "proto3"; import "size.proto"; message A { shop.Size size = 1; }'
    ProtoChecker(ProtoDocument(outer, {"size.proto": text})).check(b"\x08\x01")


EDITION = """edition = "2023"; package shop;
option features.field_presence = IMPLICIT; option features.(pb.go).api_level = API_OPAQUE;
message A {
  option features.utf8_validation = NONE;
  string name = 1; int32 id = 2 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 many = 3; map<string, int32> named = 4; oneof choice { int32 a = 5; string b = 6; }
  string checked = 7 [features.utf8_validation = VERIFY];
  enum E { option features.enum_type = CLOSED; ONE = 1; }
}
message B { string name = 1; reserved 5 to 7, 9; reserved old; }
"""


def test_an_edition_is_read_with_its_features() -> None:
    check = checker(EDITION).check
    check(b"\x10\x01" + NOT_UTF8)
    check(b"\x10\x01\x1a\x02\x01\x02\x18\x03")
    with pytest.raises(Mismatch, match="required and missing: id"):
        check(NOT_UTF8)
    with pytest.raises(Mismatch, match="UTF-8"):
        check(b"\x10\x01\x3a\x01\xff")
    with pytest.raises(Mismatch, match="UTF-8"):
        check(NOT_UTF8, (1,))


@pytest.mark.parametrize(
    "text", [EDITION, 'edition = "2024"; local message A { string s = 1; export enum E { X = 0; } }']
)
def test_an_edition_is_printed_as_it_is(text: str) -> None:
    document = ProtoDocument(text, {})
    again = ProtoDocument(document.canonical, {})
    assert again.canonical == document.canonical
    assert again.serialized == document.serialized
    assert ProtoDocument(document.serialized, {}).canonical == document.canonical


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('edition = "1999"; message A {}', "edition of 2023, 2024"),
        ('edition = "2023"; message A { optional int32 a = 1; }', "no such label"),
        ('edition = "2023"; option features.speed = FAST; message A {}', "no feature"),
        ('edition = "2023"; option features.enum_type = AJAR; message A {}', "no value"),
        ('edition = "2023"; option features.message_encoding = DELIMITED; message A { A a = 1; }', "groups"),
        ('edition = "2023"; message A { A a = 1 [features.message_encoding = DELIMITED]; }', "groups"),
    ],
)
def test_what_is_no_edition_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        ProtoDocument(text, {})


def test_a_group_in_a_description_is_refused() -> None:
    file = FileDescriptorProto(name="a.proto", syntax="proto2")
    message = file.message_type.add(name="A")
    message.nested_type.add(name="G")
    message.field.add(name="g", number=1, label=1, type=10, type_name="G")
    with pytest.raises(InvalidSchema, match="groups"):
        ProtoDocument(base64.b64encode(file.SerializeToString()).decode(), {})
