"""A schedule's machine with a log in memory: appends what it decides, applies it, and keeps what it asks for."""

from __future__ import annotations

from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.due import Due, DueBatch, Place, Target
from goqueue.core.schedule.effects import FireDue, LoadWindow, ScheduleCounts
from goqueue.core.schedule.machine import ScheduleDecision, ScheduleMachine
from goqueue.core.schedule.records import EntryEnded, Firing, NextDue, ScheduleEntry, ScheduleRecord

TARGET = Target(end_offset=70, batch_bytes_max=1_000_000, is_writable=True)


class Log:
    """`now` is what the clock says; nothing happens by itself."""

    def __init__(self) -> None:
        self.now: Millis = 1_000_000
        self.counts = ScheduleCounts()
        self.machine = ScheduleMachine(self.counts)
        self.records: list[ScheduleRecord] = []
        self.effects: list[object] = []
        self.targets: dict[Place, Target | None] = {}
        self.do(self.machine.loaded(self.now))
        self.do(self.machine.recovered(self.now))
        self.load_window()

    def do(self, decision: ScheduleDecision) -> list[object]:
        """Everything a host does with a decision; its effects are left to the test."""
        self.append(decision.records)
        self.effects += decision.effects
        return decision.effects

    def append(self, records: list[ScheduleRecord]) -> list[Offset]:
        first = len(self.records)
        for offset, record in enumerate(records, first):
            self.records.append(record)
            self.machine.apply(record, offset)
        return list(range(first, len(self.records)))

    def accept(self, *entries: ScheduleEntry) -> list[Offset]:
        return self.append(self.machine.accept(entries, self.now).records)

    def load_window(self) -> None:
        """The index answers, from what the log says."""
        (asked,) = [one for one in self.effects if isinstance(one, LoadWindow)]
        self.effects.remove(asked)
        window = asked.window
        found = [due for due in self.pending() if window.start <= due.due_ms < window.end]
        self.do(self.machine.window_loaded(found[: window.limit], self.now))

    def pending(self) -> list[Due]:
        """What the records say is pending, by time."""
        found: dict[Offset, Due] = {}
        for offset, record in enumerate(self.records):
            match record:
                case ScheduleEntry():
                    found[offset] = Due(offset, record.due_ms, record.topic_id, record.partition)
                case NextDue():
                    place = (record.topic_id, record.partition)
                    found[record.offset] = Due(record.offset, record.due_ms, *place, record.count)
                case Firing():
                    for entry, _ in record.entries:
                        found.pop(entry, None)
                case EntryEnded():
                    found.pop(record.offset, None)
                case _:
                    pass
        return sorted(found.values(), key=lambda due: (due.due_ms, due.offset))

    def tick(self, later_ms: Millis = 0) -> list[object]:
        self.now += later_ms
        return self.do(self.machine.tick(self.now))

    def decide_fire(self) -> ScheduleDecision | None:
        """The answer to one round of `FireDue`, not yet written; None if nothing is due."""
        dues = self.machine.next_due()
        if not dues:
            return None
        read = {due.offset: self.payload(due.offset) for due in dues}
        targets = {due.place: self.targets.get(due.place, TARGET) for due in dues}
        return self.machine.fire(read, targets, self.now)

    def payload(self, offset: Offset) -> ScheduleEntry | None:
        record = self.records[offset]
        return record if isinstance(record, ScheduleEntry) else None

    def fire(self) -> list[DueBatch]:
        """Everything that is due; the batches to deliver."""
        self.effects = [one for one in self.effects if not isinstance(one, FireDue)]
        batches: list[DueBatch] = []
        while (decision := self.decide_fire()) is not None:
            batches += [one for one in self.do(decision) if isinstance(one, DueBatch)]
        return batches

    def deliver(self, batch: DueBatch, end_offset: Offset = 71) -> None:
        self.do(self.machine.delivered(batch, end_offset, is_gone=False))


def entry(due_ms: Millis, topic_id: str = "t", value: bytes = b"v", **more: object) -> ScheduleEntry:
    return ScheduleEntry(topic_id, 0, due_ms, None, value, **more)  # type: ignore[arg-type]


def values(batches: list[DueBatch]) -> list[list[bytes | None]]:
    return [[entry.value for _, entry in batch.members] for batch in batches]
