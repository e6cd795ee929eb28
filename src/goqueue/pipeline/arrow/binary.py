"""Slices of a stretch of bytes as an Arrow array, copied together by Arrow and not one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from goqueue.pipeline.arrow.memory import array_of, binary_array, with_nulls
from goqueue.pipeline.arrow.varints import Bytes, Ints


def gather(data: Bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """The slices, of which none begins before the one before it ends. A negative size is null.

    To Arrow the data are slices and gaps in turn; it is told to take every second.
    """
    count = starts.size
    if count == 0:
        return pa.nulls(0, pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(sizes, 0)
    every = binary_array(bounds, data, pa.binary())
    taken = every.take(array_of(np.arange(0, 2 * count, 2), pa.int64()))
    return with_nulls(taken, sizes < 0)


def view_of(values: pa.Array) -> tuple[Ints, Bytes]:
    """The bounds of a binary array's values (one more than values), and the bytes that they lie in."""
    _, bounds, data = values.buffers()
    found = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return found, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
