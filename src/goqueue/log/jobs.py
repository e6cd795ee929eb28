"""What a log has to wait for the device for, as jobs: they touch files only, run on any thread, and are handed back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.base.ids import Offset
from goqueue.log.checkpoint import SegmentCheckpoint
from goqueue.log.disk import Disk, File
from goqueue.log.home import NO_SPACE, unless_full
from goqueue.log.segment import Seal, Segment

if TYPE_CHECKING:
    from goqueue.log.partition_log import PartitionLog


class SyncJob(msgspec.Struct):
    """Makes everything up to `end_offset` safe; `run` on any thread."""

    log: PartitionLog
    parts: list[tuple[Segment, File | None, int]]  # what is not sealed, its handle if that is open, and its length
    new_names: bool
    checkpoint: SegmentCheckpoint
    cuts: int  # how often the log had been cut when it began
    sync_failed: bool = False
    files_synced: bool = False

    def run(self) -> None:
        """Where opening something fails nothing is lost; where a sync fails nobody knows (`sync_failed`)."""
        opened = [file or segment.file() for segment, file, _ in self.parts]
        self.sync_failed = True
        for file in opened:
            file.sync()
        self.sync_failed, self.files_synced = False, True
        with unless_full():
            self.log.notes.write_changed()
        if self.new_names:
            self.log.home.settled()
            sync_path(self.log.home.disk, self.log.home.directory)
        self.log.notes.write_checkpoint(self.checkpoint, self.cuts)

    @property
    def end_offset(self) -> Offset:
        return self.checkpoint.synced_offset


def checkpoint_of(active: Segment, sync: int, end_offset: Offset, topic_id: str) -> SegmentCheckpoint:
    """What a sync that begins now will have made safe."""
    return SegmentCheckpoint(
        sync,
        end_offset,
        active.base_offset,
        active.length,
        active.first_timestamp,
        active.max_timestamp,
        active.max_timestamp_offset,
        topic_id,
    )


def sync_path(disk: Disk, directory: str) -> None:
    """Syncs a directory and those above it, so that its own name is durable too."""
    parts = directory.split("/")
    for depth in range(len(parts), -1, -1):
        disk.sync_dir("/".join(parts[:depth]))


class SealJob(msgspec.Struct):
    """Seals one rolled segment; `run` on any thread."""

    log: PartitionLog
    segment: Segment
    cuts: int  # how often the log had been cut when it began
    seal: Seal | None = None
    sync_failed: bool = False  # if anything else fails it is a note

    def run(self) -> None:
        self.log.notes.write_changed()
        segment = self.segment
        if segment.verified and not segment.differs and not segment.is_in_order(segment.file()):
            segment.doubt()  # or the seal would say that it was written like this
        self.segment.verify()
        file = self.segment.file()
        try:
            file.sync()
        except OSError:
            self.sync_failed = True
            raise
        self.seal = self.segment.write_seal()


class MetaJob(msgspec.Struct):
    """Makes the log's own facts durable, then deletes segments that they made superfluous; `run` on any thread."""

    log: PartitionLog
    dropped: tuple[Segment, ...] = ()

    def run(self) -> None:
        """On a full disk the segments go first: that makes room for the note, and without them the log begins behind
        them in any case."""
        try:
            self.log.notes.write()
        except OSError as error:
            if error.errno not in NO_SPACE or not self.dropped:
                raise
            self._remove()
            self.log.notes.write()
        else:
            self._remove()

    def _remove(self) -> None:
        """Unless the log has begun anew meanwhile, and another segment has that name."""
        for segment in self.dropped:
            if all(one.base_offset != segment.base_offset for one in self.log.segments):
                segment.remove_files()
