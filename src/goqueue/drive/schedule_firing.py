"""Firing: due entries enter their partitions' logs, each exactly once.

First a firing is noted in the schedule log: which entries, and where the target log ends. Then the messages are
appended as one batch, each with a header that names its entry. When they are as safe as the node makes things, the
entries get their tombstones. A start looks into the target log behind every firing without an end, and appends what is
missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.commands import Headers
from goqueue.base.delays import DELAY_HEADERS, EXPIRES_HEADER, SCHEDULED_HEADER, expires_at
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.base.settings import Fsync
from goqueue.core.schedule.records import (
    Encoded,
    EntryEnded,
    Fired,
    Firing,
    NextDue,
    ScheduleEntry,
    ScheduleRecord,
    next_tombstone,
)
from goqueue.core.schedule.repeat import next_due
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_index import Due
from goqueue.drive.schedule_log import ScheduleLog
from goqueue.drive.schedule_pending import Pending
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.format.batch import HEADER_BYTES
from goqueue.format.records import NewRecord

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
_SETTLE_S: Final = 1.0
_TOMBSTONES: Final = 200  # a batch
_ADDED_BYTES: Final = 100  # what a firing adds to a message's headers at most

Deliver = Callable[[Topic, Partition, list[NewRecord]], None]
Member = tuple[Due, ScheduleEntry]


class DueBatch(msgspec.Struct):
    """One batch on its way into one log."""

    topic: Topic
    partition: Partition
    members: list[Member]
    size: int = HEADER_BYTES
    offset: Offset = -1  # of its firing in the schedule log
    ends: list[Due] = []  # entries that are done with it
    end_offset: Offset = -1  # of the target log, once it is in


class ScheduleCounts(msgspec.Struct):
    """What became of entries since the node started."""

    scheduled: int = 0
    delivered: int = 0
    cancelled: int = 0
    expired: int = 0


class Firings:
    """Driven by the schedule's runner."""

    def __init__(self, pending: Pending, table: TopicTable, deliver: Deliver, clock: Clock, fsync: Fsync) -> None:
        self._pending = pending
        self._table = table
        self._deliver = deliver
        self._clock = clock
        self._waits_for_sync = fsync == "always"
        self._syncs = fsync != "never"
        self._log: ScheduleLog | None = None
        self._stuck: list[DueBatch] = []
        self._unsettled: list[DueBatch] = []
        self._wake = asyncio.Event()
        self.under_way: dict[Offset, Due] = {}  # fired, not yet ended
        self.is_blocked: Callable[[], bool] = lambda: False  # the disk takes no writes now
        self.on_delivered: Callable[[Sequence[Millis]], None] = lambda late_ms: None
        self.on_sent: Callable[[Sequence[Member], Offset], None] | None = None  # with where their batch ends
        self.on_expired: Callable[[Sequence[Member]], None] | None = None
        self.tally = ScheduleCounts()

    def begin(self, log: ScheduleLog) -> None:
        self._log = log

    @property
    def log(self) -> ScheduleLog:
        assert self._log is not None, "begin first"
        return self._log

    # --- fire ----------------------------------------------------------------------------------------------

    async def fire(self, members: Sequence[Member]) -> None:
        """Sends due entries on their way. What cannot go now is tried again in a second; nothing is lost."""
        now = self._clock.now_ms()
        shots, ended, later = self._sort(members, now)
        records: list[ScheduleRecord] = [_firing(shot) for shot in shots]
        for shot in shots:
            records += self._moves(shot, now)
        dropped: list[Encoded] = [next_tombstone(one.offset) for one in ended]
        try:
            offsets = self.log.append([*records, *ended], dropped) if records or ended else range(0)
        except GoQueueError as error:
            logger.error("due messages wait: the schedule cannot be written", extra={"error": error.message})
            self.put_back([due for due, _ in members], now)
            return
        self.put_back(later, now)
        for offset, shot in zip(offsets, shots, strict=False):
            shot.offset = offset
        self._took_effect(list(zip(offsets, [*records, *ended], strict=True)), shots)
        if self.on_expired is not None and ended:
            gone = {one.offset for one in ended if one.state == "expired"}
            self.on_expired([member for member in members if member[0].offset in gone])
        if shots:
            await self._deliver_due(shots)

    def put_back(self, dues: Sequence[Due], now: Millis) -> None:
        for due in dues:
            if due.offset in self._pending.near:
                self._pending.wheel.add(due.offset, now + RETRY_MS)

    def _sort(self, members: Sequence[Member], now: Millis) -> tuple[list[DueBatch], list[EntryEnded], list[Due]]:
        """Batches to send, entries that end without being sent, entries that have to wait."""
        open_: dict[tuple[str, int], DueBatch] = {}
        shots: list[DueBatch] = []
        ended: list[EntryEnded] = []
        later: list[Due] = []
        for due, entry in members:
            topic = self._table.get(self._table.name_of(due.topic_id) or "")
            if topic is None or due.partition >= len(topic.partitions):
                ended.append(_ended(due, "cancelled", now))
                continue
            if (expires := _expires(due, entry)) is not None and expires <= now and entry.repeat is None:
                ended.append(_ended(due, "expired", now))
                continue
            partition = topic.partitions[due.partition]
            if partition.log.failure is not None or self.is_blocked():
                later.append(due)
                continue
            size = entry.size + _ADDED_BYTES
            shot = open_.get((due.topic_id, due.partition))
            if shot is None or shot.size + size > min(BUILD_BATCH_BYTES, topic.config.max_message_bytes):
                shot = open_[due.topic_id, due.partition] = DueBatch(topic, partition, [])
                shots.append(shot)
            shot.members.append((due, entry))
            shot.size += size
        return shots, ended, later

    def _moves(self, shot: DueBatch, now: Millis) -> list[NextDue]:
        """The next times of repeating entries; the others are done with this shot."""
        moves: list[NextDue] = []
        shot.ends = []
        for due, entry in shot.members:
            again = None
            if entry.repeat is not None:
                again = next_due(entry.repeat, due.due_ms, due.count + 1, now)
            if again is None:
                shot.ends.append(due)
            else:
                moves.append(NextDue(due.offset, due.topic_id, due.partition, again, due.count + 1))
        return moves

    def _took_effect(self, noted: Sequence[tuple[Offset, ScheduleRecord]], shots: Sequence[DueBatch]) -> None:
        """What the log now says, in memory."""
        pending = self._pending
        for shot in shots:
            for due, _ in shot.members:
                pending.leave(due.offset)
            pending.counted(shot.topic.record.id, -len(shot.members))
            self.under_way.update((due.offset, due) for due in shot.ends)
        for offset, record in noted:
            pending.note(offset, record)
            if isinstance(record, EntryEnded):
                self.ended(record)
            elif isinstance(record, NextDue):
                pending.counted(record.topic_id, 1)
                pending.place(Due(record.offset, record.due_ms, record.topic_id, record.partition, record.count))

    def ended(self, record: EntryEnded) -> None:
        """An entry that was pending is done."""
        self._pending.leave(record.offset)
        self._pending.counted(record.topic_id, -1)
        if record.state == "expired":
            self.tally.expired += 1
        elif record.state == "cancelled":
            self.tally.cancelled += 1

    async def _deliver_due(self, shots: list[DueBatch]) -> None:
        """The firings must be as safe as the node promises before a message can be seen."""
        if not self.log.partition.is_durable:
            try:
                await self.log.partition.wait_durable()
            except GoQueueError:
                self._stuck += shots
                return
        for shot in shots:
            self.send(shot)

    def send(self, shot: DueBatch) -> None:
        """Appends the batch; if that is refused it is tried again."""
        now = self._clock.now_ms()
        records = [delivered_record(due, entry, now) for due, entry in shot.members]
        try:
            self._deliver(shot.topic, shot.partition, records)
        except GoQueueError as error:
            if not shot.partition.is_closed:
                logger.error("due messages wait", extra={"partition": str(shot.partition.at), "error": error.message})
                self._stuck.append(shot)
                return
            records = []  # the topic is gone, and they with it
        self.tally.delivered += len(records)
        self.on_delivered([max(0, now - due.due_ms) for due, _ in shot.members])
        if self.on_sent is not None and records:
            self.on_sent(shot.members, shot.partition.log.end_offset)
        shot.members = []
        shot.end_offset = shot.partition.log.end_offset
        self.await_safety(shot)

    def retry_stuck(self) -> None:
        stuck, self._stuck = self._stuck, []
        for shot in stuck:
            self.send(shot)

    @property
    def has_stuck(self) -> bool:
        return bool(self._stuck)

    # --- settle --------------------------------------------------------------------------------------------

    def await_safety(self, shot: DueBatch) -> None:
        """Its entries end when the target log is safe up to it."""
        self._unsettled.append(shot)
        if self._waits_for_sync or len(self._unsettled) == 1:
            self._wake.set()

    async def wait_durable_for_ever(self) -> None:
        """Ends entries whose messages are safe. One round a second is enough, unless readers wait for the sync."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._waits_for_sync:
                await asyncio.sleep(_SETTLE_S)
            await self.wait_durable()
            if self._unsettled and not self._wake.is_set():
                await asyncio.sleep(_SETTLE_S)
                self._wake.set()

    async def wait_durable(self) -> None:
        for partition in {id(shot.partition): shot.partition for shot in self._unsettled}.values():
            try:
                await partition.wait_durable()
            except GoQueueError:
                continue  # the log is read-only; the next start looks what is there
        safe = [shot for shot in self._unsettled if self._is_safe(shot)]
        while safe:
            batch: list[DueBatch] = []
            while safe and (not batch or sum(len(shot.ends) for shot in batch) < _TOMBSTONES):
                batch.append(safe.pop())
            try:
                self._end(batch)
            except GoQueueError as error:
                logger.error("delivered messages wait for their tombstones", extra={"error": error.message})
                return
            done = {shot.offset for shot in batch}
            self._unsettled = [shot for shot in self._unsettled if shot.offset not in done]
            await asyncio.sleep(0)

    def _is_safe(self, shot: DueBatch) -> bool:
        """Also if its log is gone, or the node leaves syncs to the system."""
        return shot.partition.is_closed or not self._syncs or shot.partition.log.synced_offset >= shot.end_offset

    def _end(self, shots: Sequence[DueBatch]) -> None:
        now = self._clock.now_ms()
        ended = [_ended(due, "delivered", now) for shot in shots for due in shot.ends]
        records: list[ScheduleRecord] = [*ended, *(Fired(shot.offset) for shot in shots)]
        repeated = [next_tombstone(due.offset) for shot in shots for due in shot.ends if due.count]
        for offset, record in zip(self.log.append(records, repeated), records, strict=True):
            self._pending.note(offset, record)
        for one in ended:
            self.under_way.pop(one.offset, None)


def _firing(shot: DueBatch) -> Firing:
    entries = [(due.offset, due.count) for due, _ in shot.members]
    return Firing(shot.topic.record.id, shot.partition.at.partition, shot.partition.log.end_offset, entries, True)


def _ended(due: Due, state: str, now: Millis) -> EntryEnded:
    return EntryEnded(due.offset, due.topic_id, due.partition, due.due_ms, state, now)  # type: ignore[arg-type]


def _expires(due: Due, entry: ScheduleEntry) -> Millis | None:
    return due.due_ms + entry.ttl_ms if entry.ttl_ms is not None else expires_at(entry.headers)


def scheduled_mark(offset: Offset, count: int) -> bytes:
    """What a delivered message says about where it comes from: schedule partition, entry, and which time it is."""
    return b"0:%d:%d" % (offset, count) if count else b"0:%d" % offset


def delivered_record(due: Due, entry: ScheduleEntry, now: Millis) -> NewRecord:
    """The message as it enters its log."""
    pairs = [pair for pair in entry.headers if pair[0] not in DELAY_HEADERS and pair[0] != SCHEDULED_HEADER]
    if entry.ttl_ms is not None:
        pairs = [pair for pair in pairs if pair[0] != EXPIRES_HEADER]
        pairs.append((EXPIRES_HEADER, b"%d" % (due.due_ms + entry.ttl_ms)))
    pairs.append((SCHEDULED_HEADER, scheduled_mark(due.offset, due.count)))
    headers: Headers = tuple(pairs)
    return NewRecord(entry.key, entry.value, headers, now if entry.timestamp_ms is None else entry.timestamp_ms)
