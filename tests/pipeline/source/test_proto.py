"""Against Protobuf's own package, which wrote the bytes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from goqueue.pipeline.source.errors import Misfit, Untyped
from goqueue.pipeline.source.proto_values import proto_descriptor, proto_start, proto_type
from goqueue.pipeline.source.registry import Registered
from goqueue.pipeline.source.typed import Decoder, Typed

_F = pb.FieldDescriptorProto


def _field(name: str, number: int, type_: int, label: int = _F.LABEL_OPTIONAL, **more: Any) -> Any:
    return _F(name=name, number=number, type=type_, label=label, **more)


def _order() -> Any:
    entry = pb.DescriptorProto(name="CountsEntry", options=pb.MessageOptions(map_entry=True))
    entry.field.extend([_field("key", 1, _F.TYPE_STRING), _field("value", 2, _F.TYPE_INT32)])
    buyer = pb.DescriptorProto(name="Buyer", field=[_field("name", 1, _F.TYPE_STRING)])
    kind = pb.EnumDescriptorProto(name="Kind")
    kind.value.extend(
        [pb.EnumValueDescriptorProto(name="NEW", number=0), pb.EnumValueDescriptorProto(name="USED", number=1)]
    )
    order = pb.DescriptorProto(name="Order", nested_type=[entry, buyer], enum_type=[kind])
    order.field.extend(
        [
            _field("id", 1, _F.TYPE_INT64),
            _field("small", 2, _F.TYPE_UINT32),
            _field("large", 3, _F.TYPE_UINT64),
            _field("price", 4, _F.TYPE_DOUBLE),
            _field("raw", 5, _F.TYPE_BYTES),
            _field("kind", 6, _F.TYPE_ENUM, type_name=".shop.Order.Kind"),
            _field("buyer", 7, _F.TYPE_MESSAGE, type_name=".shop.Order.Buyer"),
            _field("tags", 8, _F.TYPE_STRING, _F.LABEL_REPEATED),
            _field("counts", 9, _F.TYPE_MESSAGE, _F.LABEL_REPEATED, type_name=".shop.Order.CountsEntry"),
            _field("at", 10, _F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
            _field("maybe", 11, _F.TYPE_INT32, proto3_optional=True, oneof_index=0),
        ]
    )
    order.oneof_decl.add(name="_maybe")
    imports = ["google/protobuf/timestamp.proto"]
    return pb.FileDescriptorProto(
        name="o.proto", package="shop", syntax="proto3", dependency=imports, message_type=[order]
    )


def _text(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _message(file: Any, name: str, **members: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**members)
    return bytes(made.SerializeToString())


def _column(file: Any, values: list[bytes]) -> tuple[list[Any], list[int]]:
    decoder = Decoder(Typed("http://n", Registered(1, "PROTOBUF", _text(file)), {"t": "none"}))
    column, misfits = decoder.column(pa.array(values, pa.binary()), None)
    return column.to_pylist(), sorted(misfits)


def test_types_are_those_of_sparks_from_protobuf() -> None:
    assert proto_type(proto_descriptor(_text(_order()), {})).simpleString() == (
        "struct<id:bigint,small:bigint,large:decimal(20,0),price:double,raw:binary,kind:string,"
        "buyer:struct<name:string>,tags:array<string>,counts:map<string,int>,at:timestamp,maybe:int>"
    )


def test_what_the_package_wrote_is_read() -> None:
    data = _message(
        _order(),
        "shop.Order",
        id=-5,
        small=2**32 - 1,
        large=2**64 - 1,
        price=2.5,
        raw=b"\0\1",
        kind=1,
        buyer={"name": "Ann"},
        tags=["a", "b"],
        counts={"x": 3},
        at=datetime.fromtimestamp(60, UTC) + timedelta(microseconds=5),
    )
    (found,), misfits = _column(_order(), [data])
    assert not misfits
    assert found["at"].timestamp() == 60.000005
    assert {name: value for name, value in found.items() if name != "at"} == {
        "id": -5,
        "small": 2**32 - 1,
        "large": Decimal(2**64 - 1),
        "price": 2.5,
        "raw": b"\0\1",
        "kind": "USED",
        "buyer": {"name": "Ann"},
        "tags": ["a", "b"],
        "counts": [("x", 3)],
        "maybe": None,
    }


def test_what_was_not_set_is_null_or_the_default_as_the_type_has_it() -> None:
    (found,), _ = _column(_order(), [b""])
    assert (found["id"], found["kind"], found["tags"]) == (0, "NEW", [])
    assert (found["buyer"], found["at"], found["maybe"]) == (None, None, None)


def test_frames_and_junk() -> None:
    data = _message(_order(), "shop.Order", id=7)
    frame = b"\0\0\0\0\x01"
    values = [data, frame + b"\0" + data, frame + b"\x02\0" + data, frame + b"\x02\x02" + data, b"\xff\xff", frame]
    found, misfits = _column(_order(), values)
    assert [one and one["id"] for one in found] == [7, 7, 7, None, None, None]
    assert misfits == [3, 4, 5]


def test_imports_of_other_subjects() -> None:
    place = pb.FileDescriptorProto(
        name="whatever",
        syntax="proto3",
        message_type=[pb.DescriptorProto(name="Place", field=[_field("zip", 1, _F.TYPE_INT32)])],
    )
    home = pb.DescriptorProto(name="Home", field=[_field("at", 1, _F.TYPE_MESSAGE, type_name=".Place")])
    file = pb.FileDescriptorProto(name="h", syntax="proto3", dependency=["place.proto"], message_type=[home])
    found = proto_type(proto_descriptor(_text(file), {"place.proto": _text(place)}))
    assert found.simpleString() == "struct<at:struct<zip:int>>"


def test_a_message_that_contains_itself() -> None:
    tree = pb.DescriptorProto(name="Tree", field=[_field("next", 1, _F.TYPE_MESSAGE, type_name=".Tree")])
    file = pb.FileDescriptorProto(name="t", syntax="proto3", message_type=[tree])
    with pytest.raises(Untyped, match=r"\$.next contains itself"):
        proto_type(proto_descriptor(_text(file), {}))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xfe\x01", b"\x04\x00\x00"])
def test_indexes_that_make_no_sense(data: bytes) -> None:
    with pytest.raises(Misfit):
        proto_start(data, 0)
