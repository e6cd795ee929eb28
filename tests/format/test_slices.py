"""Batches in slices: sound ones come back whole, however they are cut; anything else is told, and costs little."""

from __future__ import annotations

import time
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch, InvalidBatch
from goqueue.base.limits import (
    DECODE_SLICE_RECORDS,
    DECOMPRESSED_SMALL_BYTES_MAX,
    HEADERS_PER_RECORD_MAX,
    MIB,
    RECORDS_PER_BATCH_MAX,
)
from goqueue.format.batch import HEADER_BYTES, assemble, read_header, verified_header
from goqueue.format.compression import CODECS
from goqueue.format.records import NewRecord, Record, build, decode
from goqueue.format.slices import read, slices
from tests.format.bombs import bomb, header_bomb, malformed, sealed, tiny
from tests.format.by_hand import record

ALL = [0, *CODECS.values()]


def readable(batch: bytes, begin: int = 0) -> tuple[list[Record], list[str]]:
    """The records and the problems; slices have to tile the batch from the one that holds `begin` on."""
    header = read_header(batch)
    records: list[Record] = []
    problems: list[str] = []
    at: int | None = None
    for one in slices(batch, header, begin):
        assert one.first == at if at is not None else one.first <= max(begin, header.base_offset)
        assert one.first <= one.last
        at = one.last + 1
        try:
            found = read(one)
            assert all(one.first <= record.offset <= one.last for record in found)
            records += found
        except CorruptBatch as why:
            problems.append(why.message)
    assert at == header.last_offset + 1
    return records, problems


def unknown_codec() -> bytes:
    header = msgspec.structs.replace(read_header(tiny(3)), attributes=5)
    return assemble(header, tiny(3)[HEADER_BYTES:])


new_records = st.builds(
    NewRecord,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20) | st.integers(0, 90_000).map(bytes),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
    st.integers(0, 10**13),
)


@pytest.mark.parametrize("codec", ALL)
@settings(deadline=None, max_examples=30)
@given(st.lists(new_records, min_size=1, max_size=8), st.sampled_from([1, 1, 300]))
def test_records_are_the_same_in_slices_and_at_once(codec: int, given_: list[NewRecord], times: int) -> None:
    batch = build(given_ * times, codec)
    assert readable(batch) == (decode(batch), [])


@pytest.mark.parametrize("codec", ALL)
def test_reading_from_the_middle_begins_with_the_slice_that_holds_it(codec: int) -> None:
    batch = tiny(10_000, codec, value=b"v")
    for begin in (0, 1, 999, 1_000, 1_001, 7_777, 9_999):
        records, problems = readable(batch, begin)
        assert not problems
        assert begin - DECODE_SLICE_RECORDS < records[0].offset <= begin
        assert [one.offset for one in records] == list(range(records[0].offset, 10_000))


def test_gaps_belong_to_the_slice_before_them() -> None:
    offsets = [at * 7 for at in range(3_000)]
    batch = sealed(b"".join(record(0, at, None, b"v") for at in offsets), 3_000, 4, last_offset_delta=30_000)
    records, problems = readable(batch)
    assert ([one.offset for one in records], problems) == (offsets, [])


def test_a_flaw_in_the_middle_costs_its_slice_or_what_is_behind() -> None:
    parts = [record(0, at, None, b"v") for at in range(5_000)]
    spoiled = [*parts[:2_500], b"\x0c\x00\x00\xc8\x01\x7e\x01", *parts[2_501:]]
    records, problems = readable(sealed(b"".join(spoiled), 5_000))
    assert len(problems) == 1
    assert {one.offset for one in records} >= set(range(2_000)) | set(range(3_000, 5_000))
    spoiled = [*parts[:2_500], b"\x00", *parts[2_500:]]
    records, problems = readable(sealed(b"".join(spoiled), 5_000))
    assert len(problems) == 1
    assert [one.offset for one in records] == list(range(2_000))


@pytest.mark.parametrize(("name", "batch"), [pytest.param(*one, id=one[0]) for one in malformed()])
def test_what_is_malformed_is_told_and_costs_little(name: str, batch: bytes) -> None:
    verified_header(batch)  # the produce path takes it
    began = time.process_time()
    records, problems = readable(batch)
    assert (len(records), len(problems)) == (0, 1)
    assert time.process_time() - began < 20


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 40), st.sampled_from(ALL), st.integers(0, 60))
def test_any_bytes_under_a_right_crc_are_records_or_told(body: bytes, count: int, codec: int, delta: int) -> None:
    records, problems = readable(sealed(body, count, codec, last_offset_delta=delta))
    assert problems or len(records) <= count


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from(ALL))
def test_a_changed_byte_never_does_harm(data: st.DataObject, codec: int) -> None:
    body = bytearray(b"".join(record(0, at, b"key", b"value", [("name", b"x")]) for at in range(1_100)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    records, _ = readable(sealed(bytes(body), 1_100, codec))
    assert [one.offset for one in records] == sorted({one.offset for one in records})


def test_a_header_that_claims_too_much_is_refused() -> None:
    for batch in (
        bomb(38_000_000),
        bomb(RECORDS_PER_BATCH_MAX + 1),
        sealed(b"\x0c\x00\x00\x00\x01\x01\x00" * 10, 11),
        unknown_codec(),
    ):
        with pytest.raises(InvalidBatch):
            verified_header(batch)


def test_the_tiny_records_of_a_fast_producer_are_taken() -> None:
    for codec in ALL:
        batch = tiny(100_000, codec)
        verified_header(batch)
        records, problems = readable(batch)
        assert ([one.offset for one in records], problems) == (list(range(100_000)), [])
    verified_header(tiny(RECORDS_PER_BATCH_MAX // 10, 4, b"k"))


def test_the_first_slice_of_a_bomb_takes_little_memory() -> None:
    batch = tiny(200_000, 4)
    tracemalloc.start()
    try:
        first = next(slices(batch, read_header(batch)))
        assert len(read(first)) == DECODE_SLICE_RECORDS
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB  # the unfolded bytes are mapped, and not counted
    finally:
        tracemalloc.stop()


def test_bytes_and_headers_have_limits() -> None:
    large = sealed(record(0, 0, None, bytes(DECOMPRESSED_SMALL_BYTES_MAX - 100)), 1, 4)
    assert len(readable(large)[0]) == 1
    assert readable(sealed(record(0, 0, None, bytes(DECOMPRESSED_SMALL_BYTES_MAX)), 1, 4))[1]
    for count, is_read in ((HEADERS_PER_RECORD_MAX, True), (100_000, False)):
        records, problems = readable(header_bomb(count))
        assert (len(records) == 1, not problems) == (is_read, is_read)
