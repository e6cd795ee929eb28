"""The batch header: golden bytes in both directions, stamping, walking, and refusals."""

from __future__ import annotations

import msgspec
import pytest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch, InvalidBatch
from goqueue.base.limits import BATCH_BYTES_MAX
from goqueue.format.batch import (
    HEADER_BYTES,
    BatchHeader,
    assemble,
    pack_header,
    read_header,
    split,
    stamp,
    stamp_with_time,
    strides,
    verified_header,
    verify,
)
from goqueue.format.records import NewRecord, Record, build, decode
from tests.format import by_hand

# Written out by hand from the specification.
GOLDEN = bytes.fromhex(
    "0000000000000000"  # base offset
    "00000046"  # length of what follows
    "ffffffff"  # leader epoch
    "02"  # magic
    "9aaffd91"  # CRC-32C of what follows
    "0000"  # attributes
    "00000001"  # last offset delta
    "00000000000003e8"  # base timestamp, 1000
    "00000000000003ea"  # max timestamp, 1002
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000002"  # records
    "10 00 00 00 02 6b 02 76 00"  # 8 bytes: attributes, time +0, offset +0, key "k", value "v", no headers
    "16 00 04 02 01 02 77 02 02 68 02 31"  # 11 bytes: time +2, offset +1, no key, value "w", header h=1
)
GOLDEN_RECORDS = [NewRecord(b"k", b"v", (), 1_000), NewRecord(None, b"w", (("h", b"1"),), 1_002)]
GOLDEN_HEADER = BatchHeader(0, 0x46, -1, 2, 0x9AAFFD91, 0, 1, 1_000, 1_002, -1, -1, -1, 2)


def sealed(parts: list[bytes | bytearray | memoryview]) -> bytes:
    return b"".join(parts)


def test_a_batch_is_built_to_the_golden_bytes() -> None:
    assert build(GOLDEN_RECORDS) == GOLDEN


def test_the_golden_bytes_are_read_back() -> None:
    assert read_header(GOLDEN) == GOLDEN_HEADER
    assert decode(GOLDEN) == [
        Record(0, 1_000, b"k", b"v", ()),
        Record(1, 1_002, None, b"w", (("h", b"1"),)),
    ]


def test_a_header_packs_to_the_golden_bytes() -> None:
    assert pack_header(GOLDEN_HEADER) == GOLDEN[:HEADER_BYTES]


def test_the_hand_made_encoder_agrees_with_the_golden_bytes() -> None:
    body = by_hand.record(0, 0, b"k", b"v") + by_hand.record(2, 1, None, b"w", [("h", b"1")])
    assert by_hand.batch(body, 2, max_time=1_002) == GOLDEN


def test_every_header_field_is_read_from_its_place() -> None:
    data = by_hand.batch(
        by_hand.record(0, 0, None, b"v"),
        1,
        base_offset=2**40,
        epoch=7,
        attributes=0x38,
        last_offset_delta=3,
        base_time=5,
        max_time=9,
        producer=(2**41, 12, 2**30),
    )
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch, header.last_offset, header.next_offset) == (
        2**40,
        7,
        2**40 + 3,
        2**40 + 4,
    )
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**41, 12, 2**30)
    assert header.uses_append_time and header.is_transactional and header.is_control
    assert header.codec == 0 and header.size == len(data) and header.record_count == 1


@pytest.mark.parametrize(
    ("attributes", "flag"), [(0x08, "uses_append_time"), (0x10, "is_transactional"), (0x20, "is_control")]
)
def test_each_attribute_bit_means_one_thing(attributes: int, flag: str) -> None:
    header = read_header(by_hand.batch(by_hand.record(0, 0, None, b"v"), 1, attributes=attributes))
    flags = {name: getattr(header, name) for name in ("uses_append_time", "is_transactional", "is_control")}
    assert flags == {name: name == flag for name in flags}


@pytest.mark.parametrize("codec", range(8))
def test_the_codec_is_the_low_three_bits(codec: int) -> None:
    assert read_header(by_hand.batch(b"", 0, attributes=0x38 | codec, last_offset_delta=0)).codec == codec


def test_a_header_is_read_at_any_position() -> None:
    assert read_header(b"junk" + GOLDEN, 4) == GOLDEN_HEADER
    verify(b"junk" + GOLDEN + b"more", GOLDEN_HEADER, 4)


def test_a_stamp_sets_offset_and_epoch_and_leaves_the_crc_valid() -> None:
    stamped = sealed(stamp(GOLDEN, 123_456_789_012, 42))
    header = verified_header(stamped)
    assert header == msgspec.structs.replace(GOLDEN_HEADER, base_offset=123_456_789_012, leader_epoch=42)
    assert stamped[HEADER_BYTES:] == GOLDEN[HEADER_BYTES:]
    assert [record.offset for record in decode(stamped)] == [123_456_789_012, 123_456_789_013]


def test_a_stamp_does_not_copy_the_records() -> None:
    batch = bytearray(GOLDEN)
    parts = stamp(batch, 1, 1)
    assert isinstance(parts[1], memoryview) and parts[1].obj is batch


def test_a_stamp_with_time_gives_all_records_the_brokers_time_under_a_new_crc() -> None:
    parts, header = stamp_with_time(GOLDEN, GOLDEN_HEADER, 10, 3, 99_000)
    stamped = sealed(parts)
    assert verified_header(stamped) == header
    assert header.crc != GOLDEN_HEADER.crc and header.uses_append_time and header.max_timestamp == 99_000
    assert [(record.offset, record.timestamp_ms) for record in decode(stamped)] == [(10, 99_000), (11, 99_000)]
    assert stamped[HEADER_BYTES:] == GOLDEN[HEADER_BYTES:]


def test_a_stock_client_reads_what_was_stamped() -> None:
    parts, _ = stamp_with_time(GOLDEN, GOLDEN_HEADER, 10, 3, 99_000)
    reader = _DefaultRecordBatchPy(sealed(parts))
    assert reader.validate_crc() and reader.base_offset == 10 and reader.timestamp_type == 1
    assert [(record.offset, record.value) for record in reader] == [(10, b"v"), (11, b"w")]


def test_an_assembled_batch_has_its_own_length_and_crc() -> None:
    wrong = msgspec.structs.replace(GOLDEN_HEADER, length=0, crc=0)
    assert assemble(wrong, GOLDEN[HEADER_BYTES:]) == GOLDEN


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_cut_header_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(GOLDEN[:size])


def test_a_batch_cut_anywhere_is_refused() -> None:
    for size in range(1, len(GOLDEN)):
        with pytest.raises(CorruptBatch):
            verified_header(GOLDEN[:size])
    with pytest.raises(InvalidBatch):
        verified_header(b"")


def test_trailing_junk_is_refused() -> None:
    with pytest.raises(InvalidBatch):
        verified_header(GOLDEN + b"\x00")
    with pytest.raises(InvalidBatch):
        verified_header(GOLDEN + GOLDEN)


@pytest.mark.parametrize("magic", [-1, 0, 1, 3, 127])
def test_another_magic_is_refused(magic: int) -> None:
    with pytest.raises(CorruptBatch, match="magic"):
        read_header(by_hand.batch(b"", 1, magic=magic))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEADER_BYTES - 13, BATCH_BYTES_MAX + 1, 2**31 - 1])
def test_an_impossible_length_is_refused(length: int) -> None:
    data = bytearray(GOLDEN)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        read_header(data)


@pytest.mark.parametrize(("count", "delta"), [(-1, 0), (1, -1), (-(2**31), -(2**31))])
def test_negative_counts_are_refused(count: int, delta: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(by_hand.batch(b"", count, last_offset_delta=delta))


@pytest.mark.parametrize(("count", "delta"), [(0, 0), (1, 1), (3, 1), (2**31 - 1, 1)])
def test_a_count_that_disagrees_with_the_offsets_is_not_producible(count: int, delta: int) -> None:
    with pytest.raises(InvalidBatch):
        verified_header(by_hand.batch(GOLDEN[HEADER_BYTES:], count, last_offset_delta=delta))


def test_a_flip_of_any_covered_bit_is_noticed() -> None:
    for position in range(16, len(GOLDEN)):
        for bit in range(8):
            data = bytearray(GOLDEN)
            data[position] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                verified_header(data)


# --- walking --------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 60), st.integers(0, 100))
def test_a_fetch_is_split_into_its_whole_batches(sizes: list[int], cut: int, start: int) -> None:
    batches, offset = [], start
    for size in sizes:
        batches.append(sealed(stamp(by_hand.plain(b"x" * size, b"y"), offset, 0)))
        offset += 2
    data = b"".join(batches) + GOLDEN[:cut]
    assert [bytes(part) for part in split(data)] == batches
    assert [(base, last) for _, _, base, last in strides(data)] == [
        (start + 2 * at, start + 2 * at + 1) for at in range(len(batches))
    ]


def test_a_walk_stops_at_a_length_that_leads_backwards() -> None:
    bad = bytearray(GOLDEN)
    bad[8:12] = (-50).to_bytes(4, "big", signed=True)
    assert len(list(split(GOLDEN + bytes(bad) + GOLDEN))) == 1
