"""Batches of one fetch, unfolded: their records in one stretch of bytes, and what their headers say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.format.compression import decompress
from goqueue.pipeline.arrow.chain import RecordBounds, record_starts
from goqueue.pipeline.arrow.varints import Bytes, Ints


class Spot(NamedTuple):
    """A batch, and where it begins in the bytes of a fetch."""

    header: BatchHeader
    at: int


class RecordSpots(NamedTuple):
    """Every record of some batches, in order. They may lie anywhere in `data`, but one behind the other."""

    data: Bytes
    starts: Ints
    batches: list[BatchHeader]
    counts: Ints  # records of each batch

    def of_batch(self, facts: Sequence[int]) -> Ints:
        """A fact of each batch, for each of its records."""
        return np.repeat(np.array(facts, np.int64), self.counts)


def unfold(buffer: Buffer, spots: Sequence[Spot], bytes_max: int) -> Iterator[RecordSpots]:
    """The batches in groups of so many unfolded bytes, or of a single one that is larger.

    `CorruptBatch` if a batch does not hold the records that it says.
    """
    group: list[tuple[Spot, Bytes]] = []
    size = 0
    for spot in spots:
        body = _body(buffer, spot)
        if group and size + body.size > bytes_max:
            yield _records(buffer, group)
            group, size = [], 0
        group.append((spot, body))
        size += body.size
    if group:
        yield _records(buffer, group)


def _body(buffer: Buffer, spot: Spot) -> Bytes:
    header, at = spot
    body = memoryview(buffer)[at + HEADER_BYTES : at + header.size]
    return np.frombuffer(decompress(header.codec, body) if header.codec else body, np.uint8)


def _records(buffer: Buffer, group: Sequence[tuple[Spot, Bytes]]) -> RecordSpots:
    batches = [spot.header for spot, _ in group]
    if any(header.codec for header in batches):
        data = np.concatenate([body for _, body in group])
        ends = np.cumsum([body.size for _, body in group]).tolist()
        begins = [0, *ends[:-1]]
    else:  # they are where they should be already
        data = np.frombuffer(buffer, np.uint8)
        begins = [spot.at + HEADER_BYTES for spot, _ in group]
        ends = [spot.at + spot.header.size for spot, _ in group]
    counts = [header.record_count for header in batches]
    starts = record_starts(data, list(map(RecordBounds, begins, ends, counts)))
    return RecordSpots(data, starts, batches, np.array(counts, np.int64))
