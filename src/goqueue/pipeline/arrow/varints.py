"""Zigzag varints, a whole column at a time.

Reading: numbers of one and two bytes, which nearly all are, are looked up in a table. For longer ones eight bytes from
each place are one word; the first byte without its top bit ends the number, and the groups of seven bits are pushed
together in three steps. Numbers of nine and ten bytes are so rare that they are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from goqueue.base.errors import CorruptBatch

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_WORD: Final = 8
_TOPS: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)
# (bits that stay, bits that move, how far)
_STEPS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


def _short_numbers() -> tuple[Ints, Bytes]:
    """What two bytes, low byte first, begin with: the number, and how many bytes it has; 0 if more than two."""
    low, high = np.arange(65_536) & 0xFF, np.arange(65_536) >> 8
    is_short = low < 0x80
    bits = np.where(is_short, low, low & 0x7F | high << 7)
    sizes = np.where(is_short, 1, np.where(high < 0x80, 2, 0))
    return bits >> 1 ^ -(bits & 1), sizes.astype(np.uint8)


_SHORT_VALUES, _SHORT_SIZES = _short_numbers()


class Numbers(NamedTuple):
    """What was read, and the place behind each."""

    values: Ints
    ends: Ints


def read(data: Bytes, at: Ints) -> Numbers:
    """The numbers that begin at these places. A number that the data cuts off is read as if zeros followed."""
    if at.size == 0 or at.max() >= data.size - 1:
        return _read_long(data, at)
    pairs = np.ndarray((data.size - 1,), np.dtype("<u2"), data, strides=(1,))[at]
    sizes = _SHORT_SIZES.take(pairs)
    if not sizes.all():
        return _read_long(data, at)
    return Numbers(_SHORT_VALUES.take(pairs), at + sizes)


def _read_long(data: Bytes, at: Ints) -> Numbers:
    words = _words(data, at)
    stops = ~words & _TOPS
    lowest = stops & (~stops + _ONE)
    inside = (lowest << _ONE) - _ONE  # all bits of the number; all of the word if it does not end there
    bits = words & inside & ~_TOPS
    for stay, move, far in _STEPS:
        bits = (bits & stay) | ((bits & move) >> far)
    values, ends = _unzigzag(bits), at + (np.bitwise_count(inside) >> 3)
    for place in np.flatnonzero(stops == 0).tolist():
        values[place], ends[place] = read_one(data, int(at[place]))
    return Numbers(values, ends)


def _words(data: Bytes, at: Ints) -> Words:
    """Eight bytes from each place; behind the end there are zeros."""
    if data.size < _WORD:
        data = np.concatenate([data, np.zeros(_WORD, np.uint8)])
    last = data.size - _WORD
    every: Words = np.ndarray((last + 1,), np.dtype("<u8"), data, strides=(1,))
    over = at - last
    if at.size == 0 or over.max() <= 0:
        return every[at]
    words = every[np.minimum(at, last)]
    shift = np.clip(over, 0, _WORD).astype(np.uint64) << np.uint64(3)
    # A shift by the whole width is not defined.
    return np.where(shift < 64, words >> np.minimum(shift, np.uint64(63)), np.uint64(0))


def _unzigzag(bits: Words) -> Ints:
    return (bits >> _ONE).view(np.int64) ^ -(bits & _ONE).view(np.int64)


def read_one(data: Any, at: int) -> tuple[int, int]:
    """One number of up to ten bytes and the place behind it; `CorruptBatch` if there is none."""
    bits = shift = 0
    while shift <= 63 and at < len(data):
        byte = int(data[at])
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            bits &= 0xFFFF_FFFF_FFFF_FFFF
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    raise CorruptBatch("A number has more than ten bytes, or ends behind the data.")


# --- writing -------------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """Numbers as bytes: all first bytes, all second bytes and so on; and which rows have a byte there."""

    bytes: list[Bytes]
    used: list[npt.NDArray[np.bool_]]
    sizes: Ints  # how many bytes each row has


def write(values: Ints) -> Column:
    """As many bytes as the longest needs."""
    bits = (values << 1 ^ values >> 63).view(np.uint64)
    found = Column([], [np.ones(bits.size, np.bool_)], np.ones(bits.size, np.int64))
    while (more := bits > 0x7F).any():
        low = bits.astype(np.uint8)
        found.bytes.append(np.where(more, low | np.uint8(0x80), low))
        found.used.append(more)
        np.add(found.sizes, more, out=found.sizes)
        bits = bits >> np.uint64(7)
    found.bytes.append(bits.astype(np.uint8))
    return found


def side_by_side(columns: Sequence[Column]) -> Bytes:
    """The bytes of all columns, row by row."""
    parts = [pair for column in columns for pair in zip(column.bytes, column.used, strict=True)]
    wide = np.empty((columns[0].sizes.size, len(parts)), np.uint8)
    used = np.empty(wide.shape, np.bool_)
    for place, (part, is_used) in enumerate(parts):
        wide[:, place] = part
        used[:, place] = is_used
    return wide[used]
