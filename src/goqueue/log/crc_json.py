"""Small durable facts beside a log: one line of JSON behind its CRC-32C, readable by people, whole or refused."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from crc32c import crc32c

from goqueue.base.decoders import from_json

T = TypeVar("T")


def encode_crc_json(fact: object) -> bytes:
    body = msgspec.json.encode(fact)
    return b"%08x %s\n" % (crc32c(body), body)


def decode_crc_json(data: bytes | None, kind: type[T]) -> T | None:
    """The fact, or None if the note is missing, damaged or of another kind."""
    if data is None or len(data) < 10 or data[8:9] != b" ":
        return None
    body = data[9:].rstrip(b"\n")
    if b"%08x" % crc32c(body) != data[:8]:
        return None
    try:
        return from_json(body, kind)
    except msgspec.DecodeError:
        return None
