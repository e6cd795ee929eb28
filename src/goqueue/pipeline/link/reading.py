"""Messages as Arrow record batches: fetched, decoded and handed on in pieces of a few megabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from goqueue.base.errors import CorruptBatch
from goqueue.base.limits import KIB, MIB
from goqueue.pipeline.arrow.columns import arrow_schema
from goqueue.pipeline.arrow.decode import decode
from goqueue.pipeline.arrow.spots import Spot, unfold
from goqueue.pipeline.link.cluster import PATIENCE_S, cluster
from goqueue.pipeline.link.errors import CorruptData, PipelineError
from goqueue.pipeline.link.fetching import FetchedBatches, RangeFetcher, Rules, rules_for
from goqueue.pipeline.link.place import OffsetRange

__all__ = ["OffsetRange", "read_arrow"]

BATCH_BYTES: Final = 2 * MIB
_PIECE_BYTES_MIN: Final = 1 * MIB  # smaller ones are put together
_PIECE_BYTES_MAX: Final = 8 * MIB  # larger ones are cut
_OVERHEAD_BYTES: Final = 6 * KIB  # of a record batch itself, however little is in it


def read_arrow(
    kafka: str,
    ranges: Sequence[OffsetRange],
    columns: Sequence[str],
    *,
    isolation: str = "read_committed",
    fail_on_loss: bool = True,
    batch_bytes: int = BATCH_BYTES,
    on_loss: Callable[[OffsetRange, int], None] | None = None,
    patience_s: float = PATIENCE_S,
    keys: tuple[bytes, ...] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages with offsets in the ranges, range by range in the order of their offsets; of given keys only.

    Control batches are left out, and under `read_committed` aborted transactions too. Offsets that the log no longer
    has, or that cannot be read, raise, or are skipped and told to `on_loss` with their range and number. A node that
    is away is waited for. Memory is bounded by `batch_bytes`: a fetch of twice that, and what is decoded of it.
    """
    if not arrow_schema(columns).names:
        raise PipelineError("No column was asked for; name at least one.")
    rules = rules_for(isolation, fail_on_loss, batch_bytes, on_loss, keys)
    fetching = RangeFetcher(cluster(kafka, patience_s, patience_s), ranges, rules)
    return _in_pieces(_read(fetching, columns, batch_bytes, rules))


def _read(fetching: RangeFetcher, columns: Sequence[str], batch_bytes: int, rules: Rules) -> Iterator[pa.RecordBatch]:
    with closing(iter(fetching)) as answers:
        for fetched in answers:
            yield from _decoded(fetched, columns, batch_bytes, rules)


def _decoded(
    fetched: FetchedBatches, columns: Sequence[str], batch_bytes: int, rules: Rules
) -> Iterator[pa.RecordBatch]:
    """In groups; from the first that cannot be read on, batch by batch."""
    done = 0
    try:
        for records in unfold(fetched.buffer, fetched.spots, batch_bytes):
            yield decode(records, fetched.wanted, columns, rules.keys)
            done += len(records.batches)
    except CorruptBatch:
        for spot in fetched.spots[done:]:
            yield from _alone(fetched, spot, columns, rules)


def _alone(fetched: FetchedBatches, spot: Spot, columns: Sequence[str], rules: Rules) -> Iterator[pa.RecordBatch]:
    """A producer can put anything under a right checksum: an error with its place, or told and skipped."""
    try:
        for records in unfold(fetched.buffer, [spot], 1):
            yield decode(records, fetched.wanted, columns, rules.keys)
    except CorruptBatch as error:
        wanted, header = fetched.wanted, spot.header
        if rules.fail_on_loss:
            raise CorruptData(wanted.place, header.base_offset, error.message) from error
        if rules.on_loss is not None:
            first, end = max(wanted.start, header.base_offset), min(wanted.end, header.last_offset + 1)
            rules.on_loss(wanted, end - first)


def _in_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one to eight megabytes, as far as rows allow; the last may be smaller."""
    small: list[pa.RecordBatch] = []
    size = 0
    for batch in (one for one in batches if one.num_rows):
        if batch.nbytes < _PIECE_BYTES_MIN:
            small.append(batch)
            size += batch.nbytes + _OVERHEAD_BYTES
        if small and (size >= _PIECE_BYTES_MIN or batch is not small[-1]):
            yield _together(small)
            small, size = [], 0
        if batch.nbytes >= _PIECE_BYTES_MIN:
            yield from _cut(batch)
    if small:
        yield _together(small)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    pieces = -(-batch.nbytes // _PIECE_BYTES_MAX)
    rows = max(1, batch.num_rows // pieces)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
