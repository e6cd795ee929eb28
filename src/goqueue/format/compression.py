"""The four codecs of record batches, with the unfolded size bounded before memory is taken."""

from __future__ import annotations

import mmap
import struct
from typing import Any, Final

import cramjam

from goqueue.base.errors import CorruptBatch
from goqueue.base.limits import (
    DECOMPRESSED_BYTES_MAX,
    DECOMPRESSED_SMALL_BYTES_MAX,
    DECOMPRESSED_TIMES_MAX,
    KIB,
    MIB,
)
from goqueue.format.batch import Buffer

CODECS: Final = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_NAMES: Final = {number: name for name, number in CODECS.items()}

# Snappy travels in blocks behind this header (Xerial's framing): magic, version, least compatible version.
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * KIB
_XERIAL_BLOCKS_MAX: Final = 16 * KIB  # each costs, however little is in it
_MAPPED_BYTES: Final = 1 * MIB  # memory of this size and more is taken page by page, as it is filled


def compress(codec: int, data: Buffer) -> bytes:
    """Encodes as Kafka's own clients expect it."""
    name = _codec_name(codec)
    if name == "snappy":
        return _xerial_compress(data)
    if name == "lz4":
        # Java's reader refuses linked blocks.
        lz4: Any = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
        lz4.compress(bytes(data))
        return bytes(lz4.finish())
    return bytes(getattr(cramjam, name).compress(data))


def unfolded_max(size: int) -> int:
    """What so many compressed bytes may unfold to."""
    return min(DECOMPRESSED_BYTES_MAX, max(DECOMPRESSED_SMALL_BYTES_MAX, DECOMPRESSED_TIMES_MAX * size))


def decompress(codec: int, data: Buffer, limit: int | None = None) -> Buffer:
    """Decodes; `CorruptBatch` if the bytes are bad or unfold to more than `limit`."""
    limit = unfolded_max(len(data)) if limit is None else limit
    found = decompress_within(codec, data, limit)
    if found is None:
        raise CorruptBatch(f"The record batch unfolds to more than {limit} bytes; send smaller batches.")
    return found


def decompress_within(codec: int, data: Buffer, limit: int) -> Buffer | None:
    """The same, with None if it is more than `limit`."""
    name = _codec_name(codec)
    if name == "snappy":
        return _snappy_decompress(data, limit)
    size = min(limit, max(64 * KIB, 8 * len(data)))
    while True:
        into: bytearray | mmap.mmap = bytearray(size) if size < _MAPPED_BYTES else mmap.mmap(-1, size)
        try:
            return memoryview(into)[: getattr(cramjam, name).decompress_into(data, into)]
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise CorruptBatch(f"The record batch's {name} data cannot be read: {error}.") from None
            if size >= limit:
                return None
            size = min(limit, size * 4)


def _codec_name(codec: int) -> str:
    if codec not in _NAMES:
        raise CorruptBatch(f"Compression codec {codec} is unknown; use gzip, snappy, lz4 or zstd.")
    return _NAMES[codec]


def _xerial_compress(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _snappy_decompress(data: Buffer, limit: int) -> bytes | None:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(view, limit)
    parts: list[bytes] = []
    at, room = len(_XERIAL_HEADER), limit
    while at + 4 <= len(view):
        size = int.from_bytes(view[at : at + 4], "big")
        block = _snappy_block(view[at + 4 : at + 4 + size], room)
        if block is None:
            return None
        parts.append(block)
        if len(parts) > _XERIAL_BLOCKS_MAX:
            raise CorruptBatch("The record batch's snappy data is in too many blocks.")
        room -= len(block)
        at += 4 + size
    return b"".join(parts)


def _snappy_block(block: memoryview, limit: int) -> bytes | None:
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit:
            return None
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"The record batch's snappy data cannot be read: {error}.") from None
