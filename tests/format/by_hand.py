"""A second, independent encoder of record batches, written from the specification and shared with nothing."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Headers = Sequence[tuple[str, bytes | None]]
HandRecord = tuple[int, int, bytes | None, bytes | None, Headers]  # time delta, offset delta, key, value, headers


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while True:
        low, zigzag = zigzag & 0x7F, zigzag >> 7
        out.append(low | (0x80 if zigzag else 0))
        if not zigzag:
            return bytes(out)


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(time_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    body = b"\x00" + varint(time_delta) + varint(offset_delta) + field(key) + field(value) + varint(len(headers))
    for name, header_value in headers:
        body += field(name.encode()) + field(header_value)
    return varint(len(body)) + body


def crc32c(data: bytes) -> int:
    """Bit by bit, with the reflected Castagnoli polynomial."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def batch(
    body: bytes,
    count: int,
    *,
    base_offset: int = 0,
    epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_time: int = 1_000,
    max_time: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    after = struct.pack(">hiqqqhii", attributes, delta, base_time, max_time, *producer, count) + body
    crc = crc32c(after)
    return struct.pack(">qiibI", base_offset, 9 + len(after), epoch, magic, crc) + after


def plain(*values: bytes) -> bytes:
    """A batch of keyless values at time 1000."""
    return batch(b"".join(record(0, at, None, value) for at, value in enumerate(values)), len(values))
