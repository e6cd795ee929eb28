"""How much of a log's end the journal has: what a round takes from a log for its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.base.ids import Offset, Position
from goqueue.log.disk import File
from goqueue.log.jobs import SyncJob
from goqueue.log.journal_entries import JournalPart
from goqueue.log.segment import Segment

if TYPE_CHECKING:
    from goqueue.log.partition_log import PartitionLog

_UNKNOWN: Final = -1


class JournalShare(msgspec.Struct):
    """The end of one log, up to `end_offset`, for the journal. `read` on any thread: it was just written, so it is in
    memory."""

    log: PartitionLog
    segment: Segment
    file: File | None
    position: Position
    size: int
    end_offset: Offset
    cuts: int
    directory: str  # as it was when the room in the journal was counted

    def read(self) -> JournalPart:
        batches = (self.file or self.segment.file()).read(self.position, self.size)
        if len(batches) != self.size:
            raise OSError(f"{self.segment.path('.log')} is shorter than what was written")
        return JournalPart(self.directory, self.log.notes.meta.topic_id, self.cuts, batches)


class JournalMark:
    """Up to where the active segment is safe. Unknown while its name or the log's notes are not: the next sync has to
    be one of the log itself."""

    __slots__ = ("_log", "_position")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._position: Position = log.segments[-1].length if log.segments else _UNKNOWN

    def forget(self) -> None:
        """There is a new segment, or the log has to be synced itself for another reason."""
        self._position = _UNKNOWN

    def begin(self, bytes_max: int) -> JournalShare | None:
        """What the journal lacks; None if the log has to be synced itself."""
        log, position = self._log, self._position
        if position == _UNKNOWN or log.failure is not None or log.notes.is_changed:
            return None
        active = log.segments[-1]
        if not 0 < active.length - position <= bytes_max:
            return None
        size = active.length - position
        return JournalShare(
            log, active, active.held_file(), position, size, log.end_offset, log.notes.cuts, log.home.directory
        )

    def journaled(self, share: JournalShare) -> None:
        self._reached(share.segment, share.position + share.size)

    def synced(self, job: SyncJob) -> None:
        segment, _, length = job.parts[-1]
        self._reached(segment, length)

    def _reached(self, segment: Segment, length: int) -> None:
        if segment is self._log.segments[-1]:
            self._position = max(self._position, length)
