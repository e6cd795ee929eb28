"""Where the records of batches begin: each says how long it is, so the next is found from it.

Records of the same length in a row are found at one go: if the record at every step of that length says the same
length, then those are the records. Where lengths vary, a plain loop is faster than failed guesses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from goqueue.base.errors import CorruptBatch
from goqueue.pipeline.arrow.varints import Bytes, Ints, read_one
from goqueue.pipeline.arrow.vectorised import LANES_MIN, BatchLanes, walk_abreast

_RECORD_BYTES_MIN: Final = 7  # its length, attributes, time, offset, the sizes of key and value, no headers
_LEAP_MIN: Final = 64  # a guess that hits fewer is not worth its cost
_STROLL: Final = 512  # records to walk one by one before the next guess


class RecordBounds(NamedTuple):
    """A batch's records: where they begin and end, and how many they are."""

    start: int
    end: int
    records: int


def record_starts(data: Bytes, batches: Sequence[RecordBounds]) -> Ints:
    """The places of all records; `CorruptBatch` if a batch is not filled by exactly as many as it should have."""
    if any(one.records * _RECORD_BYTES_MIN > one.end - one.start for one in batches):
        raise _corrupt()
    try:
        return (_many if len(batches) >= LANES_MIN else _few)(data, batches)
    except IndexError:
        raise _corrupt() from None


def _few(data: Bytes, batches: Sequence[RecordBounds]) -> Ints:
    chain = _Chain(data)
    parts = [part for bounds in batches for part in chain.follow(bounds)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _many(data: Bytes, batches: Sequence[RecordBounds]) -> Ints:
    """Side by side; those with many more records than the others are followed to their ends alone."""
    lanes = BatchLanes.of(*np.array(batches, np.int64).T)
    found = np.empty(int(lanes.counts.sum()), np.int64)
    noted = walk_abreast(data, lanes, found, _corrupt)
    chain = _Chain(data)
    for at, end, count, slot in zip(*(column.tolist() for column in lanes), strict=True):
        if count > noted:
            rest = list(chain.follow(RecordBounds(at, end, count - noted)))
            found[slot + noted : slot + count] = np.concatenate(rest)
        elif at != end:
            raise _corrupt()
    return found


class _Chain:
    """Remembers from batch to batch whether guesses are worth it."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._stroll = 0  # records before the next guess

    def follow(self, bounds: RecordBounds) -> Iterator[Ints]:
        at, end, left = bounds
        while left and at < end:
            if self._stroll:
                part, at = _stroll(self._data, at, min(left, self._stroll))
                self._stroll -= part.size
            else:
                part, behind = _leap(self._data, at, end, left)
                if part.size < min(left, _LEAP_MIN):
                    self._stroll = _STROLL
                    continue
                at = behind
            yield part
            left -= part.size
        if at != end or left:
            raise _corrupt()


def _leap(data: Bytes, at: int, end: int, left: int) -> tuple[Ints, int]:
    """Records from here on that are all as long as the first, and the place behind them."""
    length, body = read_one(data, at)
    size = body - at + length
    if length <= 0:
        raise _corrupt()
    alike = min(left, max(1, (end - at) // size))
    for place in range(body - at):
        same = data[at + place : at + place + (alike - 1) * size + 1 : size] == data[at + place]
        if not same.all():
            alike = int(same.argmin())
    return at + size * np.arange(alike), at + size * alike


def _stroll(data: Bytes, at: int, count: int) -> tuple[Ints, int]:
    """So many records one by one; whatever their lengths are."""
    view = data.data  # its items are plain numbers
    places = [0] * count
    for number in range(count):
        places[number] = at
        low = view[at]
        if low < 128:
            at += 1 + (low >> 1)
        elif (high := view[at + 1]) < 128:
            at += (low >> 1) + (high << 6) - 62  # 7 bits of each, halved, and the two bytes
        else:
            length, body = read_one(view, at)
            at = body + max(0, length)
    found = np.frombuffer(array("q", places), np.int64)
    if (data[found] & 1).any():
        raise _corrupt()  # a negative length
    return found, at


def _corrupt() -> CorruptBatch:
    return CorruptBatch("The lengths of a batch's records do not add up to the batch.")
