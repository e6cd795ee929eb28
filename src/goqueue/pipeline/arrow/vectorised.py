"""Where the records of many small batches begin: the first of each batch, then the second of each, and so on.

A step costs the same few operations for one batch or a thousand. The first two bytes of a record are looked up in a
table that says how far the next one is; only records of more than 8 KiB need a closer look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from goqueue.pipeline.arrow.varints import Bytes, Ints, read_one

LANES_MIN: Final = 40  # with fewer batches side by side a plain loop is faster


def _table() -> Ints:
    """The size of a record by its first two bytes, low byte first; 0 if they do not tell."""
    low, high = np.arange(65_536) & 0xFF, np.arange(65_536) >> 8
    short, long = 1 + (low >> 1), 2 + ((low & 0x7F | high << 7) >> 1)
    sizes = np.where(low < 0x80, short, np.where(high < 0x80, long, 0))
    return np.where(low & 1, 0, sizes)  # an odd number is a negative one


_SIZES: Final = _table()


class BatchLanes(NamedTuple):
    """Batches with the most records first, and where each got to."""

    at: Ints
    ends: Ints
    counts: Ints
    slots: Ints  # where the places of its records go

    @classmethod
    def of(cls, starts: Ints, ends: Ints, counts: Ints) -> BatchLanes:
        slots = np.cumsum(counts) - counts
        order = np.argsort(-counts, kind="stable")
        return cls(starts[order], ends[order], counts[order], slots[order])


def walk_abreast(data: Bytes, lanes: BatchLanes, found: Ints, corrupt: Callable[[], Exception]) -> int:
    """Notes the places of the records of all lanes, as long as enough lanes have more; how many of each it noted."""
    pairs = np.ndarray((max(0, data.size - 1),), np.dtype("<u2"), data, strides=(1,))
    number = 0
    while (width := int(np.count_nonzero(lanes.counts > number))) >= LANES_MIN:
        at = lanes.at[:width]
        found[lanes.slots[:width] + number] = at
        sizes = _SIZES[pairs[at]]
        if not sizes.all():
            _look_closer(data, at, sizes, corrupt)
        at += sizes
        number += 1
    return number


def _look_closer(data: Bytes, at: Ints, sizes: Ints, corrupt: Callable[[], Exception]) -> None:
    for lane in np.flatnonzero(sizes == 0).tolist():
        start = int(at[lane])
        length, body = read_one(data, start)
        if not 0 < length <= data.size:
            raise corrupt()
        sizes[lane] = body - start + length
