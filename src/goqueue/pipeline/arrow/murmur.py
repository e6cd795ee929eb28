"""Where keys live: the hashes that producers and the broker place messages by, for a whole column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.pipeline.arrow.binary import view_of
from goqueue.pipeline.arrow.varints import Bytes, Ints

Hashes = npt.NDArray[np.uint32]

_M: Final = np.uint32(0x5BD1E995)
_SEED: Final = 0x9747B28C


def murmur2(keys: pa.Array) -> Hashes:
    """Kafka's, as its Java client computes it, with the sign bit cleared. Nulls have some hash too."""
    bounds, data = view_of(keys)
    starts, sizes = bounds[:-1], np.diff(bounds)
    found = np.empty(len(keys), np.uint32)
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        found[alike] = _of_size(data, starts[alike], size)
    return found & np.uint32(0x7FFF_FFFF)


def _of_size(data: Bytes, starts: Ints, size: int) -> Hashes:
    """Keys of one size: a column of words after the other."""
    h = np.full(starts.size, _SEED ^ size, np.uint32)
    if not size:
        return _finish(h)
    every = np.ndarray((data.size - size + 1,), np.dtype(f"V{size}"), data, strides=(1,))
    keys = np.ascontiguousarray(every[starts]).view(np.uint8).reshape(starts.size, size)
    whole = size & ~3
    for at in range(0, whole, 4):
        k = _word(keys[:, at : at + 4]) * _M
        h = (h * _M) ^ ((k ^ k >> np.uint32(24)) * _M)
    if whole < size:
        h = (h ^ _word(keys[:, whole:])) * _M
    return _finish(h)


def _word(columns: Bytes) -> Hashes:
    """Up to four bytes as little-endian numbers."""
    found = columns[:, 0].astype(np.uint32)
    for place in range(1, columns.shape[1]):
        found |= columns[:, place].astype(np.uint32) << np.uint32(8 * place)
    return found


def _finish(h: Hashes) -> Hashes:
    h = (h ^ h >> np.uint32(13)) * _M
    return h ^ h >> np.uint32(15)


def murmur3(keys: pa.Array) -> Hashes:
    hashes = [mmh3.hash(key or b"", signed=False) & 0x7FFF_FFFF for key in keys.to_pylist()]
    return np.array(hashes, np.uint32)


HASHES: Final[Mapping[str, Callable[[pa.Array], Hashes]]] = {"murmur2": murmur2, "murmur3": murmur3}
