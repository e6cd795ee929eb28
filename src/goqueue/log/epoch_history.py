"""Which leader wrote what in a log: each epoch with its first offset, ascending in both.

The history is durable with the log's own facts, before a sync promises anything of the epoch. If it is lost it is made
anew from the batches, which carry their epoch. Functions, without a state of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from goqueue.base.ids import Epoch, Offset, Position
from goqueue.format.batch import HEADER_BYTES, read_header
from goqueue.log.scan import Sound, walk
from goqueue.log.segment import Segment

NO_EPOCH: Final = -1


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    """The first offset that was written in an epoch."""

    epoch: Epoch
    first_offset: Offset


Epochs: TypeAlias = tuple[EpochStart, ...]


# --- questions ------------------------------------------------------------------------------------------------


def epoch_of(epochs: Epochs, offset: Offset) -> Epoch:
    """The epoch in which the offset was written; that of the next one for an offset that nothing knows."""
    at = bisect_right(epochs, offset, key=_first_offset)
    return epochs[max(0, at - 1)].epoch if epochs else NO_EPOCH


def end_of_epoch(epochs: Epochs, epoch: Epoch, end_offset: Offset) -> tuple[Epoch, Offset]:
    """Where a log that ends at `end_offset` parts from one whose last epoch is `epoch`: the largest epoch here that is
    not larger, and where it ends. An epoch before all that are known ends where the first of them begins."""
    at = bisect_right(epochs, epoch, key=_epoch)
    known = epochs[at - 1].epoch if at else epoch
    return known, epochs[at].first_offset if at < len(epochs) else end_offset


# --- changes --------------------------------------------------------------------------------------------------


def begun(epochs: Epochs, epoch: Epoch, first_offset: Offset) -> Epochs:
    """With a newer epoch at the end; one that is not newer changes nothing."""
    if epochs and epoch <= epochs[-1].epoch:
        return epochs
    return (*epochs, EpochStart(epoch, first_offset))


def cut_tail(epochs: Epochs, end_offset: Offset) -> Epochs:
    return tuple(one for one in epochs if one.first_offset < end_offset)


def cut_head(epochs: Epochs, start_offset: Offset) -> Epochs:
    """The epoch that the start lies in begins there now."""
    at = bisect_right(epochs, start_offset, key=_first_offset)
    if at == 0:
        return epochs
    return (EpochStart(epochs[at - 1].epoch, start_offset), *epochs[at:])


def with_batches(epochs: Epochs, segments: Iterable[Segment], known_to: Offset = 0) -> Epochs:
    """With what the batches of some segments say, the oldest first; where the history is known already they are not
    asked, since no CRC covers their epochs. Blocks; runs off the loop."""
    for segment in segments:
        for start in _starts_in(segment):
            if start.first_offset >= known_to:
                epochs = begun(epochs, start.epoch, start.first_offset)
    return epochs


def _starts_in(segment: Segment) -> Iterator[EpochStart]:
    """Epochs never go back in a log, so between two batches of one epoch there is no other: few headers are read."""
    positions = segment.indexes().offsets.positions() if segment.length else []
    if positions:
        yield _start_at(segment, positions[0])
        yield from _between(segment, positions, 0, len(positions) - 1)
        yield from _walked(segment, positions[-1], segment.length)


def _between(segment: Segment, positions: list[Position], low: int, high: int) -> Iterator[EpochStart]:
    """Of the batches behind one indexed batch up to another."""
    last = _start_at(segment, positions[high])
    if low == high or _start_at(segment, positions[low]).epoch == last.epoch:
        return
    if high - low == 1:
        yield from _walked(segment, positions[low], positions[high])
        yield last
    else:
        middle = (low + high) // 2
        yield from _between(segment, positions, low, middle)
        yield from _between(segment, positions, middle, high)


def _start_at(segment: Segment, position: Position) -> EpochStart:
    header = read_header(segment.file().read(position, HEADER_BYTES))
    return EpochStart(header.leader_epoch, header.base_offset)


def _walked(segment: Segment, low: Position, high: Position) -> Iterator[EpochStart]:
    for found in walk(segment.file(), low, high, segment.base_offset):
        if isinstance(found, Sound):
            yield EpochStart(found.header.leader_epoch, found.header.base_offset)


def _first_offset(start: EpochStart) -> Offset:
    return start.first_offset


def _epoch(start: EpochStart) -> Epoch:
    return start.epoch
