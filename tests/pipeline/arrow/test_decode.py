"""Decoding to Arrow: what the broker's own codec built comes out, and junk is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch
from goqueue.format.batch import CODEC_MASK, HEADER_BYTES, assemble, read_header, strides
from goqueue.format.records import NewRecord, build
from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA, arrow_schema
from goqueue.pipeline.arrow.decode import decode, decode_all
from goqueue.pipeline.arrow.memory import binaries_of
from goqueue.pipeline.arrow.spots import Spot, unfold
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.place import OffsetRange
from tests.format import by_hand
from tests.pipeline.arrow.slow_reader import Read, Unreadable, read_records
from tests.pipeline.arrow.some_records import EVERYTHING, expected, new_records, record_lists

every_codec = pytest.mark.parametrize("codec", range(5))


def rows(batch: bytes, columns: tuple[str, ...] = EVERYTHING) -> list[dict[str, Any]]:
    found = decode_all(batch, "t", 3, columns)
    found.validate(full=True)
    assert found.schema == arrow_schema(columns)
    return list(found.to_pylist())


@every_codec
@settings(deadline=None, max_examples=60)
@given(records=record_lists)
@example(records=[NewRecord(None, None, (), 0)])
@example(records=[NewRecord(b"", b"", (("", b""), ("", None)), 0)])
@example(records=[NewRecord(b"k", b"x" * size, (), 5) for size in (0, 1, 63, 64, 8191, 8192, 70_000, 1_100_000)])
@example(records=[NewRecord(b"k", b"x" * (at % 7), (), at) for at in range(9_000)])
def test_what_is_built_is_decoded(codec: int, records: list[NewRecord]) -> None:
    assert rows(build(records, codec)) == expected(records)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 1_500), st.integers(0, 70), st.integers(0, 3))
def test_long_runs_of_equal_records_are_found_whole(count: int, size: int, odd: int) -> None:
    """Runs end where the number of the record or its time takes another byte, or a record is larger."""
    records = [NewRecord(None, bytes(size + (odd and at % 500 == 499)), (), 1_000 + at * odd) for at in range(count)]
    found = decode_all(build(records), "t", 0, ("value", "offset", "timestamp"))
    assert found.column("offset").to_pylist() == list(range(count))
    assert found.column("value").to_pylist() == [record.value for record in records]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(record_lists, st.integers(0, 4)), min_size=1, max_size=5), st.data())
def test_many_batches_with_gaps_give_exactly_the_range(parts: list[Any], data: st.DataObject) -> None:
    buffer, base, everything = b"", 5, []
    for records, codec in parts:
        batch = build(records, codec)
        header = read_header(batch)
        buffer += base.to_bytes(8, "big") + batch[8:]
        everything += expected(records, base=base)
        base += header.record_count + 3
    start = data.draw(st.integers(0, base))
    wanted = OffsetRange("t", 3, start, data.draw(st.integers(start, base + 2)))
    spots = [Spot(read_header(buffer, at), at) for at, _, _, _ in strides(buffer)]
    size = data.draw(st.sampled_from([1, 2_000, 1 << 20]))
    found = [row for one in unfold(buffer, spots, size) for row in decode(one, wanted, EVERYTHING).to_pylist()]
    assert found == [row for row in everything if wanted.start <= row["offset"] < wanted.end]


def in_a_row(batches: list[list[NewRecord]], codec: int = 0) -> tuple[bytes, list[Spot]]:
    """Batches one behind the other, as a fetch brings them."""
    buffer, offset = b"", 0
    for records in batches:
        buffer += offset.to_bytes(8, "big") + build(records, codec)[8:]
        offset += len(records)
    return buffer, [Spot(read_header(buffer, at), at) for at, _, _, _ in strides(buffer)]


shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 80)), min_size=35, max_size=70)


@settings(deadline=None, max_examples=40)
@given(shapes, st.data())
def test_many_small_batches_are_read_side_by_side(shape: list[tuple[int, int]], data: st.DataObject) -> None:
    """One may be much longer than the others, and some records larger than most."""
    batches = [[NewRecord(b"k", bytes(size), (), 1_000)] * count for count, size in shape]
    batches[data.draw(st.integers(0, 30))] = [NewRecord(None, b"x" * (at % 70), (), 1_000 + at) for at in range(300)]
    batches[data.draw(st.integers(0, 30))] = [NewRecord(None, bytes(9_000), (("h", b"1"),), 7), *batches[3]]
    buffer, spots = in_a_row(batches, data.draw(st.sampled_from([0, 4])))
    (group,) = unfold(buffer, spots, 1 << 30)
    found = decode(group, OffsetRange("t", 3, 0, 10_000), EVERYTHING).to_pylist()
    assert found == expected([record for records in batches for record in records])


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_damage_in_one_of_many_batches_is_read_or_refused_as_the_specification_says(data: st.DataObject) -> None:
    batches = [[NewRecord(b"k", b"value", (), 1_000)] * 3 for _ in range(50)]
    buffer, spots = in_a_row(batches)
    header, at = spots[data.draw(st.integers(0, 49))]
    spoiled = bytearray(buffer)
    place = data.draw(st.integers(at + HEADER_BYTES, at + header.size - 1))
    spoiled[place] = data.draw(st.integers(0, 255) | st.sampled_from([0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]))
    records = bytes(spoiled[at + HEADER_BYTES : at + header.size])
    try:
        read_records(records, header.record_count, header.last_offset_delta)
    except Unreadable:
        with pytest.raises(CorruptBatch):
            read_all(spoiled, spots)
    else:
        assert read_all(spoiled, spots) == 150


def read_all(buffer: bytearray, spots: list[Spot]) -> int:
    return sum(decode(one, OffsetRange("t", 0, 0, 999), (HEADERS,)).num_rows for one in unfold(buffer, spots, 1 << 30))


def test_groups_are_bounded_by_their_unfolded_size() -> None:
    batch = build([NewRecord(None, bytes(10_000), (), 1)] * 10, 4)
    assert len(batch) < 1_000
    spots = [Spot(read_header(batch), at * len(batch)) for at in range(10)]
    groups = list(unfold(batch * 10, spots, 250_000))
    assert [len(group.batches) for group in groups] == [2, 2, 2, 2, 2]


def test_only_the_columns_asked_for_come_in_their_order() -> None:
    batch = build([NewRecord(b"k", b"v", (("a", b"b"),), 7)])
    found = decode_all(batch, "t", 0, ("offset", "value"))
    assert found.to_pydict() == {"offset": [0], "value": [b"v"]}


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.none() | st.sampled_from([b"", b"a", b"b", b"long key"]), min_size=1), st.sets(st.binary(max_size=1))
)
def test_of_given_keys_only_their_messages_come(found: list[bytes | None], keys: set[bytes]) -> None:
    batch = build([NewRecord(key, b"%d" % at, (), 7) for at, key in enumerate(found)])
    (records,) = unfold(batch, [Spot(read_header(batch), 0)], 1 << 20)
    chosen = decode(records, OffsetRange("t", 0, 0, len(found)), ("value", "offset"), binaries_of(sorted(keys)))
    chosen.validate(full=True)
    assert chosen["offset"].to_pylist() == [at for at, key in enumerate(found) if key in keys]
    assert chosen["value"].to_pylist() == [b"%d" % at for at, key in enumerate(found) if key in keys]


def test_the_schema_is_what_spark_expects() -> None:
    schema = arrow_schema((*BASE, HEADERS, *METADATA))
    assert all(field.nullable for field in schema)
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    with pytest.raises(PipelineError, match="There is no column 'valeu'; there are key, value"):
        arrow_schema(["valeu"])


def test_the_brokers_time_counts_where_it_stamped() -> None:
    body = by_hand.record(0, 0, None, b"a") + by_hand.record(5, 1, None, b"b")
    batch = by_hand.batch(body, 2, attributes=8, base_time=100, max_time=900)
    found = decode_all(batch, "t", 0, ("timestamp", "timestampType")).to_pydict()
    assert [one.timestamp() for one in found["timestamp"]] == [0.9, 0.9] and found["timestampType"] == [1, 1]


@pytest.mark.parametrize("time", [-1, -(2**62), 2**62, 2**63 - 1, -(2**63)])
def test_absurd_times_are_kept_within_what_arrow_can_say(time: int) -> None:
    batch = by_hand.batch(by_hand.record(0, 0, None, b"a"), 1, base_time=time, max_time=time)
    (micros,) = decode_all(batch, "t", 0, ("timestamp",)).column(0).view(pa.int64()).to_pylist()
    assert micros == max(-(2**63 // 1000), min(time, 2**63 // 1000)) * 1000


def test_a_time_far_from_its_batch_is_read_too() -> None:
    body = by_hand.record(0, 0, None, b"a") + by_hand.record(-(2**62), 1, None, b"b")
    batch = by_hand.batch(body, 2, base_time=2**62 + 1234)
    found = decode_all(batch, "t", 0, ("value", "timestamp"))
    assert found.column("timestamp").view(pa.int64()).to_pylist()[1] == 1_234_000
    assert found.column("value").to_pylist() == [b"a", b"b"]


# --- lies and damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 1_000, 2**31 - 1])
def test_a_lie_about_the_record_count_is_refused(count: int) -> None:
    body = by_hand.record(0, 0, b"k", b"v") + by_hand.record(0, 1, b"k", b"w")
    with pytest.raises(CorruptBatch):
        rows(by_hand.batch(body, count, last_offset_delta=1))


def test_a_batch_that_compaction_emptied_is_nothing() -> None:
    assert rows(by_hand.batch(b"", 0, last_offset_delta=7)) == []


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
        spoiled(key_size=-2),
        spoiled(value_size=2**31 - 1),
        spoiled(value_size=-(2**62)),
        spoiled(header_count=-1),
        spoiled(header_count=2**31 - 1),
        spoiled(header_count=2**62),
        b"\xff" * 30,
        b"\x80" * 9,
        b"",
    ],
    ids=lambda body: body[:12].hex(),
)
def test_impossible_sizes_in_a_record_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        rows(by_hand.batch(body, 1))
    with pytest.raises(CorruptBatch):
        rows(by_hand.batch(body * 300, 300))


def test_a_key_that_runs_into_the_next_record_is_refused() -> None:
    body = spoiled(key_size=20) + by_hand.record(0, 1, b"other", b"w" * 40)
    with pytest.raises(CorruptBatch, match="past its record"):
        rows(by_hand.batch(body, 2))


def test_a_header_name_that_is_no_text_is_refused() -> None:
    inside = b"\x00" + by_hand.varint(0) * 2 + by_hand.field(b"k") + by_hand.field(b"v") + by_hand.varint(1)
    inside += by_hand.field(b"\xff\xfe") + by_hand.field(b"x")
    with pytest.raises(CorruptBatch, match="UTF-8"):
        rows(by_hand.batch(by_hand.varint(len(inside)) + inside, 1))


def outcome(batch: bytes) -> list[Read] | None:
    """What we read; None if it is refused."""
    try:
        found = decode_all(batch, "t", 0, ("offset", "key", "value", HEADERS)).to_pylist()
    except CorruptBatch:
        return None
    return [
        (row["offset"], row["key"], row["value"], [(pair["key"], pair["value"]) for pair in row[HEADERS] or ()])
        for row in found
    ]


def slow_outcome(batch: bytes) -> list[Read] | None:
    header = read_header(batch)
    try:
        return read_records(batch[HEADER_BYTES:], header.record_count, header.last_offset_delta)
    except Unreadable:
        return None


@settings(deadline=None, max_examples=300)
@given(st.lists(new_records, min_size=1, max_size=4) | record_lists, st.data())
def test_damaged_records_are_read_or_refused_as_the_specification_says(
    records: list[NewRecord], data: st.DataObject
) -> None:
    """The CRC is not asked here: these are the bytes that a producer meant."""
    whole = bytearray(build(records))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(HEADER_BYTES, len(whole) - 1))] = data.draw(st.integers(0, 255))
    batch = assemble(read_header(whole), bytes(whole[HEADER_BYTES:]))
    assert outcome(batch) == slow_outcome(batch)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from([b"\0", b"\1", b"\2", b"\4", b"\x06", b"\x0e", b"\x80", b"\xff", b"k"]), max_size=40))
def test_made_up_records_are_read_or_refused_as_the_specification_says(parts: list[bytes]) -> None:
    for count in (1, 2):
        batch = by_hand.batch(b"".join(parts), count)
        assert outcome(batch) == slow_outcome(batch)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=400), st.integers(0, 40), st.integers(0, 4))
def test_junk_is_an_error_or_some_rows(junk: bytes, count: int, codec: int) -> None:
    batch = by_hand.batch(junk, count, attributes=codec & CODEC_MASK, last_offset_delta=count)
    try:
        found = decode_all(batch, "t", 0, (*EVERYTHING, *METADATA))
    except CorruptBatch:
        return
    found.validate(full=True)
    assert found.num_rows == count


@settings(deadline=None, max_examples=60)
@given(record_lists, st.data())
def test_a_batch_that_is_cut_is_an_error(records: list[NewRecord], data: st.DataObject) -> None:
    whole = build(records)
    cut = data.draw(st.integers(HEADER_BYTES, len(whole) - 1))
    with pytest.raises(CorruptBatch):
        rows(assemble(read_header(whole), whole[HEADER_BYTES:cut]))


def test_records_need_not_be_aligned_in_memory() -> None:
    records = [NewRecord(b"k%d" % at, b"v" * at, (), 1_000 + at) for at in range(100)]
    for shift in range(9):
        buffer = bytes(shift) + build(records) + bytes(shift)
        spots = [Spot(read_header(buffer, shift), shift)]
        (group,) = unfold(np.frombuffer(buffer, np.uint8).data, spots, 1 << 20)
        assert decode(group, OffsetRange("t", 3, 0, 100), EVERYTHING).to_pylist() == expected(records)
