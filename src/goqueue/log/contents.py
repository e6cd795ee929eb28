"""What a walk over the batches of a segment finds out: how far they reach, their times, their indexes, and damage."""

from __future__ import annotations

from goqueue.base.ids import Millis, Offset, Position
from goqueue.format.batch import BatchHeader
from goqueue.log.disk import File
from goqueue.log.index import SegmentIndexes
from goqueue.log.scan import DamagedRegion, is_in_order, sound_or_damaged


class SegmentContents:
    """Grows batch by batch. Used alone to look at a file anew beside what is known of it."""

    __slots__ = (
        "_indexed_to",
        "_indexes",
        "_interval",
        "base_offset",
        "damage",
        "differs",
        "first_timestamp",
        "length",
        "max_timestamp",
        "max_timestamp_offset",
        "may_skip",
        "next_offset",
    )

    def __init__(self, base_offset: Offset, index_interval_bytes: int, may_skip: bool = False) -> None:
        self.base_offset = base_offset
        self.may_skip = may_skip  # compaction may have left offsets without a record
        self._interval = index_interval_bytes
        self.damage: tuple[DamagedRegion, ...] = ()
        self.differs = False  # its bytes are not those that were written, and every batch is whole
        self._begin()

    def _begin(self) -> None:
        """With nothing."""
        self._indexes: SegmentIndexes | None = SegmentIndexes()
        self._indexed_to = -self._interval
        self.length, self.next_offset = 0, self.base_offset
        self.first_timestamp: Millis = -1
        self.max_timestamp: Millis = -1
        self.max_timestamp_offset: Offset = -1

    def indexes(self) -> SegmentIndexes:
        assert self._indexes is not None
        return self._indexes

    def note_batch(self, position: Position, header: BatchHeader, base_offset: Offset) -> None:
        """Takes a batch that stands at `position` into length, offsets, times and indexes."""
        max_timestamp = header.max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = base_offset
        if position - self._indexed_to >= self._interval:
            indexes = self.indexes()
            indexes.offsets.add(base_offset - self.base_offset, position)
            indexes.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._indexed_to = position
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        self.length = position + header.size
        self.next_offset = base_offset + header.last_offset_delta + 1

    def check(
        self, file: File, start: Position, end: Position, offset_limit: Offset | None, is_promised: bool = False
    ) -> list[DamagedRegion]:
        """Walks and indexes the batches of a stretch; returns what could not be read (see `sound_or_damaged`)."""
        regions: list[DamagedRegion] = []
        for found in sound_or_damaged(file, start, end, self.next_offset, self.may_skip, offset_limit, is_promised):
            if isinstance(found, DamagedRegion):
                regions.append(found)
                # The next batch must be found without walking over the damage.
                self._indexed_to = -self._interval
            else:
                self.note_batch(found.position, found.header, found.header.base_offset)
        return regions

    def take_times(self, fresh: SegmentContents, is_whole: bool) -> None:
        """Of another walk. What is damaged is as young as it was: retention must leave it to be mended."""
        if is_whole or fresh.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = fresh.max_timestamp, fresh.max_timestamp_offset

    def is_in_order(self, file: File) -> bool:
        """Whether its batches are whole and stand where they should. Blocks."""
        return is_in_order(file, self.length, self.base_offset, self.may_skip)

    @property
    def may_be_misplaced(self) -> bool:
        """Where offsets may be missing, one that is wrong looks like a gap, and what follows it like damage."""
        return self.may_skip and any(region.end > region.position for region in self.damage)

    def lost_regions(self) -> tuple[DamagedRegion, ...]:
        """What is to come from somebody else: of a segment that differs all of it, since nothing says which batch."""
        whole = DamagedRegion(0, self.length, self.base_offset, self.next_offset)
        return (whole,) if self.differs else self.damage
