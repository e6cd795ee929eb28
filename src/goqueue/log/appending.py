"""The growing end of a log: batches are put into the last segment, and a new one is begun when that is full."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from goqueue.base.errors import DiskFull, OutOfResources, StorageFailed
from goqueue.base.ids import Epoch, Millis, Offset
from goqueue.format.batch import BatchHeader, Buffer, stamp, stamp_with_time
from goqueue.log.extent import LogExtent
from goqueue.log.home import NO_RESOURCES, NO_SPACE, SegmentHome, out_of_resources
from goqueue.log.journal_share import JournalMark
from goqueue.log.notes import LogNotes
from goqueue.log.segment import Segment

logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


class RollRule(msgspec.Struct, frozen=True):
    """When a segment is full."""

    segment_bytes: int
    segment_ms: int

    def fitting(self, segment: Segment, headers: Sequence[BatchHeader]) -> tuple[int, int]:
        """How many of these batches go into a segment that has room for the first, and their bytes."""
        first, size = headers[0], headers[0].size
        began = segment.first_timestamp if segment.length else first.max_timestamp
        for count, one in enumerate(islice(headers, 1, None), 1):
            full = segment.length + size + one.size > self.segment_bytes
            old = 0 <= began < one.max_timestamp - self.segment_ms
            far = one.next_offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX
            is_behind_gap = one.base_offset != headers[count - 1].next_offset
            if full or old or far or is_behind_gap or one.leader_epoch != first.leader_epoch:
                return count, size
            size += one.size
        return len(headers), size


class LogAppends(LogExtent):
    """What is appended is not yet safe: see `PartitionLog`."""

    mark: JournalMark

    def __init__(self, home: SegmentHome, roll: RollRule, notes: LogNotes, segments: Sequence[Segment]) -> None:
        super().__init__(home, notes, segments)
        self.roll_rule = roll
        self.wants_seal = any(segment.seal is None for segment in segments[:-1])
        self._dirty = False
        self._new_names = False  # file names not yet durable
        self._failure = ""
        self.bytes_written = 0  # since it was opened; as all counters, about right

    @property
    def failure(self) -> StorageFailed | None:
        """Why the log takes no more writes, if so. A new error each time: one that is raised again and again would keep
        the frames of everybody who met it, with all that they tried to write."""
        return StorageFailed(self._failure) if self._failure else None

    def append(
        self, batch: Buffer, header: BatchHeader, epoch: Epoch, now: Millis, append_time: bool = False
    ) -> Offset:
        """Writes one verified batch at the end and returns its base offset. Not yet safe: see `begin_sync`."""
        if self._failure:
            raise StorageFailed(self._failure)
        base_offset = self.end_offset
        if append_time or header.max_timestamp < 0:
            # Messages without a time get the broker's, or retention would find them infinitely old.
            buffers, header = stamp_with_time(batch, header, base_offset, epoch, now)
        else:
            buffers = stamp(batch, base_offset, epoch)
        segment = self._segment_for_append(header, now)
        try:
            segment.append(buffers, header, base_offset)
        except OSError as error:
            raise self._append_failed(error) from error
        self.end_offset = base_offset + header.last_offset_delta + 1
        self._dirty = True
        if epoch != self.notes.epoch:
            self.notes.begin_epoch(epoch, base_offset)
        stats = self.home.stats
        stats.batches_appended += 1
        stats.records_appended += header.record_count
        stats.bytes_appended += header.size
        self.bytes_written += header.size
        return base_offset

    def restore(self, batch: Buffer, header: BatchHeader) -> None:
        """Puts back a batch that the end of the log has lost."""
        reached = self.end_offset
        if header.base_offset > reached:
            self._note_gap(header)
        self.end_offset = header.base_offset
        self._begin_epoch_behind(reached, header)
        self.append(batch, header, header.leader_epoch, header.max_timestamp)

    def restore_run(self, data: memoryview, headers: Sequence[BatchHeader]) -> int:
        """Puts batches at the end that lie one behind the other in `data`, byte for byte: as many as belong into one
        segment and one epoch, by one write. How many these are."""
        if self._failure:
            raise StorageFailed(self._failure)
        first, reached = headers[0], self.end_offset
        if first.base_offset > reached:
            self._note_gap(first)
        self.end_offset = first.base_offset
        segment = self._segment_for_append(first, first.max_timestamp)
        count, size = self.roll_rule.fitting(segment, headers)
        try:
            segment.append_run(data[:size], headers[:count])
        except OSError as error:
            raise self._append_failed(error) from error
        self.end_offset = headers[count - 1].next_offset
        self._dirty = True
        self._begin_epoch_behind(reached, first)
        stats = self.home.stats
        stats.batches_appended += count
        stats.records_appended += sum([one.record_count for one in headers[:count]])
        stats.bytes_appended += size
        self.bytes_written += size
        return count

    def _begin_epoch_behind(self, reached: Offset, header: BatchHeader) -> None:
        """Where in a gap it began nobody knows any more: what others have there of an older one may not be the same."""
        if header.leader_epoch != self.notes.epoch:
            self.notes.begin_epoch(header.leader_epoch, min(reached, header.base_offset))

    def _note_gap(self, behind: BatchHeader) -> None:
        """Whoever had the log before has compacted it: offsets are missing on purpose."""
        self.notes.change(gaps_to=max(self.notes.meta.gaps_to, behind.next_offset))
        if not self.segments:
            self._add_segment()  # which begins where the log does
        self.segments[-1].may_skip = True
        self.segments[-1].next_offset = behind.base_offset

    def _segment_for_append(self, header: BatchHeader, now: Millis) -> Segment:
        if not self.segments:
            return self._add_segment()
        active = self.segments[-1]
        if active.next_offset != self.end_offset:
            return self._begin_elsewhere(active)
        if active.length == 0:
            return active
        rule = self.roll_rule
        full = active.length + header.size > rule.segment_bytes
        # Message times on both sides: old messages that come late do not roll at every batch.
        old = 0 <= active.first_timestamp < header.max_timestamp - rule.segment_ms
        far = self.end_offset + header.last_offset_delta - active.base_offset > RELATIVE_OFFSET_MAX
        return self.roll() if full or old or far else active

    def _begin_elsewhere(self, active: Segment) -> Segment:
        """It does not end where the next batch begins: all of it lies before the log's start, which a cut or a power
        cut left behind, or the batch is another node's and begins before this log does. Within one segment a later
        start would take that for damage."""
        if active.length:
            return self.roll()
        self.segments = self.segments[:-1]
        active.remove_files()
        return self._add_segment()

    def roll(self) -> Segment:
        """Begins a new active segment; the old one waits for its seal. An empty one is new enough."""
        if self.segments and not self.segments[-1].length:
            return self.segments[-1]
        self.home.stats.segments_rolled += 1
        self.wants_seal = True
        return self._add_segment()

    def _add_segment(self) -> Segment:
        try:
            self.notes.begin_files()
            segment = Segment.create(self.home, self.end_offset)
        except OSError as error:
            raise self._append_failed(error) from error
        self._new_names = True
        self.mark.forget()
        self.segments = (*self.segments, segment)
        return segment

    def _append_failed(self, why: OSError) -> DiskFull | OutOfResources | StorageFailed:
        self.home.stats.append_failures += 1
        if why.errno in NO_RESOURCES:
            return out_of_resources(why)
        if why.errno in NO_SPACE:
            return DiskFull("No space left on the disk; free some or add retention. Nothing was written.")
        return self._take_no_more(why)

    def fail(self, why: OSError) -> StorageFailed:
        """After a failed sync, or anything else that the disk refused: see `_take_no_more`."""
        self.home.stats.sync_failures += 1
        return self._take_no_more(why)

    def _take_no_more(self, why: OSError) -> StorageFailed:
        """After a failed write or sync nobody knows what is on disk: no more writes until recovery looks."""
        logger.critical("disk error, partition is read-only", extra={"log": self.home.directory, "error": str(why)})
        self._failure = f"The disk failed ({why}); this partition is read-only. Check the disk and restart the node."
        return StorageFailed(self._failure)
