"""Small inputs that cost much: what the attackers send."""

from __future__ import annotations

import json
import struct

import cramjam

from goqueue.format.batch import CODEC_MASK, BatchHeader, assemble
from goqueue.format.records import NewRecord, build

ZSTD = 4 & CODEC_MASK
EMPTY_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"  # no key, no value, no headers

PRODUCE, FETCH, METADATA = 0, 1, 3


def kafka_frame(api: int, version: int, body: bytes) -> bytes:
    """A request below the flexible versions."""
    head = struct.pack(">hhih", api, version, 1, 8) + b"attacker"
    return struct.pack(">i", len(head) + len(body)) + head + body


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def many_names(count: int) -> bytes:
    return kafka_frame(METADATA, 1, struct.pack(">i", count) + b"\x00\x01a" * count)


def many_empty_partitions(count: int) -> bytes:
    body = struct.pack(">hhii", -1, -1, 1_000, 1) + _text("bomb") + struct.pack(">i", count)
    return kafka_frame(PRODUCE, 3, body + struct.pack(">ii", 0, -1) * count)


def many_fetched_partitions(count: int) -> bytes:
    one = struct.pack(">iqi", 0, 0, 1 << 20)
    body = struct.pack(">iiiibi", -1, 0, 0, 1 << 20, 0, 1) + _text("big") + struct.pack(">i", count)
    return kafka_frame(FETCH, 4, body + one * count)


def fetch(topic: str, wait_ms: int, bytes_min: int, bytes_max: int, offset: int = 0) -> bytes:
    body = struct.pack(">iiiibi", -1, wait_ms, bytes_min, bytes_max, 0, 1) + _text(topic)
    return kafka_frame(FETCH, 4, body + struct.pack(">iiqi", 1, 0, offset, bytes_max))


def produce(topic: str, batch: bytes) -> bytes:
    body = struct.pack(">hhii", -1, -1, 5_000, 1) + _text(topic) + struct.pack(">iii", 1, 0, len(batch))
    return kafka_frame(PRODUCE, 7, body + batch)


def _batch(records: bytes, count: int, codec: int) -> bytes:
    now = 1_700_000_000_000
    return assemble(BatchHeader(0, 0, -1, 2, 0, codec, count - 1, now, now, -1, -1, -1, count), records)


def record_bomb(count: int) -> bytes:
    """Millions of empty records in a few kilobytes."""
    return _batch(bytes(cramjam.zstd.compress(EMPTY_RECORD * count)), count, ZSTD)


def inflating_bomb(megabytes: int) -> bytes:
    """One record that claims little and unfolds to much."""
    return _batch(bytes(cramjam.zstd.compress(bytes(megabytes << 20))), 1, ZSTD)


def malformed_batch() -> bytes:
    """The checksum is right and the records are none."""
    return _batch(b"\xff" * 64, 3, 0)


def header_bombs() -> bytes:
    """Every header of ours with bytes that mean nothing."""
    names = ("expires-at", "deliver-at", "delay", "priority", "repeat", "ttl", "trace", "dlq-reason", "attempts")
    values = (b"9" * 5_000, b"-" * 100, b"\xff\x00", b"", b"1e999", "٣".encode())
    records = [
        NewRecord(None, b"x", ((f"goqueue-{name}", value),), 1_700_000_000_000)
        for name in names
        if name not in ("deliver-at", "delay", "repeat")  # these are refused when they are sent
        for value in values
    ]
    return build(records)


def schema_bomb(levels: int) -> str:
    """Each level is tried twice by the one above."""
    twice: list[object] = [[{"$ref": f"#/$defs/d{n + 1}"}] * 2 for n in range(levels)]
    defs: dict[str, object] = {f"d{n}": {"anyOf": tried} for n, tried in enumerate(twice)}
    defs[f"d{levels}"] = {"type": "string"}
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/d0", "$defs": defs})
