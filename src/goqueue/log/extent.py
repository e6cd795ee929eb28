"""What a log holds: its segments, where it begins and ends, its size, its times."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.base.errors import OffsetOutOfRange
from goqueue.base.ids import Millis, Offset
from goqueue.log.home import SegmentHome
from goqueue.log.notes import LogNotes
from goqueue.log.reader import first_at_time, latest_message, time_at
from goqueue.log.segment import Segment


class LogExtent:
    """The tuple of segments is replaced, never changed: other threads may read it."""

    def __init__(self, home: SegmentHome, notes: LogNotes, segments: Sequence[Segment]) -> None:
        self.home = home
        self.notes = notes
        self.segments: tuple[Segment, ...] = tuple(segments)
        # The start is durable at once, the records below it perhaps not.
        self.end_offset: Offset = max(segments[-1].next_offset if segments else 0, notes.meta.start_offset)
        self._was_synced_to: Offset = 0  # in earlier runs, as far as opening it could tell
        self._was_written_to: Offset = 0

    @property
    def start_offset(self) -> Offset:
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.notes.meta.start_offset)

    def once_held(self, synced: Offset, written: Offset = 0) -> None:
        """How far it went in earlier runs, on the disk and at all."""
        self._was_synced_to = max(self._was_synced_to, synced)
        self._was_written_to = max(self._was_written_to, written)

    def lacks_end(self, after_power_cut: bool) -> bool:
        """Its end was damaged or is gone, as opening it found. A power cut takes what was not synced."""
        return self.end_offset < self._reached(after_power_cut)

    def note_lost_end(self, after_power_cut: bool) -> None:
        """Before the end as it is now is noted as the whole: a later start is to know what this one found."""
        if self.lacks_end(after_power_cut):
            self.notes.change(held_to=self._reached(after_power_cut))

    def _reached(self, after_power_cut: bool) -> Offset:
        return max(self._was_synced_to, 0 if after_power_cut else self._was_written_to)

    @property
    def newest_ms(self) -> Millis:
        """The largest timestamp; -1 if the log is empty."""
        return max((segment.max_timestamp for segment in self.segments), default=-1)

    @property
    def size_bytes(self) -> int:
        return sum(segment.length for segment in self.segments)

    def bytes_from(self, offset: Offset) -> int:
        """How much lies behind an offset, to the next entry of the index. It may read that: not for every message."""
        return sum(_bytes_from(segment, offset) for segment in self.segments)

    def check_range(self, offset: Offset) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"Offset {offset} is not in the log; it holds {self.start_offset} to {self.end_offset}.",
                start_offset=self.start_offset,
                end_offset=self.end_offset,
            )

    def offset_at_time(self, timestamp: Millis) -> tuple[Offset, Millis] | None:
        """The first message at or after a time, as (offset, its time); None if there is none. May wait."""
        return first_at_time(self.segments, timestamp, self.start_offset)

    def latest_time(self) -> tuple[Offset, Millis] | None:
        """The message with the largest timestamp; None if the log is empty. May wait."""
        return latest_message(self.segments, self.start_offset)

    def time_at(self, offset: Offset) -> Millis | None:
        """When the message at an offset was published, or its batch; None if there is none. May wait."""
        return time_at(self.segments, offset)


def _bytes_from(segment: Segment, offset: Offset) -> int:
    if offset >= segment.next_offset:
        return 0
    if offset <= segment.base_offset:
        return segment.length
    return segment.length - segment.indexes().offsets.floor(offset - segment.base_offset)
