"""Looks whether the bytes of a log are still those that were written, before anybody asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from goqueue.base.limits import MIB
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


def scrub(segment: Segment) -> Iterator[int]:
    """Compares a sealed segment with its seal, a piece at a time: yields what was read. If it does not fit, it is not
    taken for verified any more. Blocks."""
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
