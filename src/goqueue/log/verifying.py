"""Looks whether the bytes of a log are still those that were written, before anybody asks for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from crc32c import crc32c

from goqueue.base.ids import Offset
from goqueue.base.limits import MIB
from goqueue.format.batch import head, strides
from goqueue.log.epoch_history import epoch_of
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import Flaw, walk
from goqueue.log.segment import Segment


def verify_all(log: PartitionLog) -> bool:
    """What an earlier run wrote is checked; damage is fenced off. False if the last segment has some: roll it, and do
    this again. Blocks."""
    segments = log.segments
    for segment in segments[:-1]:
        segment.verify()
    return not segments or segments[-1].verified or is_sound(segments[-1], segments[-1].length)


def is_sound(segment: Segment, length: int) -> bool:
    """Of one that may still grow: what it holds up to a length."""
    found = walk(segment.file(), 0, length, segment.base_offset, segment.may_skip)
    return not any(isinstance(one, Flaw) for one in found)


def misplaced_in(log: PartitionLog, offset: Offset, batches: bytes) -> Segment | None:
    """The sealed segment that batches were read from, from an offset on, if one of them does not stand where it should
    by its offset and its epoch, which no CRC covers: who is sent it would store it as something else."""
    epochs, gaps_to, segments = log.notes.meta.epochs, log.notes.meta.gaps_to, log.segments
    segment = (
        segments[max(0, bisect_right(segments, offset, key=lambda one: one.base_offset) - 1)] if segments else None
    )
    if segment is None or segment.seal is None:
        return None
    read_to = 0
    for at, end, base_offset, last_offset in strides(batches):
        is_next = base_offset == offset or (at == 0 and base_offset < offset) or gaps_to > offset
        if not is_next or head(batches, at)[2] != epoch_of(epochs, base_offset):
            return segment
        offset, read_to = last_offset + 1, end
    return None if read_to == len(batches) else segment


def is_as_sealed(segment: Segment) -> bool:
    """What is wrong with it is noted. Blocks."""
    segment.doubt()
    segment.verify()
    return not segment.lost_regions()


def scrub(segment: Segment) -> Iterator[int]:
    """Compares a sealed segment with its seal, a piece at a time: yields what was read. If it does not fit, it is not
    taken for verified any more; if it does, what the disk once failed to read is no damage. Blocks."""
    seal, crc = segment.seal, 0
    if seal is None or seal.crc < 0:
        return
    file = segment.file()
    for at in range(0, seal.length, MIB):
        piece = file.read(at, min(MIB, seal.length - at))
        crc = crc32c(piece, crc)
        yield len(piece)
    if crc != seal.crc or file.size != seal.length:
        segment.doubt()
    elif not segment.damage:
        segment.differs = False
