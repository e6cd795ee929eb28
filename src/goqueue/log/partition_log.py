"""One partition's log: segments in order, appends at the end, reads anywhere.

It runs on the event loop. What has to wait for the device is handed out as a job (`begin_sync`, `begin_seal`) that
touches files only, runs on any thread, and is handed back (`finish_sync`, `finish_seal`). Reads may run on other
threads: the tuple of segments is replaced, never changed.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from goqueue.base.errors import DamagedRange, NotLoaded, OutOfResources
from goqueue.base.ids import Offset
from goqueue.base.limits import BATCH_BYTES_MAX, MIB
from goqueue.format.batch import strides
from goqueue.log.appending import LogAppends, RollRule
from goqueue.log.epoch_history import cut_head
from goqueue.log.home import NO_RESOURCES, UNREADABLE, SegmentHome, out_of_resources
from goqueue.log.jobs import MetaJob, SealJob, SyncJob, checkpoint_of, sync_path
from goqueue.log.journal_share import JournalMark, JournalShare
from goqueue.log.notes import LogNotes
from goqueue.log.reader import (
    BatchTooLarge,
    NeedsVerification,
    boundary,
    read_batches,
    read_of_earlier_run,
)
from goqueue.log.segment import Segment

logger = logging.getLogger(__name__)


class PartitionLog(LogAppends):
    """Made by `log.recovery.open_log`."""

    def __init__(
        self, home: SegmentHome, roll: RollRule, notes: LogNotes, segments: Sequence[Segment], syncs: int
    ) -> None:
        super().__init__(home, roll, notes, segments)
        self.synced_offset: Offset = self.end_offset
        self.mark = JournalMark(self)
        self._syncs_begun = syncs
        self.is_swapping = False  # a segment's file is being replaced on another thread
        self.bytes_read = 0  # since it was opened
        self.sync_refusal: OutOfResources | None = None  # of the last round, if that could not sync

    # --- what is there -----------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Something was appended that no sync covers yet."""
        return self._dirty

    # --- sync and seal -----------------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob | None:
        """A job that makes everything appended so far safe, or None if it is."""
        if not self._dirty or self._failure:
            return None
        parts = [(segment, segment.held_file(), segment.length) for segment in self.segments if segment.seal is None]
        self._syncs_begun += 1
        checkpoint = checkpoint_of(self.segments[-1], self._syncs_begun, self.end_offset, self.notes.meta.topic_id)
        job = SyncJob(self, parts, self._new_names, checkpoint, self.notes.cuts)
        self._dirty = self._new_names = False
        return job

    def finish_sync(self, job: SyncJob) -> None:
        self.sync_refusal = None
        if job.cuts == self.notes.cuts:
            self.synced_offset = max(self.synced_offset, job.end_offset)
            self._files_synced(job)
            self.mark.synced(job)

    def _files_synced(self, job: SyncJob) -> None:
        """Their handles may go."""
        for segment, _, length in job.parts:
            segment.synced(length)
        self.home.open_segments.trim()

    def finish_journal(self, share: JournalShare) -> None:
        """The journal has it: it is as safe as after a sync."""
        self.sync_refusal = None
        if share.cuts == self.notes.cuts:
            self.synced_offset = max(self.synced_offset, share.end_offset)
            self.mark.journaled(share)

    def refuse_sync(self, job: SyncJob, why: OSError) -> None:
        """The system was too busy for it, or files went meanwhile. Nothing is lost: the next round does it again."""
        self.sync_refusal = out_of_resources(why)
        self._dirty, self._new_names = bool(self.segments), self._new_names or job.new_names
        if job.files_synced and job.cuts == self.notes.cuts:
            self._files_synced(job)  # the next round may need the descriptors for what is missing

    def begin_seal(self) -> SealJob | None:
        """A job that seals the oldest rolled segment, or None if all are sealed."""
        for segment in self.segments[:-1]:
            if segment.seal is None:
                return SealJob(self, segment, self.notes.cuts)
        self.wants_seal = False
        return None

    def finish_seal(self, job: SealJob) -> None:
        """What was cut meanwhile may be written to again: its seal is void."""
        if job.cuts != self.notes.cuts:
            self._void_seal(job.segment)
            return
        job.segment.seal = job.seal
        self.home.open_segments.touch(job.segment)
        self.home.stats.segments_sealed += 1

    def needs_sync(self) -> None:
        """Asks for a sync although nothing was appended: what is safe has changed."""
        self._dirty = bool(self.segments)
        self.mark.forget()

    def _void_seal(self, segment: Segment) -> None:
        """Also of one that was dropped: another may have its name by now."""
        if all(one.seal is None for one in self.segments if one.base_offset == segment.base_offset):
            self.home.disk.remove(segment.path(".seal"))

    def close(self) -> None:
        """After a last sync: writes the active segment's indexes, so that the next start reads nothing."""
        if self.segments and not self._failure:
            self.segments[-1].write_indexes()

    def release(self, aside: str) -> None:
        """The log is being deleted: nobody holds its files open any more, or their space would not be free. Whoever
        still works on it finds them `aside`; where they were, the files of another topic may be by then."""
        self.home.directory = aside
        for segment in self.segments:
            self.home.open_segments.forget(segment)

    # --- read --------------------------------------------------------------------------------------------

    def read(
        self, offset: Offset, bytes_max: int, limit: Offset, wait: bool = False, first_max: int = BATCH_BYTES_MAX
    ) -> bytes:
        """Whole batches from `offset` on, below `limit`; the first may be larger than `bytes_max`, up to `first_max`.

        Raises `WouldBlock` if it had to wait and may not, `Suspect` if the active segment turns out damaged.
        """
        segments = self.segments
        limit = min(limit, self.end_offset)
        self.check_range(offset)
        if offset >= limit:
            return b""
        at = bisect_right(segments, offset, key=_base_offset) - 1
        for segment in islice(segments, max(0, at), None):
            if segment.base_offset >= limit:
                break
            try:
                begin = max(offset, segment.base_offset)
                if segment.verified or begin >= segment.trusted_from:
                    data = read_batches(segment, begin, bytes_max, limit, wait, first_max)
                else:
                    is_active = segment is self.segments[-1]
                    data = read_of_earlier_run(segment, begin, bytes_max, limit, wait, first_max, is_active)
            except BatchTooLarge:
                return b""
            except FileNotFoundError as error:
                if segment in self.segments:
                    self.note_unreadable(segment, error)
                    raise
                return self.read(offset, bytes_max, limit, wait, first_max)  # dropped or merged meanwhile
            except OSError as error:
                if error.errno in NO_RESOURCES:
                    raise out_of_resources(error) from error
                self.note_unreadable(segment, error)
                raise
            if data:
                self.home.stats.reads += 1
                self.home.stats.bytes_read += len(data)
                self.bytes_read += len(data)
                return data
        return b""

    def note_unreadable(self, segment: Segment, why: OSError) -> None:
        """All of it is to come from another replica: nobody knows how much of it the disk still gives back."""
        is_gone = isinstance(why, FileNotFoundError)  # somebody deleted it
        if (is_gone or why.errno in UNREADABLE) and not segment.differs:
            segment.differs = True
            self.home.stats.damaged_ranges += 1
            logger.error("a segment cannot be read", extra={"segment": segment.path(".log"), "error": str(why)})

    def batches(self, start: Offset) -> Iterator[memoryview]:
        """All whole batches from an offset on, damage left out. Waits for the device."""
        while start < self.end_offset:
            try:
                data = self.read(start, MIB, self.end_offset, wait=True)
            except DamagedRange as damage:
                start = cast(Offset, damage.detail["next_offset"])
                continue
            except NeedsVerification:
                self.roll()
                continue
            if not data:
                return
            view = memoryview(data)
            for at, end, _, last_offset in strides(data):
                yield view[at:end]
                start = last_offset + 1

    # --- shorten -----------------------------------------------------------------------------------------

    def begin_drop_head(self, start_offset: Offset) -> MetaJob:
        """Makes the log begin at an offset; the job deletes the segments that lie wholly before it."""
        start_offset = min(max(start_offset, self.start_offset), self.end_offset)
        at = bisect_right(self.segments, start_offset, key=_base_offset) - 1
        dropped, kept = self.segments[: max(0, at)], self.segments[max(0, at) :]
        self.notes.change(start_offset=start_offset, epochs=cut_head(self.notes.meta.epochs, start_offset))
        self.segments = kept
        return MetaJob(self, dropped)

    def note_deleted(self, to: Offset) -> None:
        """Somebody asked for everything before to go, at this node or another; made durable as the head is dropped."""
        self.notes.change(deleted_to=max(to, self.notes.meta.deleted_to))

    def begin_gaps(self) -> MetaJob:
        """Notes that offsets below the end may from now on be missing on purpose."""
        self.notes.change(gaps_to=self.end_offset)
        return MetaJob(self)

    def end_compaction(self, compacted_to: Offset) -> MetaJob:
        self.notes.change(compacted_to=compacted_to)
        return MetaJob(self)

    def swap(self, old: Sequence[Segment], new: Segment) -> None:
        """Puts a rewritten segment in the place of neighbours that it holds the survivors of."""
        at = self.segments.index(old[0])
        self.segments = (*self.segments[:at], new, *self.segments[at + len(old) :])

    def truncate(self, offset: Offset) -> None:
        """Drops every batch that reaches `offset` or lies beyond, durably, file and indexes alike."""
        self._check_files_stay()
        if offset >= self.end_offset:
            self.notes.take_back(self.end_offset)  # an epoch may be noted of which nothing is left
            return
        self.check_range(offset)
        at = bisect_right(self.segments, offset, key=_base_offset) - 1
        keep, later = self.segments[: at + 1], self.segments[at + 1 :]
        active = keep[-1]
        active.verify()
        disk = self.home.disk
        for segment in self.segments:
            if segment.seal is None:
                segment.file().sync()  # some of it may be in the journal alone, which is void from here on
        self.notes.begin_cut()
        for segment in reversed(later):
            segment.remove_files()
            disk.sync_dir(self.home.directory)
        active.unseal()
        position, end = boundary(active, offset)
        active.cut(position, end)
        active.file().sync()
        self._settle_names()
        self.segments = keep
        self.end_offset = self.synced_offset = max(end, self.start_offset)
        self.needs_sync()  # which notes the new end
        self.notes.take_back(self.end_offset)

    def begin_without_files(self) -> None:
        """Its directory was deleted: the log is empty, and takes writes again even if it had failed for that."""
        self._check_files_stay()
        self.notes.directory_lost()
        self._failure = ""
        self.begin_anew(0)

    def begin_anew(self, offset: Offset) -> None:
        """Drops everything; the log is empty and goes on at an offset behind its end, or before its start. A crash in
        between leaves a part of what was there, as a cut does. What was asked to go behind that offset is not what
        will be there."""
        self._check_files_stay()
        self.notes.begin_cut()
        for segment in reversed(self.segments):
            segment.remove_files()
        self._settle_names()
        self.segments = ()
        self.end_offset = self.synced_offset = offset
        self._dirty = False
        self.mark.forget()
        deleted_to = min(self.notes.meta.deleted_to, offset)
        self.notes.take_back(0)
        self.notes.change(start_offset=offset, deleted_to=deleted_to)
        self.notes.write()

    def _check_files_stay(self) -> None:
        """`NotLoaded` while a name may mean another file in a moment: it is tried again."""
        if self.is_swapping:
            raise NotLoaded("A segment of the log is being replaced; it can be cut in a moment.")

    def _settle_names(self) -> None:
        """Also the directory's own, which may be new: where the log ends from here on counts as safe."""
        self.home.settled()
        sync_path(self.home.disk, self.home.directory)


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset
