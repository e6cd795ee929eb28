"""How a message says which schema it was written with: Confluent's prefix, or a header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.base.commands import Headers
from goqueue.base.header_values import number_in
from goqueue.core.schemas.mismatch import Mismatch

HEADERS: Final = {"value": "schema-id", "key": "schema-key-id"}
_CONFLUENT: Final = {"value": "__value_schema_id", "key": "__key_schema_id"}
_INDEXES_MAX: Final = 32
PREFIX_BYTES: Final = 5  # a zero, and four of the schema's id

FindGuid = Callable[[str], int | None]


class Framed(msgspec.Struct, frozen=True):
    """The schema's id, the message's place in a Protobuf file if that is told, and the data itself."""

    id: int
    data: bytes
    indexes: tuple[int, ...] | None = None


def prefix_id(data: bytes) -> int | None:
    """The id in the prefix; None if the data does not begin like one."""
    return int.from_bytes(data[1:PREFIX_BYTES], "big") if len(data) >= PREFIX_BYTES and data[0] == 0 else None


def by_prefix(data: bytes, has_indexes: Callable[[int], bool]) -> Framed:
    """A zero, four bytes of the id, for Protobuf the message's place, then the data."""
    schema_id = prefix_id(data)
    if schema_id is None:
        raise Mismatch((), "it does not begin with a zero byte and a schema's id in four bytes")
    if not has_indexes(schema_id):
        return Framed(schema_id, data[PREFIX_BYTES:])
    indexes, at = message_indexes(data, PREFIX_BYTES)
    return Framed(schema_id, data[at:], indexes)


def by_header(part: str, data: bytes, headers: Headers, find: FindGuid) -> Framed:
    """`schema-id` holds the id as text; Confluent's own header holds the id or the guid in bytes."""
    wanted, foreign = HEADERS[part], _CONFLUENT[part]
    for name, value in headers:
        if name == wanted:
            schema_id = number_in((value or b"").strip())
            if schema_id is None:
                raise Mismatch((), f"the header {wanted} is not a schema's id")
            return Framed(schema_id, data)
        if name == foreign and value:
            return _confluent(value, data, find, foreign)
    raise Mismatch((), f"there is no header {wanted}")


def _confluent(value: bytes, data: bytes, find: FindGuid, name: str) -> Framed:
    if value[0] == 0 and len(value) >= 5:
        schema_id: int | None = int.from_bytes(value[1:5], "big")
        at = 5
    elif value[0] == 1 and len(value) >= 17:
        text = value[1:17].hex()
        schema_id = find(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
        at = 17
    else:
        raise Mismatch((), f"the header {name} is not a schema's id")
    if schema_id is None:
        raise Mismatch((), f"no schema has the guid in the header {name}")
    return Framed(schema_id, data, message_indexes(value, at)[0] if len(value) > at else None)


def message_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """A count and as many places, each a zigzag varint. A single zero stands for the first message."""
    count, at = _varint(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _INDEXES_MAX:
        raise Mismatch((), f"{count} is no number of message indexes")
    found: list[int] = []
    for _ in range(count):
        one, at = _varint(data, at)
        found.append(one)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while shift <= 35:
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
    raise Mismatch((), "the message indexes are cut off")
