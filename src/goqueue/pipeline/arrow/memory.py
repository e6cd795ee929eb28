"""Arrow arrays over numpy's memory, and back.

`pa.array`, `pa.scalar` and `to_numpy` do the same, but load pandas to look at what they are given: half a second that
an executor would wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]


def array_of(values: npt.NDArray[Any], kind: pa.DataType, are_null: Bools | None = None) -> pa.Array:
    """Numbers as an array of a type of their width; nothing is copied."""
    return pa.Array.from_buffers(kind, values.size, [_validity(are_null), pa.py_buffer(np.ascontiguousarray(values))])


def binary_array(
    bounds: npt.NDArray[np.integer[Any]], data: Any, kind: pa.DataType, are_null: Bools | None = None
) -> pa.Array:
    """Pieces of some bytes; there is one bound more than pieces."""
    buffers = [_validity(are_null), pa.py_buffer(bounds.astype(np.int32, copy=False)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, bounds.size - 1, buffers)


def binaries_of(values: Sequence[bytes]) -> pa.Array:
    return binary_array(np.cumsum([0, *map(len, values)]), b"".join(values), pa.binary())


def scalar_of(value: bytes, kind: pa.DataType) -> pa.Scalar:
    return binary_array(np.array([0, len(value)]), value, kind)[0]


def with_nulls(values: pa.Array, are_null: Bools) -> pa.Array:
    """The same values, some of them null instead. Not for slices."""
    if not are_null.any():
        return values
    return pa.Array.from_buffers(values.type, len(values), [_validity(are_null), *values.buffers()[1:]])


def numbers_of(array: pa.Array) -> npt.NDArray[Any]:
    """The memory of an array of numbers; what null means is for `nulls_of` to say."""
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def bools_of(array: pa.Array) -> Bools:
    """An array of booleans without nulls."""
    return _bits(array.buffers()[1], array)


def nulls_of(array: pa.Array) -> Bools:
    validity = array.buffers()[0]
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    return np.ones(len(array), np.bool_) if validity is None else ~_bits(validity, array)


def _bits(buffer: pa.Buffer, array: pa.Array) -> Bools:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little", count=array.offset + len(array))
    return bits[array.offset :].astype(np.bool_)


def _validity(are_null: Bools | None) -> pa.Buffer | None:
    if are_null is None or not are_null.any():
        return None
    return pa.py_buffer(np.packbits(~are_null, bitorder="little"))
