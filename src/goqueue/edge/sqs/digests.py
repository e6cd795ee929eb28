"""The MD5 digests of SQS. Clients compute them too and compare."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from typing import Final

_STRING: Final = b"\x01"
_BINARY: Final = b"\x02"

Typed = tuple[str, str, bytes]  # name, data type, value as bytes


def body_md5(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def attributes_md5(attributes: Iterable[Typed]) -> str:
    """Over name, type and value of each attribute, in the order of names, each with its length before it."""
    parts: list[bytes] = []
    for name, data_type, value in sorted(attributes):
        parts += (_sized(name.encode()), _sized(data_type.encode()))
        parts += (_BINARY if data_type.startswith("Binary") else _STRING, _sized(value))
    return md5(b"".join(parts), usedforsecurity=False).hexdigest()


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
