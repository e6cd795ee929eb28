"""Slices of a stretch of bytes as an Arrow array, copied together by Arrow and not one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.pipeline.arrow.memory import array_of, binary_array, with_nulls
from goqueue.pipeline.arrow.varints import Bytes, Ints


def gather(data: Bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """The slices, of which none begins before the one before it ends. A negative size is null."""
    if starts.size == 0:
        return pa.nulls(0, pa.binary())
    size = int(sizes[0])
    if size > 0 and (sizes == size).all():
        return _of_one_size(data, starts, size)
    return with_nulls(_of_any_size(data, starts, np.maximum(sizes, 0)), sizes < 0)


def _of_one_size(data: Bytes, starts: Ints, size: int) -> pa.Array:
    """To numpy the data are items of that size that begin at every byte."""
    every = np.ndarray((data.size - size + 1,), np.dtype((np.void, size)), data, strides=(1,))
    return binary_array(np.arange(starts.size + 1) * size, every[starts], pa.binary())


def _of_any_size(data: Bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """To Arrow the data are slices and gaps in turn; it is told to take every second."""
    bounds = np.empty(2 * starts.size, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + sizes
    every = binary_array(bounds, data, pa.binary())
    return pc.take(every, array_of(np.arange(0, 2 * starts.size, 2), pa.int64()), boundscheck=False)


def view_of(values: pa.Array) -> tuple[Ints, Bytes]:
    """The bounds of a binary array's values (one more than values), and the bytes that they lie in."""
    _, bounds, data = values.buffers()
    found = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return found, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
