"""Puts the right batches in the place of damaged ones: the segment is written anew, and takes its place by one rename.

What is sound is copied, what is damaged comes from somebody who has it whole. Until the rename the old file is as it
was; a crash on either side of it leaves a segment that recovery checks.
"""

from __future__ import annotations

from goqueue.base.errors import CorruptBatch, DamagedRange
from goqueue.base.ids import Offset, Position
from goqueue.format.batch import BatchHeader, Buffer, read_header, split, verify
from goqueue.log.compaction import Swap
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import DamagedRegion, Flaw, walk
from goqueue.log.segment import Segment


def damaged_segments(log: PartitionLog) -> list[Segment]:
    """Those with damage that somebody could still want to read."""
    return [segment for segment in log.segments if damage_of(segment, log.start_offset)]


def damage_of(segment: Segment, start: Offset) -> list[DamagedRegion]:
    return [region for region in segment.lost_regions() if region.next_offset > start]


def is_damaged(log: PartitionLog) -> bool:
    return any(damage_of(segment, log.start_offset) for segment in log.segments)


class Mending:
    """Of one sealed segment. For every region in order: `copy_until`, then `put` what belongs there; then `finish`. All
    of it blocks; `give_up` instead if it cannot be finished."""

    def __init__(self, segment: Segment) -> None:
        self._old = segment
        self._new = Segment.rewritten(segment.home, segment.base_offset)
        self._position: Position = 0
        self.has_gaps = False  # offsets are missing that were not missing before

    def copy_until(self, region: DamagedRegion) -> None:
        """What is sound before a damaged region."""
        self._copy(region.position)
        self._position = region.end

    def put(self, batches: bytes, region: DamagedRegion) -> Offset:
        """Batches that belong there; what reaches beyond is left out. Where the next one is to begin."""
        for batch in split(batches):
            header = read_header(batch)
            verify(batch, header)
            if header.next_offset > region.next_offset:
                return region.next_offset
            if header.next_offset > self._new.next_offset:
                self._append(batch, header)
        return self._new.next_offset

    def finish(self) -> Swap:
        self._copy(self._old.length)
        self.has_gaps |= self._new.next_offset < self._old.next_offset
        self._new.next_offset = self._old.next_offset
        return Swap([self._old], self._new, self._old.seal.tombstones_since if self._old.seal else None)

    def give_up(self) -> None:
        self._new.home.disk.remove(self._new.path(".log.compact"))

    def _copy(self, end: Position) -> None:
        if self._position >= end:
            return  # the file may be gone
        file = self._old.file()
        for found in walk(file, self._position, end, self._old.base_offset):
            if isinstance(found, Flaw):
                raise DamagedRange(f"More of the segment is damaged than was known: {found.reason}")
            self._append(file.read(found.position, found.header.size), found.header)
            self._position = found.end

    def _append(self, batch: Buffer, header: BatchHeader) -> None:
        if header.base_offset < self._new.base_offset and not self._old.length:
            # Its file is lost, and the log begins within a batch: that one begins before.
            self.give_up()
            self._new = Segment.rewritten(self._old.home, header.base_offset)
        if header.base_offset < self._new.next_offset:
            raise CorruptBatch(f"Offset {header.base_offset} is there already.")
        self.has_gaps |= header.base_offset > self._new.next_offset and not self._old.may_skip
        self._new.append([batch], header, header.base_offset)
