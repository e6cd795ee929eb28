"""Walks the batches of a segment file and checks every one. Used to recover, verify, rebuild indexes and dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset, Position
from goqueue.base.limits import KIB, MIB
from goqueue.format.batch import HEADER_BYTES, MAGIC, BatchHeader, head, is_whole, read_header, verify
from goqueue.log.disk import File

_WINDOW_BYTES: Final = 1 * MIB
_PIECE_BYTES: Final = 128 * KIB  # others run while it is read
_MAGIC_AT: Final = 16
_GAP_MAX: Final = 1 << 31  # no segment reaches so far


class Sound(msgspec.Struct, frozen=True, gc=False):
    """A whole batch with a right CRC, in order."""

    position: Position
    header: BatchHeader

    @property
    def end(self) -> Position:
        return self.position + self.header.size


class Flaw(msgspec.Struct, frozen=True):
    """The place where the walk had to stop, and why."""

    position: Position
    reason: str


class DamagedRegion(msgspec.Struct, frozen=True):
    """Bytes that are not what was written, and the offsets they held."""

    position: Position
    end: Position
    first_offset: Offset
    next_offset: Offset


def walk(
    file: File, start: Position, end: Position, next_offset: Offset, may_skip: bool = True
) -> Iterator[Sound | Flaw]:
    """Yields sound batches from `start`; a `Flaw`, if any, comes last. Offsets never go back; some may skip.

    No CRC covers a batch's base offset, so where nothing was compacted away a skip is a flaw too.
    """
    window = b""
    window_at = position = start
    while position < end:
        at = position - window_at
        if len(window) - at < HEADER_BYTES:
            window, window_at, at = file.read(position, min(_WINDOW_BYTES, end - position)), position, 0
        try:
            header = read_header(window, at)
            if position + header.size > end:
                raise CorruptBatch("The batch is cut short.")
            if len(window) - at < header.size:
                size = max(header.size, min(_WINDOW_BYTES, end - position))
                window, window_at, at = file.read(position, size), position, 0
            verify(window, header, at)
            gap = header.base_offset - next_offset
            if gap < 0 or gap >= _GAP_MAX or (gap and not may_skip):
                raise CorruptBatch(f"Offset {header.base_offset} follows offset {next_offset - 1}.")
        except CorruptBatch as error:
            yield Flaw(position, error.message)
            return
        yield Sound(position, header)
        position += header.size
        next_offset = header.next_offset


def sound_or_damaged(
    file: File,
    start: Position,
    end: Position,
    next_offset: Offset,
    may_skip: bool,
    offset_limit: Offset | None,
    is_promised: bool = False,
) -> Iterator[Sound | DamagedRegion]:
    """Walks a whole stretch, on behind damage.

    A region that nothing sound follows reaches to `offset_limit`; without one it is a torn tail, and its
    `next_offset` equals its `first_offset`. `is_promised`: no batch goes beyond that limit.
    """
    promised = offset_limit if is_promised else None
    position = start
    while position < end:
        for found in walk(file, position, end, next_offset, may_skip):
            if isinstance(found, Sound) and (promised is None or found.header.next_offset <= promised):
                yield found
                position, next_offset = found.end, found.header.next_offset
                continue
            at = found.position
            sound = behind(file, at, end, next_offset, offset_limit) or find_sound(
                file, at + 1, end, next_offset, offset_limit
            )
            if sound is None:
                limit = next_offset if offset_limit is None else offset_limit
                yield DamagedRegion(at, end, next_offset, limit)
                return
            yield DamagedRegion(at, sound.position, next_offset, sound.header.base_offset)
            position, next_offset = sound.position, sound.header.base_offset


def is_in_order(file: File, length: int, next_offset: Offset, may_skip: bool) -> bool:
    """Whether every batch is whole and stands where it should, also by what its CRC does not cover: offsets follow each
    other, and epochs never go back. The same as a walk, made lean: every segment is looked at as it is sealed."""
    position, epoch, window, window_at = 0, -1, b"", 0
    while position < length:
        at = position - window_at
        if len(window) - at < HEADER_BYTES:
            window, window_at, at = file.read(position, _PIECE_BYTES), position, 0
            if len(window) < HEADER_BYTES:
                return False
        base_offset, size, batch_epoch, crc, delta = head(window, at)
        if len(window) - at < size and window_at < position:
            window, window_at, at = file.read(position, max(size, _PIECE_BYTES)), position, 0
        elif len(window) - at < size:
            window = file.read(position, size)
        is_next = base_offset == next_offset or (may_skip and base_offset > next_offset)
        if not is_next or batch_epoch < epoch or not is_whole(window, at, size, crc):
            return False
        position, epoch, next_offset = position + size, batch_epoch, base_offset + delta + 1
    return position == length


def checksum(file: File, length: int) -> int:
    crc = 0
    for at in range(0, length, MIB):
        crc = crc32c(file.read(at, min(MIB, length - at)), crc)
    return crc


def find_sound(
    file: File, start: Position, end: Position, next_offset: Offset, offset_limit: Offset | None
) -> Sound | None:
    """The first sound batch at or after a position, found byte by byte: how a walk goes on behind damage."""
    position = start
    while end - position >= HEADER_BYTES:
        window = file.read(position, min(_WINDOW_BYTES, end - position))
        at = window.find(MAGIC, _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + HEADER_BYTES <= len(window):
            candidate = position + at - _MAGIC_AT
            if _plausible(window, at - _MAGIC_AT, next_offset, offset_limit):
                found = next(walk(file, candidate, end, next_offset))
                if isinstance(found, Sound):
                    return found
            at = window.find(MAGIC, at + 1)
        position += max(1, len(window) - HEADER_BYTES + 1)
    return None


def behind(
    file: File, position: Position, end: Position, next_offset: Offset, offset_limit: Offset | None
) -> Sound | None:
    """The batch behind a bad one, if the bad one's length still leads to it."""
    try:
        start = position + read_header(file.read(position, HEADER_BYTES)).size
    except CorruptBatch:
        return None
    head = file.read(start, HEADER_BYTES)
    if start >= end or not _plausible(head, 0, next_offset, offset_limit):
        return None
    found = next(walk(file, start, end, next_offset))
    return found if isinstance(found, Sound) else None


def _plausible(window: bytes, at: int, next_offset: Offset, offset_limit: Offset | None) -> bool:
    try:
        header = read_header(window, at)
    except CorruptBatch:
        return False
    in_range = offset_limit is None or header.next_offset <= offset_limit
    return next_offset <= header.base_offset and in_range and header.base_offset - next_offset < _GAP_MAX
