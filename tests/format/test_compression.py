"""The four codecs: round trips, foreign encoders, bad bytes, and bombs."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as stock
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch
from goqueue.format.compression import CODECS, compress, decompress

ALL = sorted(CODECS.values())
MIB = 1 << 20
SAMPLES = [b"", b"a", b"hello " * 10_000, bytes(range(256)) * 300, b"\x00" * (32 * 1024), b"\x00" * (32 * 1024 + 1)]


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_what_is_compressed_comes_back(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data
    assert bytes(decompress(codec, memoryview(compress(codec, data)))) == data


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_every_kind_of_buffer_is_compressed(codec: int, kind: type) -> None:
    assert bytes(decompress(codec, compress(codec, kind(b"some text " * 9)))) == b"some text " * 9


@pytest.mark.parametrize("codec", ALL)
@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=3_000), st.integers(1, 60))
def test_any_bytes_come_back(codec: int, data: bytes, times: int) -> None:
    assert bytes(decompress(codec, compress(codec, data * times))) == data * times


@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
def test_stock_encoders_are_understood(data: bytes) -> None:
    assert bytes(decompress(1, gzip.compress(data))) == data
    assert bytes(decompress(1, stock.gzip_encode(data))) == data
    assert bytes(decompress(2, stock.snappy_encode(data))) == data
    assert bytes(decompress(3, stock.lz4_encode(data))) == data
    assert bytes(decompress(4, stock.zstd_encode(data))) == data


@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
def test_stock_decoders_understand_ours(data: bytes) -> None:
    assert gzip.decompress(compress(1, data)) == data
    assert stock.snappy_decode(compress(2, data)) == data
    assert stock.lz4_decode(compress(3, data)) == data
    assert stock.zstd_decode(compress(4, data)) == data


def test_snappy_is_read_raw_and_in_xerial_blocks() -> None:
    data = b"raw or framed " * 9_000
    raw = bytes(cramjam.snappy.compress_raw(data))
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (data[:50_000], data[50_000:])]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert bytes(decompress(2, raw)) == data
    assert bytes(decompress(2, framed)) == data


def test_snappy_is_written_in_xerial_blocks() -> None:
    assert compress(2, b"x" * 100).startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))


@pytest.mark.parametrize("codec", [0, 5, 6, 7, 8, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        compress(codec, b"x")
    with pytest.raises(CorruptBatch):
        decompress(codec, b"x")


@pytest.mark.parametrize("codec", ALL)
@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused_and_nothing_worse(codec: int, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        decompress(codec, data, limit=MIB)


@pytest.mark.parametrize("codec", ALL)
@settings(deadline=None, max_examples=150)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.integers(0, 30))
def test_damaged_frames_are_refused_and_nothing_worse(codec: int, position: int, bit: int, cut: int) -> None:
    data = bytearray(compress(codec, b"some text, some more text, and then the same text again " * 20))
    data[position % len(data)] ^= 1 << bit
    with contextlib.suppress(CorruptBatch):
        decompress(codec, bytes(data[: len(data) - cut]), limit=MIB)


@pytest.mark.parametrize("codec", ALL)
def test_every_cut_of_a_frame_is_refused_or_short(codec: int) -> None:
    text = b"some text, some more text, and then the same text again " * 3
    whole = compress(codec, text)
    for size in range(len(whole)):
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, whole[:size])) <= len(text)


@pytest.mark.parametrize("codec", ALL)
def test_the_limit_is_exact(codec: int) -> None:
    data = compress(codec, b"\x00" * 300_000)
    assert len(decompress(codec, data, limit=300_000)) == 300_000
    with pytest.raises(CorruptBatch, match="unfolds"):
        decompress(codec, data, limit=299_999)


@pytest.mark.parametrize("codec", ALL)
def test_a_bomb_is_refused_without_taking_its_memory(codec: int) -> None:
    bomb = compress(codec, b"\x00" * (64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="unfolds"):
            decompress(codec, bomb, limit=2 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_claims_gigabytes_is_refused_by_its_claim() -> None:
    with pytest.raises(CorruptBatch, match="unfolds"):
        decompress(2, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20, limit=MIB)


def test_snappy_blocks_share_one_limit() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"\x00" * 60_000))
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 20
    assert len(decompress(2, framed, limit=1_200_000)) == 1_200_000
    with pytest.raises(CorruptBatch, match="unfolds"):
        decompress(2, framed, limit=1_199_999)


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 5_000])
def test_a_xerial_block_longer_than_the_data_is_refused(size: int) -> None:
    block = bytes(cramjam.snappy.compress_raw(b"abc" * 100))
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + struct.pack(">i", size) + block[:-3]
    with pytest.raises(CorruptBatch):
        decompress(2, framed)
