"""Records: building, decoding, the raw walk, a stock client as oracle, and fuzz."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy, _DefaultRecordBatchPy
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch
from goqueue.format.batch import HEADER_BYTES, assemble, read_header, verified_header, verify
from goqueue.format.records import NewRecord, Record, build, decode, payload, raw_records
from tests.format import by_hand

maybe_bytes = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
new_records = st.builds(NewRecord, maybe_bytes, maybe_bytes, header_lists, st.integers(0, 2**45))
record_lists = st.lists(new_records, min_size=1, max_size=6)
every_codec = pytest.mark.parametrize("codec", range(5))


def expected(records: list[NewRecord], base: int = 0) -> list[Record]:
    return [
        Record(base + at, record.timestamp_ms, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]


@every_codec
@settings(deadline=None, max_examples=40)
@given(records=record_lists)
def test_what_is_built_is_decoded(codec: int, records: list[NewRecord]) -> None:
    batch = build(records, codec)
    header = verified_header(batch)
    assert decode(batch) == expected(records)
    assert header.record_count == len(records)
    assert header.base_timestamp == records[0].timestamp_ms
    assert header.max_timestamp == max(record.timestamp_ms for record in records)


@every_codec
@settings(deadline=None, max_examples=40)
@given(records=record_lists)
def test_a_stock_reader_reads_what_was_built(codec: int, records: list[NewRecord]) -> None:
    reader = _DefaultRecordBatchPy(build(records, codec))
    assert reader.validate_crc()
    found = [Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in reader]
    assert found == expected(records)


@settings(deadline=None, max_examples=100)
@given(record_lists, st.integers(0, 4))
def test_what_a_stock_writer_wrote_is_decoded(records: list[NewRecord], codec: int) -> None:
    writer = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 1 << 20)
    for at, record in enumerate(records):
        writer.append(at, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(writer.build())
    verified_header(batch)
    assert decode(batch) == expected(records)


@settings(deadline=None, max_examples=100)
@given(record_lists)
def test_a_built_batch_is_to_the_byte_what_the_specification_says(records: list[NewRecord]) -> None:
    first = records[0].timestamp_ms
    body = b"".join(
        by_hand.record(record.timestamp_ms - first, at, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    )
    newest = max(record.timestamp_ms for record in records)
    assert build(records) == by_hand.batch(body, len(records), base_time=first, max_time=newest)


@every_codec
@settings(deadline=None, max_examples=40)
@given(records=record_lists)
def test_the_raw_walk_agrees_with_decoding(codec: int, records: list[NewRecord]) -> None:
    batch = build(records, codec)
    data = payload(batch, read_header(batch))
    walked = list(raw_records(data))
    assert [(one.offset_delta, one.key, one.is_tombstone) for one in walked] == [
        (record.offset, record.key, record.value is None) for record in decode(batch)
    ]
    assert b"".join(bytes(data[one.start : one.end]) for one in walked) == bytes(data)


@settings(deadline=None, max_examples=60)
@given(new_records)
def test_the_size_bound_of_a_record_holds(record: NewRecord) -> None:
    assert len(build([record])) - HEADER_BYTES <= record.size_max


@pytest.mark.parametrize("codec", range(1, 5))
def test_compression_is_used_where_it_helps_and_only_there(codec: int) -> None:
    helped = build([NewRecord(None, b"x" * 5_000, (), 1)], codec)
    assert read_header(helped).codec == codec and len(helped) < 1_000
    hopeless = build([NewRecord(None, b"x", (), 1)], codec)
    assert read_header(hopeless).codec == 0
    assert decode(helped)[0].value == b"x" * 5_000 and decode(hopeless)[0].value == b"x"


def test_times_may_go_back_within_a_batch() -> None:
    records = [NewRecord(None, b"a", (), 5_000), NewRecord(None, b"b", (), 1_000), NewRecord(None, b"c", (), 3_000)]
    assert [record.timestamp_ms for record in decode(build(records))] == [5_000, 1_000, 3_000]


def test_a_batch_with_holes_is_decoded_at_its_offsets() -> None:
    body = by_hand.record(0, 1, b"a", b"1") + by_hand.record(0, 4, b"b", b"2")
    batch = by_hand.batch(body, 2, base_offset=10, last_offset_delta=7)
    assert [record.offset for record in decode(batch)] == [11, 14]
    assert [record.offset_delta for record in raw_records(body)] == [1, 4]


# --- lies and damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 1_000, 2**31 - 1])
def test_a_lie_about_the_record_count_is_refused(count: int) -> None:
    body = by_hand.record(0, 0, b"k", b"v") + by_hand.record(0, 1, b"k", b"w")
    with pytest.raises(CorruptBatch):
        decode(by_hand.batch(body, count))


def test_trailing_junk_in_the_payload_is_refused() -> None:
    body = by_hand.record(0, 0, b"k", b"v")
    with pytest.raises(CorruptBatch):
        decode(by_hand.batch(body + b"\x00\x01\x02", 1))
    with pytest.raises(CorruptBatch):
        list(raw_records(body + b"\x00\x01\x02"))


def spoiled(key_size: int = 1, value_size: int = 1, header_count: int = 0, length: int | None = None) -> bytes:
    inside = b"\x00" + by_hand.varint(0) + by_hand.varint(0)
    inside += by_hand.varint(key_size) + b"k" + by_hand.varint(value_size) + b"v" + by_hand.varint(header_count)
    return by_hand.varint(len(inside) if length is None else length) + inside


@pytest.mark.parametrize(
    "body",
    [
        spoiled(length=-1),
        spoiled(length=0),
        spoiled(length=-(2**31)),
        spoiled(length=2**31 - 1),
        spoiled(length=2**62),
        spoiled(key_size=2**31 - 1),
        spoiled(key_size=2**62),
        spoiled(value_size=2**31 - 1),
        spoiled(value_size=-(2**62)),
        spoiled(header_count=-1),
        spoiled(header_count=2**31 - 1),
        spoiled(header_count=2**62),
        b"\xff" * 30,
        b"\x80" * 9,
    ],
    ids=lambda body: body[:12].hex(),
)
def test_impossible_sizes_in_a_record_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode(by_hand.batch(body, 1))


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, 2**62])
def test_the_raw_walk_refuses_impossible_lengths(size: int) -> None:
    with pytest.raises(CorruptBatch):
        list(raw_records(spoiled(length=size)))


def test_the_raw_walk_refuses_a_key_that_runs_past_its_record() -> None:
    body = spoiled(key_size=20) + by_hand.record(0, 1, b"other", b"w" * 40)
    with pytest.raises(CorruptBatch):
        decode(by_hand.batch(body, 2))
    with pytest.raises(CorruptBatch):
        list(raw_records(body))


def test_a_header_name_that_is_no_text_is_refused() -> None:
    inside = b"\x00" + by_hand.varint(0) * 2 + by_hand.field(b"k") + by_hand.field(b"v") + by_hand.varint(1)
    inside += by_hand.field(b"\xff\xfe") + by_hand.field(b"x")
    with pytest.raises(CorruptBatch):
        decode(by_hand.batch(by_hand.varint(len(inside)) + inside, 1))


def parse_everything(data: bytes) -> None:
    """Every reader of untrusted batches, each of which may only say `CorruptBatch`."""
    try:
        header = read_header(data)
        verify(data, header)
    except CorruptBatch:
        pass
    try:
        header = read_header(data)
        list(raw_records(payload(data, header)))
    except CorruptBatch:
        pass
    with contextlib.suppress(CorruptBatch):
        decode(data)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_nothing_worse(data: bytes) -> None:
    parse_everything(data)
    with contextlib.suppress(CorruptBatch):
        list(raw_records(data))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=120), st.integers(0, 2**31 - 1), st.integers(0, 255), st.integers(0, 2**31 - 1))
def test_random_payloads_under_a_sound_header_are_refused_and_nothing_worse(
    body: bytes, count: int, attributes: int, delta: int
) -> None:
    header = read_header(by_hand.batch(b"", 1))
    lies = msgspec.structs.replace(header, record_count=count, attributes=attributes, last_offset_delta=delta)
    parse_everything(assemble(lies, body))


@settings(deadline=None, max_examples=300)
@given(
    record_lists,
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 255)), min_size=1, max_size=4),
    st.integers(0, 20),
    st.binary(max_size=10),
)
def test_mutated_batches_are_refused_and_nothing_worse(
    records: list[NewRecord], codec: int, flips: list[tuple[int, int]], cut: int, junk: bytes
) -> None:
    data = bytearray(build(records * 4, codec))
    for position, mask in flips:
        data[position % len(data)] ^= mask
    parse_everything(bytes(data[: len(data) - cut]) + junk)


def test_every_flip_in_the_records_of_a_small_batch_is_refused_or_decoded() -> None:
    whole = build([NewRecord(b"key", b"value", (("h", b"x"),), 1_000), NewRecord(None, None, (), 1_001)])
    for position in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            parse_everything(bytes(data))
