"""What is due: the entry without its payload, the batch that delivers it, and the message as it enters its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from goqueue.base.commands import Headers
from goqueue.base.delays import DELAY_HEADERS, EXPIRES_HEADER, SCHEDULED_HEADER, expires_at
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.core.schedule.records import EntryEnded, Firing, NextDue, ScheduleEntry, State
from goqueue.core.schedule.repeat import next_due
from goqueue.format.batch import HEADER_BYTES
from goqueue.format.records import NewRecord

_ADDED_BYTES: Final = 100  # what a delivery adds to a message's headers at most

Place: TypeAlias = tuple[str, int]  # topic id and partition
DueKey: TypeAlias = tuple[Millis, Offset]  # entries of one schedule in the order of their times
BEFORE_ALL: Final[DueKey] = (-1, -1)


class Due(msgspec.Struct, gc=False):
    """A pending entry without its payload; `count` is how often a repeating one fired."""

    offset: Offset
    due_ms: Millis
    topic_id: str
    partition: int
    count: int = 0
    is_ahead: bool = False  # its timer calls for the payload, not yet for the message

    @property
    def place(self) -> Place:
        return self.topic_id, self.partition

    @property
    def key(self) -> DueKey:
        return self.due_ms, self.offset

    def ended(self, state: State, now: Millis) -> EntryEnded:
        return EntryEnded(self.offset, self.topic_id, self.partition, self.due_ms, state, now)

    def differs_from(self, entry: ScheduleEntry) -> bool:
        """Whether the index said of the entry what its log does not."""
        is_moved = self.due_ms != entry.due_ms and entry.repeat is None
        return is_moved or self.place != (entry.topic_id, entry.partition)


Member: TypeAlias = tuple[Due, ScheduleEntry]


class Target(msgspec.Struct, frozen=True):
    """The log that messages are to enter, as it is now."""

    end_offset: Offset
    batch_bytes_max: int
    is_writable: bool


class DueBatch(msgspec.Struct):
    """Messages that enter one log together. The effect that delivers them, and what is known of it until it is done."""

    topic_id: str
    partition: int
    target_end: Offset  # where the target's log ended when it was decided
    members: list[Member]  # empty once they are delivered
    size: int = HEADER_BYTES
    offset: Offset = -1  # of its firing in the schedule log
    ends: list[Due] = []  # entries that are done with it
    end_offset: Offset = -1  # behind it in the target's log, once it is there

    @property
    def first(self) -> tuple[Offset, int]:
        """Entry and count of its first message: no other batch has them."""
        return self.members[0][0].offset, self.members[0][0].count

    def firing(self) -> Firing:
        entries = [(due.offset, due.count) for due, _ in self.members]
        return Firing(self.topic_id, self.partition, self.target_end, entries, has_producer_id=True)

    def repeats(self, now: Millis) -> list[NextDue]:
        """The next times of its repeating entries; the others end with it."""
        moves: list[NextDue] = []
        for due, entry in self.members:
            again = None
            if entry.repeat is not None:
                again = next_due(entry.repeat, due.due_ms, due.count + 1, now)
            if again is None:
                self.ends.append(due)
            else:
                moves.append(NextDue(due.offset, due.topic_id, due.partition, again, due.count + 1))
        return moves


class Sorted(msgspec.Struct):
    """What becomes of due entries."""

    batches: list[DueBatch] = []
    ended: list[EntryEnded] = []
    expired: list[Member] = []
    later: list[Due] = []


def sort_due(members: Iterable[Member], targets: Mapping[Place, Target | None], now: Millis) -> Sorted:
    """Batches to deliver, entries that end without being delivered, entries whose log takes no writes now."""
    result = Sorted()
    filling: dict[Place, DueBatch] = {}
    for due, entry in members:
        target = targets[due.place]
        if target is None:
            result.ended.append(due.ended("cancelled", now))
        elif entry.repeat is None and _is_expired(due, entry, now):
            result.ended.append(due.ended("expired", now))
            result.expired.append((due, entry))
        elif not target.is_writable:
            result.later.append(due)
        else:
            size = entry.size + _ADDED_BYTES
            batch = filling.get(due.place)
            if batch is None or batch.size + size > min(BUILD_BATCH_BYTES, target.batch_bytes_max):
                batch = filling[due.place] = DueBatch(*due.place, target.end_offset, [])
                result.batches.append(batch)
            batch.members.append((due, entry))
            batch.size += size
    return result


def _is_expired(due: Due, entry: ScheduleEntry, now: Millis) -> bool:
    expires = due.due_ms + entry.ttl_ms if entry.ttl_ms is not None else expires_at(entry.headers)
    return expires is not None and expires <= now


def scheduled_mark(schedule: int, offset: Offset, count: int) -> bytes:
    """What a delivered message says about where it comes from: which schedule, its entry, and which time it is."""
    return b"%d:%d:%d" % (schedule, offset, count) if count else b"%d:%d" % (schedule, offset)


def delivered_record(schedule: int, due: Due, entry: ScheduleEntry, now: Millis) -> NewRecord:
    """The message as it enters its log."""
    pairs = [pair for pair in entry.headers if pair[0] not in DELAY_HEADERS and pair[0] != SCHEDULED_HEADER]
    if entry.ttl_ms is not None:
        pairs = [pair for pair in pairs if pair[0] != EXPIRES_HEADER]
        pairs.append((EXPIRES_HEADER, b"%d" % (due.due_ms + entry.ttl_ms)))
    pairs.append((SCHEDULED_HEADER, scheduled_mark(schedule, due.offset, due.count)))
    headers: Headers = tuple(pairs)
    return NewRecord(entry.key, entry.value, headers, now if entry.timestamp_ms is None else entry.timestamp_ms)
