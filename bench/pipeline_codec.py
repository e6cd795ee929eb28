"""The pipeline's codec against Parquet on the same rows: record batches to Arrow, and Arrow to record batches.

Both sides run in turn in one thread and are measured in processor time, so that a busy machine hits them alike.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Figure, alternate
from goqueue.base.limits import KIB, MIB
from goqueue.pipeline.arrow.columns import BASE, HEADERS, TYPES
from goqueue.pipeline.arrow.decode import decode
from goqueue.pipeline.arrow.encode import BatchProducer, encode
from goqueue.pipeline.arrow.partitions import partitions_of, split
from goqueue.pipeline.arrow.rows import rows_of
from goqueue.pipeline.arrow.spots import unfold
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.link.visible import sound_batches

ROWS = 100_000
SIZE = 200
ROUNDS = 9
TIME_MS = 1_700_000_000_000
PRODUCER = BatchProducer(1, 0)
READ_BAR = 0.5
WRITE_BAR = 0.4


def decode_figures(root: Path) -> Iterator[Figure]:
    """As an executor does it: CRCs checked, groups of four megabytes."""
    equal, varied = _rows(SIZE, SIZE), _rows(SIZE // 2, SIZE * 3 // 2)
    yield _decode("decode 200-byte messages, all columns", equal, BASE, MIB)
    yield _decode("  the value only", equal, ("value",), MIB)
    yield _decode("  in batches of 16 KiB", equal, BASE, 16 * KIB)
    yield _decode("  of 100 to 300 bytes", varied, BASE, MIB)
    yield _decode("  of 100 to 300 bytes in batches of 16 KiB", varied, BASE, 16 * KIB)
    yield _decode("  with two headers each", _with_headers(equal), (*BASE, HEADERS), MIB)


def encode_figures(root: Path) -> Iterator[Figure]:
    """As a task of the sink does it, up to the bytes of the request."""
    equal = _rows(SIZE, SIZE)
    yield _encode("encode 200-byte messages with keys, one partition", equal, 1)
    yield _encode("  for twelve partitions by key", equal, 12)
    yield _encode("  of 100 to 300 bytes", _rows(SIZE // 2, SIZE * 3 // 2), 12)
    yield _encode("  with two headers each", _with_headers(equal), 12)


def _decode(name: str, rows: pa.RecordBatch, columns: Sequence[str], batch_bytes: int) -> Figure:
    log = _log(rows, batch_bytes)
    stored = io.BytesIO()
    pq.write_table(_read(log, columns), stored)
    ours, parquet, ratio = alternate(
        lambda: _rate(lambda: _read(log, columns)),
        lambda: _rate(lambda: pq.read_table(stored, use_threads=False)),
        ROUNDS,
    )
    return _figure(name, ours, parquet, ratio, READ_BAR)


def _encode(name: str, rows: pa.RecordBatch, partitions: int) -> Figure:
    table = pa.Table.from_batches([rows])
    ours, parquet, ratio = alternate(
        lambda: _rate(lambda: _write(rows, partitions)),
        lambda: _rate(lambda: pq.write_table(table, io.BytesIO())),
        ROUNDS,
    )
    return _figure(name, ours, parquet, ratio, WRITE_BAR)


def _figure(name: str, ours: float, parquet: float, ratio: float, bar: float) -> Figure:
    """The bar is for the plain case; the others show what their extra costs."""
    value, against = f"{1e6 / ours:.3f} us/row", f"{ratio:.2f} of Parquet ({1e6 / parquet:.3f})"
    if name.startswith(" "):
        return Figure(name, value, against)
    return Figure(name, value, against, f"at least {bar:.2f}", ratio >= bar)


def _rate(work: Callable[[], object]) -> float:
    """Rows a second of processor time."""
    began = time.process_time()
    work()
    return ROWS / (time.process_time() - began)


# --- both sides ------------------------------------------------------------------------------------------------


def _read(log: bytes, columns: Sequence[str]) -> pa.Table:
    spots, end = sound_batches(log, 0, ROWS)
    wanted = OffsetRange("bench", 0, 0, end)
    found = pa.Table.from_batches([decode(group, wanted, columns) for group in unfold(log, spots, 4 * MIB)])
    assert found.num_rows == ROWS
    return found


def _write(rows: pa.RecordBatch, partitions: int) -> int:
    messages = rows_of(rows, TIME_MS)
    chosen = partitions_of(messages, None, partitions, 0)
    return sum(len(one.batch) for _, part in split(messages, chosen) for one in encode(part, PRODUCER, 0))


def _log(rows: pa.RecordBatch, batch_bytes: int) -> bytes:
    """Batches one behind the other, as a fetch brings them."""
    parts: list[bytes] = []
    offset = 0
    for one in encode(rows_of(rows, TIME_MS), PRODUCER, 0, 0, batch_bytes):
        parts += [offset.to_bytes(8, "big"), bytes(one.batch)[8:]]
        offset += one.rows
    return b"".join(parts)


def _rows(smallest: int, largest: int) -> pa.RecordBatch:
    """Messages that do not compress, a few to the millisecond."""
    dice = np.random.default_rng(1)
    sizes = dice.integers(smallest, largest, ROWS, endpoint=True)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    data = dice.integers(0, 256, int(bounds[-1]), np.uint8)
    values = pa.Array.from_buffers(pa.binary(), ROWS, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    keys = pa.array([b"customer-%05d" % number for number in dice.integers(0, 10_000, ROWS)], pa.binary())
    times = pa.array((TIME_MS + np.arange(ROWS) // 7) * 1000).view(TYPES["timestamp"])
    return pa.record_batch({"key": keys, "value": values, "timestamp": times})


def _with_headers(rows: pa.RecordBatch) -> pa.RecordBatch:
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = [[{"key": "traceparent", "value": trace}, {"key": "schema-id", "value": b"7"}]] * ROWS
    return rows.append_column(HEADERS, pa.array(headers, TYPES[HEADERS]))
