from __future__ import annotations

import msgspec
import pytest

from goqueue.core.groups import (
    ClassicMember,
    ConsumerMember,
    GroupGone,
    GroupState,
    OffsetCommitted,
    OffsetDeleted,
    decode_record,
    encode_record,
)
from goqueue.core.groups.records import Record

CLASSIC = ClassicMember("m1", "i1", "c", "h", 10_000, 20_000, (("range", b"\x00r"),), b"\xff")
CONSUMER = ConsumerMember("m2", "rest", topics=("a",), epoch=3, assigned={"a": (0, 2)}, pending={"b": (1,)})


@pytest.mark.parametrize(
    "record",
    [
        GroupState("g", "classic", 4, 9, "consumer", "range", "m1", {"m1": CLASSIC}),
        GroupState("g", "consumer", 4, consumer={"m2": CONSUMER}, topics={"a": 3}, mode="shared"),
        GroupGone("g"),
        OffsetCommitted("g", "a", 0, 1 << 40, 7, "text", 99, 100),
        OffsetDeleted("g", "a", 0),
    ],
)
def test_records_come_back_as_they_were(record: Record) -> None:
    assert decode_record(*encode_record(record)) == record


def test_a_group_and_its_tombstone_share_a_key_and_partitions_have_their_own() -> None:
    keys = [
        encode_record(GroupState("g", "classic"))[0],
        encode_record(GroupGone("g"))[0],
        encode_record(OffsetCommitted("g", "a", 0, 1))[0],
        encode_record(OffsetDeleted("g", "a", 0))[0],
        encode_record(OffsetDeleted("g", "a", 1))[0],
        encode_record(OffsetDeleted("h", "a", 0))[0],
    ]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"junk", b"junk"),
        (msgspec.msgpack.encode((2, "group", "g")), None),
        (msgspec.msgpack.encode((1, "share", "g")), None),
        (msgspec.msgpack.encode((1, "group", "g")), msgspec.msgpack.encode((2, {"group": "g", "kind": "classic"}))),
        (msgspec.msgpack.encode((1, "group", "g")), b"\xc1"),
        (msgspec.msgpack.encode((1, "offset", "g", "a", 0)), msgspec.msgpack.encode((2, 0, 0, "", 0, 0))),
    ],
)
def test_what_is_not_known_is_none(key: bytes, value: bytes) -> None:
    assert decode_record(key, value) is None
