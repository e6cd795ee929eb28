"""Batches that no well-meaning producer sends, with right CRCs."""

from __future__ import annotations

from collections.abc import Iterator

from goqueue.format.batch import BatchHeader, assemble
from goqueue.format.compression import CODECS, compress
from goqueue.format.records import NewRecord, build
from tests.format.by_hand import record, varint

ZSTD = CODECS["zstd"]
EMPTY = b"\x0c\x00\x00\x00\x01\x01\x00"  # a record of seven bytes, all with offset 0


def sealed(body: bytes, count: int, codec: int = 0, last_offset_delta: int | None = None) -> bytes:
    """A batch around any bytes."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    header = BatchHeader(0, 0, -1, 2, 0, codec, delta, 1_000, 1_000, -1, -1, -1, count)
    return assemble(header, compress(codec, body) if codec else body)


def bomb(count: int, codec: int = ZSTD) -> bytes:
    """So many empty records, in a few kilobytes."""
    return sealed(EMPTY * count, count, codec)


def tiny(count: int, codec: int = 0, key: bytes | None = None, value: bytes = b"") -> bytes:
    """What a fast producer of tiny records sends: sound, however many there are."""
    return build([NewRecord(key, value, (), 1_000)] * count, codec)


def header_bomb(count: int, codec: int = ZSTD) -> bytes:
    """One record with so many headers without name and value."""
    inner = b"\x00\x00\x00\x01\x01" + varint(count) + b"\x00\x01" * count
    return sealed(varint(len(inner)) + inner, 1, codec)


def malformed() -> Iterator[tuple[str, bytes]]:
    """A name and a batch that the produce path takes, as its header is right, and that no reader can read."""
    good = b"".join(record(0, at, b"k", b"v%d" % at) for at in range(3))
    yield "junk", sealed(b"\xff" * 60, 3)
    yield "zeros", sealed(bytes(60), 3)
    yield "a record is cut off", sealed(good[:-1], 3)
    yield "junk behind the records", sealed(good + b"junk", 3)
    yield "more records than counted", sealed(good, 2)
    yield "fewer records than counted", sealed(good + bytes(30), 4)
    yield "a length below nothing", sealed(b"\x01" * 40, 3)
    yield "a key past its record", sealed(b"\x14\x00\x00\x00\x7e\x01\x00" + bytes(20), 1)
    yield "a value past its record", sealed(b"\x14\x00\x00\x00\x01\x7e\x00" + bytes(20), 1)
    yield "headers past the record", sealed(b"\x0c\x00\x00\x00\x01\x01\xfe\x01\x01", 1)
    yield "headers below nothing", sealed(b"\x0c\x00\x00\x00\x01\x01\x01", 1)
    yield "a header's name that is no text", sealed(b"\x14\x00\x00\x00\x01\x01\x02\x04\xff\xfe\x00", 1)
    yield "a header without a name", sealed(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1)
    yield "offsets that stand still", sealed(EMPTY * 3, 3)
    yield "offsets that go down", sealed(b"".join(record(0, at, None, b"v") for at in (2, 1, 0)), 3)
    yield "offsets beyond the batch", sealed(b"".join(record(0, at, None, b"v") for at in (0, 1, 9)), 3)
    yield "offsets below the batch", sealed(b"".join(record(0, at, None, b"v") for at in (-5, 1, 2)), 3)
    yield "a number without end", sealed(b"\xff" * 10 + b"\x01" * 30, 2)
    for name, codec in CODECS.items():
        yield f"{name} that is none", _coded(good, codec)
        yield f"{name} of junk", sealed(b"\xff" * 60, 3, codec)
        yield f"{name} that is cut off", _coded(compress(codec, good * 50)[:-9], codec)
    yield "a bomb", bomb(1_000_000)
    yield "a bomb of bytes", sealed(bytes(300 << 20), 1, ZSTD)
    yield "a bomb of headers", header_bomb(5_000_000)


def _coded(body: bytes, codec: int) -> bytes:
    """Bytes that are said to be compressed."""
    header = BatchHeader(0, 0, -1, 2, 0, codec, 2, 1_000, 1_000, -1, -1, -1, 3)
    return assemble(header, body)
