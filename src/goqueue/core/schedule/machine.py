"""The schedule: which messages wait, which are due, and what becomes of them.

An entry waits until its time. Then a firing is noted (which entries, and where the target's log ends), its messages are
delivered to their log as one batch, and when they are durable there the entries end. A repeating entry gets its next
time with the firing. Everything that waits is in the index, beside the log; the machine holds the near entries, what is
being delivered, and the records that the index has yet to learn. Payloads stay in the log until they are wanted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from goqueue.base.errors import Overloaded
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import UNINDEXED_HIGH, UNINDEXED_MAX
from goqueue.core.machine import Decision
from goqueue.core.schedule.due import Due, DueBatch, Member, Place, Target, sort_due
from goqueue.core.schedule.effects import (
    EndDiscarded,
    Expired,
    FetchAhead,
    FireDue,
    LoadWindow,
    RebuildIndex,
    Recover,
    ScheduleCounts,
)
from goqueue.core.schedule.near import RETRY_MS, NearEntries
from goqueue.core.schedule.records import (
    EntryEnded,
    Fired,
    Firing,
    NextDue,
    NextEnded,
    ScheduleEntry,
    ScheduleRecord,
    State,
)

_CHUNK: Final = 500  # entries that are fired together

ScheduleDecision: TypeAlias = Decision[ScheduleRecord]
Indexed: TypeAlias = tuple[Offset, ScheduleRecord]


class ScheduleMachine:
    """Made with what was counted since the node started, as one of so many; `recount` says what is pending."""

    def __init__(self, counts: ScheduleCounts, schedules: int = 1) -> None:
        self.near = NearEntries(schedules)
        self.pending: dict[str, int] = {}  # by topic id
        self._counts = counts
        self._now: Millis = 0
        self.in_flight: dict[Offset, Due] = {}  # fired, not yet ended: perhaps not in their logs
        self._discarded: dict[Offset, EntryEnded] = {}  # stored, then refused: never to be seen
        self._due: dict[Offset, Due] = {}  # in the order of their times
        self._chunk: list[Due] = []  # taken from there, being fired
        self._is_firing = False
        self._decided: dict[tuple[Offset, int], DueBatch] = {}  # by their first message, until applied
        self._refused: list[DueBatch] = []  # by their targets; delivered again at `_retry_at`
        self._retry_at: Millis = 0
        self._unindexed: list[Indexed] = []
        self._is_recovered = False

    # --- durable state -------------------------------------------------------------------------------------

    def apply(self, record: ScheduleRecord, offset: Offset) -> None:
        match record:
            case ScheduleEntry():
                self._count(record.topic_id, 1)
                self._counts.scheduled += 1
                self.near.accept(offset, record, self._now)
                record = msgspec.structs.replace(record, key=None, value=None, headers=())
            case Firing():
                self._apply_firing(record, offset)
            case NextDue():
                self.in_flight.pop(record.offset, None)
                self._count(record.topic_id, 1)
                due = Due(record.offset, record.due_ms, record.topic_id, record.partition, record.count)
                self.near.place(due, self._now)
            case EntryEnded():
                self._apply_end(record)
            case _:
                pass
        self._unindexed.append((offset, record))

    def _apply_firing(self, record: Firing, offset: Offset) -> None:
        """Its entries are no longer pending; those that repeat become it again by a record of their own."""
        batch = self._decided.pop(record.entries[0], None)
        if batch is not None:
            batch.offset = offset
        for entry, count in record.entries:
            due = self.near.leave(entry)
            self.in_flight[entry] = due or Due(entry, 0, record.topic_id, record.partition, count)
        self._count(record.topic_id, -len(record.entries))

    def _apply_end(self, record: EntryEnded) -> None:
        if self._discarded.pop(record.offset, None) or self.in_flight.pop(record.offset, None):
            return
        self.near.leave(record.offset)
        self._count(record.topic_id, -1)
        if record.state == "expired":
            self._counts.expired += 1
        elif record.state == "cancelled":
            self._counts.cancelled += 1

    def _count(self, topic_id: str, by: int) -> None:
        self.pending[topic_id] = left = self.pending.get(topic_id, 0) + by
        if left <= 0:
            del self.pending[topic_id]

    def revert(self, records: Sequence[ScheduleRecord], now: Millis) -> Sequence[int]:
        """What was due is put back by `fire_failed`; nobody waits in the machine."""
        self._decided.clear()
        return ()

    # --- what the index has yet to learn -------------------------------------------------------------------

    def take_unindexed(self) -> list[Indexed]:
        taken, self._unindexed = self._unindexed, []
        return taken

    def not_indexed(self, records: list[Indexed]) -> None:
        """The index could not be written: they are handed out again."""
        self._unindexed = records + self._unindexed

    def has_news_of(self, offset: Offset) -> bool:
        """Something became of an entry that the index has yet to learn."""
        return any(offset in _entries_of(record) for _, record in self._unindexed)

    @property
    def is_behind(self) -> bool:
        return len(self._unindexed) >= UNINDEXED_HIGH

    def recount(self, pending: dict[str, int]) -> ScheduleDecision:
        """As the index counts them, when it is up to the log."""
        self.pending = pending
        return Decision()

    # --- entries -------------------------------------------------------------------------------------------

    def accept(self, entries: Iterable[ScheduleEntry], now: Millis) -> ScheduleDecision:
        """`Overloaded` while the index cannot keep up."""
        if len(self._unindexed) >= UNINDEXED_MAX:
            raise Overloaded("The schedule cannot keep up; try again in a moment.")
        self._now = now
        return Decision(list(entries))

    def discard(self, offsets: Iterable[Offset], entries: Iterable[ScheduleEntry], now: Millis) -> ScheduleDecision:
        """Entries that were stored never counted: what they belong to was refused. Nobody sees them from now on, also
        if their end cannot be written yet."""
        for offset, entry in zip(offsets, entries, strict=True):
            due = Due(offset, entry.due_ms, entry.topic_id, entry.partition)
            self._discarded[offset] = due.ended("cancelled", now)
            self.near.leave(offset)
            self._count(entry.topic_id, -1)
            self._counts.scheduled -= 1
        self._retry_at = now + RETRY_MS
        return self.end_discarded()

    def end_discarded(self) -> ScheduleDecision:
        return Decision(list(self._discarded.values()))

    def end(self, dues: Iterable[Due], state: State, now: Millis) -> ScheduleDecision:
        """Of entries that are pending: `known` said so, just now."""
        return Decision([record for due in dues for record in _end_of(due, state, now)])

    def known(self, offset: Offset, found: Due | EntryEnded | None, now: Millis) -> Due | EntryEnded | None:
        """What holds of an entry of which the index says this. One that is being delivered counts as delivered."""
        if offset in self._discarded:
            return None
        if (due := self.in_flight.get(offset)) is not None:
            return due.ended("delivered", now)
        return self.near.get(offset) or found

    def visible(self, dues: Iterable[Due]) -> list[Due]:
        """Those that the index calls pending, and that are."""
        return [due for due in dues if due.offset not in self._discarded and due.offset not in self.in_flight]

    # --- time ----------------------------------------------------------------------------------------------

    def loaded(self, now: Millis) -> ScheduleDecision:
        self._now = now
        return Decision(effects=[Recover()])

    def recovered(self, now: Millis) -> ScheduleDecision:
        """The last run's work is finished: from now on entries become due."""
        self._is_recovered = True
        return self.tick(now)

    def next_deadline(self) -> Millis | None:
        if not self._is_recovered:
            return None
        deadline = self.near.next_deadline()
        if self._refused or self._discarded:
            deadline = self._retry_at if deadline is None else min(deadline, self._retry_at)
        return deadline

    def tick(self, now: Millis) -> ScheduleDecision:
        decision: ScheduleDecision = Decision()
        if not self._is_recovered:
            return decision
        self._now = now
        due, ahead = self.near.advance(now)
        self._due.update((one.offset, one) for one in due)
        if ahead:
            decision.effects.append(FetchAhead(ahead))
        if (window := self.near.begin_window(now)) is not None:
            decision.effects.append(LoadWindow(window))
        if now >= self._retry_at:
            self._retry_at = now + RETRY_MS
            decision.effects += [*([EndDiscarded()] if self._discarded else []), *self._refused]
            self._refused = []
        if self._due and not self._is_firing:
            self._is_firing = True
            decision.effects.append(FireDue())
        return decision

    def window_loaded(self, found: list[Due] | None, now: Millis) -> ScheduleDecision:
        """None if the index could not be asked."""
        self.near.end_window(found, self._discarded, now)
        return self.tick(now)

    def shift(self, by_ms: Millis, now: Millis) -> ScheduleDecision:
        """Messages come when the clock says so; only what is tried again in a second moves with it."""
        self.near.set_timers(now)
        self._retry_at = min(self._retry_at, now + RETRY_MS)
        return self.tick(now)

    # --- firing --------------------------------------------------------------------------------------------

    def next_due(self) -> list[Due]:
        """The next entries to fire, in the order of their times; none if that is all."""
        self._chunk = []
        while self._due and len(self._chunk) < _CHUNK:
            due = self._due.pop(next(iter(self._due)))
            if self.near.get(due.offset) is due:
                self._chunk.append(due)
        self._is_firing = bool(self._chunk)
        return self._chunk

    def fire(
        self, read: Mapping[Offset, ScheduleEntry | None], targets: Mapping[Place, Target | None], now: Millis
    ) -> ScheduleDecision:
        """With the payloads that were read, None for one that cannot be, and the logs that they go to. Entries behind
        the last that was read wait for the next round."""
        self._now = now
        chunk, self._chunk = self._chunk, []
        decision: ScheduleDecision = Decision()
        members: list[Member] = []
        for at, due in enumerate(chunk):
            entry = self.near.held(due.offset) or read.get(due.offset)
            if entry is None and due.offset not in read:
                self._due = {one.offset: one for one in chunk[at:]} | self._due
                break
            if self.near.get(due.offset) is not due:
                continue  # cancelled meanwhile
            self._chunk.append(due)
            if entry is None:
                decision.records += _end_of(due, "expired", now)
            elif due.differs_from(entry):
                self.near.correct(due, entry, now)
                decision.effects = [RebuildIndex()]
            else:
                members.append((due, entry))
        self._deliver(decision, members, targets, now)
        return decision

    def _deliver(
        self,
        decision: ScheduleDecision,
        members: list[Member],
        targets: Mapping[Place, Target | None],
        now: Millis,
    ) -> None:
        result = sort_due(members, targets, now)
        for batch in result.batches:
            decision.records.append(batch.firing())
            self._decided[batch.first] = batch
        for batch in result.batches:
            decision.records += batch.repeats(now)
        decision.records += result.ended
        decision.records += [NextEnded(one.offset) for one in result.ended]
        decision.effects += result.batches
        if result.expired:
            decision.effects.append(Expired(result.expired))
        self.near.retry((due.offset for due in result.later), now)

    def fire_failed(self, now: Millis) -> ScheduleDecision:
        """They could not be read, or their firing not be written: all of them are due again in a second."""
        self.near.retry((due.offset for due in self._chunk), now)
        self._chunk = []
        return Decision()

    def delivered(self, batch: DueBatch, end_offset: Offset, is_gone: bool) -> ScheduleDecision:
        """Its messages are in their log, which ends there; or the log was deleted, and they with it."""
        self._counts.delivered += 0 if is_gone else len(batch.members)
        batch.end_offset = end_offset
        batch.members = []
        return Decision()

    def refused(self, batch: DueBatch, now: Millis) -> ScheduleDecision:
        """Its target took no messages now."""
        if not self._refused:
            self._retry_at = now + RETRY_MS
        self._refused.append(batch)
        return Decision()

    def confirm(self, batches: Iterable[DueBatch], now: Millis) -> ScheduleDecision:
        """Their messages are as durable as the node promises: the entries end."""
        batches = list(batches)
        records = [record for batch in batches for due in batch.ends for record in _end_of(due, "delivered", now)]
        return Decision([*records, *(Fired(batch.offset) for batch in batches)])

    # --- what a start has to finish ------------------------------------------------------------------------

    def resume(
        self,
        offset: Offset,
        firing: Firing,
        entries: Mapping[Offset, tuple[ScheduleEntry, bool]],
        missing: Container[tuple[Offset, int]],
    ) -> ScheduleDecision:
        """A firing without an end: its entries that are left, each with whether it is pending again, and which of its
        messages are not in their log."""
        batch = DueBatch(firing.topic_id, firing.partition, firing.end_offset, [], offset=offset)
        for entry_offset, count in firing.entries:
            if entry_offset not in entries:
                continue  # its end is on record
            entry, is_pending = entries[entry_offset]
            due = Due(entry_offset, entry.due_ms, firing.topic_id, firing.partition, count)
            if not is_pending:
                batch.ends.append(due)
                self.in_flight[entry_offset] = due
            if (entry_offset, count) in missing:
                batch.members.append((due, entry))
        return Decision(effects=[batch])

    def resume_without_target(self, offset: Offset, firing: Firing, now: Millis) -> ScheduleDecision:
        """The same where its topic was deleted."""
        ended = [EntryEnded(one, firing.topic_id, firing.partition, now, "cancelled", now) for one, _ in firing.entries]
        self._discarded.update((one.offset, one) for one in ended)
        return Decision([*ended, Fired(offset)])


def _end_of(due: Due, state: State, now: Millis) -> list[ScheduleRecord]:
    """Its end, and that of the record of its next time if it repeated."""
    ended = due.ended(state, now)
    return [ended, NextEnded(due.offset)] if due.count else [ended]


def _entries_of(record: ScheduleRecord) -> list[Offset]:
    """The entries that a record says something new of."""
    match record:
        case Firing():
            return [entry for entry, _ in record.entries]
        case EntryEnded() | NextDue() | NextEnded():
            return [record.offset]
        case _:
            return []
