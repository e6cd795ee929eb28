"""Encoding rows: what the broker's own codec and stock clients read is what was written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.format.batch import HEADER_BYTES, verified_header
from goqueue.format.records import InTransaction, NewRecord, build, decode, payload
from goqueue.pipeline.arrow.columns import HEADERS
from goqueue.pipeline.arrow.decode import decode_all
from goqueue.pipeline.arrow.encode import BatchProducer, Encoded, encode, sizes_of
from goqueue.pipeline.arrow.rows import Rows, rows_of
from goqueue.pipeline.link.errors import PipelineError
from tests.pipeline.arrow.some_records import EVERYTHING, expected, record_lists, rows_to_write

NOW = 1_700_000_000_000
PRODUCER = BatchProducer(77, 3)
every_codec = pytest.mark.parametrize("codec", range(5))


def written(rows: Rows | pa.RecordBatch, sequence: int = 0, codec: int = 0, bytes_max: int = 1 << 30) -> list[Encoded]:
    rows = rows if isinstance(rows, Rows) else rows_of(rows, NOW)
    return list(encode(rows, PRODUCER, sequence, codec, bytes_max))


@every_codec
@settings(deadline=None, max_examples=60)
@given(records=record_lists)
@example(records=[NewRecord(None, None, (), 0)])
@example(records=[NewRecord(b"", b"", (("", b""), ("", None)), 0)])
@example(records=[NewRecord(b"k", b"x" * size, (), 5) for size in (0, 1, 63, 64, 8191, 8192, 70_000, 1_100_000)])
@example(records=[NewRecord(b"k", b"x" * (at % 7), (), at) for at in range(9_000)])
def test_what_is_encoded_is_read_by_the_broker_and_by_a_stock_reader(codec: int, records: list[NewRecord]) -> None:
    (one,) = written(rows_to_write(records), codec=codec)
    header = verified_header(one.batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 0)
    assert header.is_transactional and not header.is_control and one.rows == len(records)
    assert header.base_timestamp == records[0].timestamp_ms
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    found = [(one.key, one.value, one.headers, one.timestamp_ms) for one in decode(one.batch)]
    assert found == [(one.key, one.value, one.headers, one.timestamp_ms) for one in records]
    if len(records) < 100:
        reader = _DefaultRecordBatchPy(bytes(one.batch))
        assert [(one.offset, one.key, one.value) for one in reader] == [
            (at, one.key, one.value) for at, one in enumerate(records)
        ]
    assert decode_all(one.batch, "t", 3, EVERYTHING).to_pylist() == expected(records)


@settings(deadline=None, max_examples=60)
@given(record_lists)
def test_a_batch_is_to_the_byte_what_the_brokers_codec_makes(records: list[NewRecord]) -> None:
    (one,) = written(rows_to_write(records), sequence=12)
    assert one.batch == build(records, 0, InTransaction(77, 3, 12))


@settings(deadline=None, max_examples=60)
@given(record_lists, st.sampled_from([1, 100, 1_000, 20_000]))
def test_batches_are_cut_by_size_in_order_and_numbered_on(records: list[NewRecord], bytes_max: int) -> None:
    rows = rows_of(rows_to_write(records), NOW)
    batches = written(rows, 5, 0, bytes_max)
    headers = [verified_header(one.batch) for one in batches]
    counts = [one.rows for one in batches]
    assert [header.base_sequence for header in headers] == [5 + sum(counts[:at]) for at in range(len(counts))]
    assert [one.value for batch in batches for one in decode(batch.batch)] == [one.value for one in records]
    assert all(header.size <= HEADER_BYTES + bytes_max or header.record_count == 1 for header in headers)
    total = sum(len(payload(one.batch, header)) for one, header in zip(batches, headers, strict=True))
    assert total <= sizes_of(rows).sum()


def test_a_sequence_wraps_to_zero_after_the_largest() -> None:
    rows = pa.record_batch({"value": [b"x" * 100] * 4})
    batches = written(rows, 2**31 - 2, 0, 200)
    assert [verified_header(one.batch).base_sequence for one in batches] == [2**31 - 2, 2**31 - 1, 0, 1]


def test_text_bytes_and_their_large_kinds_are_values() -> None:
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
    for kind in kinds:
        values = pa.array(["é", None, ""], pa.string()).cast(pa.binary() if "binary" in str(kind) else pa.string())
        (one,) = written(pa.record_batch({"value": values.cast(kind), "key": values.cast(kind)}))
        assert [(one.key, one.value) for one in decode(one.batch)] == [("é".encode(),) * 2, (None, None), (b"", b"")]


def test_a_slice_of_a_larger_batch_is_written_and_nothing_else() -> None:
    records = [NewRecord(b"k%d" % at, b"v%d" % at, ((f"h{at}", b"x"),) * (at % 3), at) for at in range(20)]
    (one,) = written(rows_to_write(records).slice(5, 7))
    assert [(one.key, one.value, one.headers) for one in decode(one.batch)] == [
        (one.key, one.value, one.headers) for one in records[5:12]
    ]


def test_null_times_are_now_and_null_headers_none() -> None:
    headers = pa.array([None, [{"key": "a", "value": None}]], rows_to_write([]).schema.field(HEADERS).type)
    times = pa.array([None, 5_000], pa.timestamp("us"))
    (one,) = written(pa.record_batch({"value": ["a", "b"], HEADERS: headers, "timestamp": times}))
    assert [(one.timestamp_ms, one.headers) for one in decode(one.batch)] == [(NOW, ()), (5, (("a", None),))]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"key": [b"k"]}, "need a column 'value'"),
        ({"value": [1]}, "'value' is of type int64; it must be binary or string"),
        ({"value": [b"v"], "key": [1.5]}, "'key' is of type double"),
        ({"value": [b"v"], "price": [1]}, "no place for the column 'price'"),
        ({"value": [b"v"], "headers": ["a=b"]}, "it must be array<struct<key:string,value:binary>>"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b"x"}]]}, "A header has no name"),
        ({"value": [b"v"], "headers": [[None, {"key": "a", "value": b"x"}]]}, "A header has no name"),
        ({"value": [b"v"], "timestamp": [5]}, "'timestamp' is of type int64"),
    ],
)
def test_columns_that_cannot_be_written_are_named(columns: dict[str, list[object]], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        rows_of(pa.record_batch({name: pa.array(values) for name, values in columns.items()}), NOW)


def test_rows_are_picked_with_all_their_columns() -> None:
    records = [NewRecord(b"k%d" % at, b"v%d" % at, (("h", b"%d" % at),), at) for at in range(6)]
    (one,) = written(rows_of(rows_to_write(records), NOW).take(np.array([4, 0, 5])))
    assert [(one.key, one.timestamp_ms, one.headers[0][1]) for one in decode(one.batch)] == [
        (b"k4", 4, b"4"),
        (b"k0", 0, b"0"),
        (b"k5", 5, b"5"),
    ]
