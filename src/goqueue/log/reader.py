"""Reads whole batches out of one segment with one `pread`, found through the sparse index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from goqueue.base.errors import DamagedRange
from goqueue.base.ids import Millis, Offset, Position
from goqueue.base.limits import BATCH_BYTES_MAX
from goqueue.format.batch import HEADER_BYTES, BatchHeader, read_header, strides
from goqueue.format.slices import readable, slices
from goqueue.log.disk import File
from goqueue.log.scan import Flaw, walk
from goqueue.log.segment import Segment


class WouldBlock(Exception):
    """The read has to wait for the device: do it again off the loop, with `wait=True`."""


class BatchTooLarge(Exception):
    """The first batch alone is larger than this read may be."""


class NeedsVerification(Exception):
    """The active segment holds a damaged batch: roll it, so that it can be verified whole, and read again."""


def read_batches(
    segment: Segment, offset: Offset, bytes_max: int, limit: Offset, wait: bool, first_max: int = BATCH_BYTES_MAX
) -> bytes:
    """Batches from the one that holds `offset` on, below `limit`, at most `bytes_max` but at least one.

    The first batch may begin below `offset`; `BatchTooLarge` if it is larger than `bytes_max` and `first_max`.
    Nothing is there if no batch of this segment lies in the range.
    """
    # The length first: an append beside this read must not show a batch that is not below its own offset.
    length = segment.length
    sound_offset, sound_end = _sound_until(segment, offset) if segment.damage else (segment.next_offset, length)
    file, index = segment.file(), segment.indexes().offsets
    # What was written in this run lies in memory.
    wait = wait or segment.seal is None
    low, end, exact = index.span(offset - segment.base_offset, bytes_max)
    if limit < sound_offset:
        end = min(end, index.floor(limit - segment.base_offset))
    elif sound_end - low <= bytes_max:
        end = sound_end
    if end > low:
        # The index alone says what to read: no byte is read or copied in vain.
        data = _read(file, low, end - low, wait)
        skip = 0 if exact else _first_holding(data, offset)
        if skip is not None:
            return data[skip:] if skip else data
    return _read_between_entries(segment, offset, bytes_max, min(limit, sound_offset), sound_end, wait, first_max)


def _read_between_entries(
    segment: Segment, offset: Offset, bytes_max: int, limit: Offset, sound_end: Position, wait: bool, first_max: int
) -> bytes:
    """The stretch that the index is too coarse for: reads on from the entry before and walks."""
    file, low = segment.file(), segment.indexes().offsets.floor(offset - segment.base_offset)
    wanted = min(bytes_max + segment.home.index_interval_bytes + HEADER_BYTES, sound_end - low)
    data = _read(file, low, wanted, wait)
    skip = _first_holding(data, offset)
    if skip is None:
        return _read_one(file, low, sound_end, offset, limit, wait, max(first_max, bytes_max))
    end = _last_boundary(data, skip, skip + bytes_max, limit)
    if end <= skip:
        return _read_one(file, low + skip, sound_end, offset, limit, wait, max(first_max, bytes_max))
    return data[skip:end]


def read_of_earlier_run(
    segment: Segment, offset: Offset, bytes_max: int, limit: Offset, wait: bool, first_max: int, is_active: bool
) -> bytes:
    """The same from a segment that an earlier run wrote and nobody has checked yet: it is checked first, whole if
    nobody appends to it."""
    if not wait:
        raise WouldBlock
    if is_active:
        return read_unverified(segment, offset, bytes_max, limit, first_max)
    segment.verify()
    return read_batches(segment, offset, bytes_max, limit, wait, first_max)


def read_unverified(
    segment: Segment, offset: Offset, bytes_max: int, limit: Offset, first_max: int = BATCH_BYTES_MAX
) -> bytes:
    """The same from an active segment of an earlier run: every batch from the index entry before on is checked."""
    relative, position = segment.indexes().offsets.entry(offset - segment.base_offset)
    next_offset = segment.base_offset + relative
    start = end = -1
    for found in walk(segment.file(), position, segment.length, next_offset, segment.may_skip):
        if isinstance(found, Flaw):
            if start < 0:
                raise NeedsVerification
            break
        if found.header.last_offset >= limit or (start >= 0 and found.end - start > bytes_max):
            break
        if found.header.last_offset >= offset:
            if start < 0 and found.header.size > max(first_max, bytes_max):
                raise BatchTooLarge
            start, end = (found.position if start < 0 else start), found.end
    return segment.file().read(start, end - start) if start >= 0 else b""


def first_at_time(segments: Sequence[Segment], timestamp: Millis, start_offset: Offset) -> tuple[Offset, Millis] | None:
    """The first message of a log at or after a time, as (offset, its time). May wait."""
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            segment.verify() if segment is not segments[-1] else None
            found = find_time(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def latest_message(segments: Sequence[Segment], start_offset: Offset) -> tuple[Offset, Millis] | None:
    """The message of a log with the largest timestamp, in the same form. May wait."""
    newest = max(segments, key=lambda segment: segment.max_timestamp, default=None)
    if newest is None or not newest.length:
        return None
    best = first_at_time(segments, newest.max_timestamp, start_offset)
    if best is None:  # the message that held it was dropped or compacted away
        for segment in segments:
            best = find_latest(segment, start_offset, best[1] if best else -1) or best
    return best


def find_time(segment: Segment, timestamp: Millis, start_offset: Offset) -> tuple[Offset, Millis] | None:
    """The segment's first message at or after a time, not before `start_offset`."""
    position = segment.indexes().offsets.floor(segment.indexes().times.floor(timestamp))
    for header, batch in _sound_batches(segment, position):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in readable(slices(batch(), header)):
                if record.timestamp_ms >= timestamp and record.offset >= start_offset:
                    return record.offset, record.timestamp_ms
    return None


def find_latest(segment: Segment, start_offset: Offset, above: Millis) -> tuple[Offset, Millis] | None:
    """The segment's first message with its largest time, if that is above a time."""
    best: tuple[Offset, Millis] | None = None
    for header, batch in _sound_batches(segment, 0):
        if header.max_timestamp > above and header.last_offset >= start_offset:
            for record in readable(slices(batch(), header)):
                if record.timestamp_ms > above and record.offset >= start_offset:
                    best, above = (record.offset, record.timestamp_ms), record.timestamp_ms
    return best


def time_at(segments: Sequence[Segment], offset: Offset) -> Millis | None:
    """The newest time in the batch that holds an offset, or in the first one behind it; None if there is none.

    May wait. Nothing is verified for it: who asks wants a number to show, not a message.
    """
    first = max(0, bisect_right(segments, offset, key=lambda one: one.base_offset) - 1)
    return next((found for one in segments[first:] if (found := _time_in(one, offset)) is not None), None)


def _time_in(segment: Segment, offset: Offset) -> Millis | None:
    file, position = segment.file(), segment.indexes().offsets.floor(max(0, offset - segment.base_offset))
    while segment.length - position >= HEADER_BYTES:
        header = read_header(file.read(position, HEADER_BYTES))
        if header.last_offset >= offset:
            return header.max_timestamp
        position += header.size
    return None


def _sound_batches(segment: Segment, position: Position) -> Iterator[tuple[BatchHeader, Callable[[], bytes]]]:
    """Walks on behind damage."""
    file = segment.file()
    for start in (position, *(region.end for region in segment.damage if region.end > position)):
        for found in walk(file, start, segment.length, segment.base_offset):
            if isinstance(found, Flaw):
                break
            yield found.header, partial(file.read, found.position, found.header.size)
        else:
            return


def boundary(segment: Segment, offset: Offset) -> tuple[Position, Offset]:
    """Where the first batch begins that reaches the offset, and the end of the log if it were cut there."""
    relative, position = segment.indexes().offsets.entry(offset - segment.base_offset)
    end = segment.base_offset + relative
    for found in walk(segment.file(), position, segment.length, segment.base_offset):
        if isinstance(found, Flaw):
            return position, min(offset, end)
        if found.header.last_offset >= offset:
            return found.position, min(offset, found.header.base_offset)
        position, end = found.end, found.header.next_offset
    return position, offset


def _sound_until(segment: Segment, offset: Offset) -> tuple[Offset, Position]:
    """Where the sound stretch around an offset ends; `DamagedRange` if the offset is in a damaged one."""
    for region in segment.damage:
        if region.first_offset <= offset < region.next_offset:
            raise DamagedRange(
                f"Offsets {region.first_offset} to {region.next_offset - 1} are damaged on disk and were "
                f"quarantined; read on from offset {region.next_offset}.",
                first_offset=region.first_offset,
                last_offset=region.next_offset - 1,
                next_offset=region.next_offset,
            )
        if region.first_offset > offset:
            return region.first_offset, region.position
    return segment.next_offset, segment.length


def _read(file: File, position: Position, size: int, wait: bool) -> bytes:
    if wait:
        return file.read(position, size)
    data = file.read_cached(position, size)
    if data is None:
        raise WouldBlock
    return data


def _first_holding(data: bytes, offset: Offset) -> Position | None:
    """Where the first whole batch begins that reaches the offset."""
    for at, _, _, last_offset in strides(data):
        if last_offset >= offset:
            return at
    return None


def _last_boundary(data: bytes, start: Position, end_max: Position, limit: Offset) -> Position:
    """The end of the last batch that stays within a length and below an offset, walking from a boundary."""
    boundary = start
    for _, end, _, last_offset in strides(data, start):
        if end > end_max or last_offset >= limit:
            break
        boundary = end
    return boundary


def _read_one(
    file: File, position: Position, end: Position, offset: Offset, limit: Offset, wait: bool, size_max: int
) -> bytes:
    """The single batch that holds the offset; empty if it is not below the limit."""
    while end - position >= HEADER_BYTES:
        header = read_header(_read(file, position, HEADER_BYTES, wait))
        if header.last_offset >= limit:
            return b""
        if header.last_offset >= offset:
            if header.size > size_max:
                raise BatchTooLarge
            return _read(file, position, header.size, wait)
        position += header.size
    return b""
