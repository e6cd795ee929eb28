"""What follows the end of a transaction, as data: which place does what. The coordinator itself does none of it.

Each effect says whose it is (producer id and epoch) and by which coordinator (its epoch), can be sent to another place
as bytes (`base/encoding.py`), and can be repeated until it is done: a second time it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.txn.records import TxnAnswer, TxnDelayed, TxnOffset, TxnState


class EndedBy(msgspec.Struct, frozen=True):
    """Whose transaction ended, and by which coordinator."""

    producer_id: int
    epoch: int
    coordinator_epoch: int


class WriteMarker(EndedBy, frozen=True, tag=True):
    """A partition that the transaction wrote to: a marker in its log ends it there."""

    topic: str
    partition: int
    commit: bool


class CommitOffsets(EndedBy, frozen=True, tag=True):
    """A group: its offsets move. When that was decided tells the transactions of one producer and epoch apart."""

    group: str
    offsets: tuple[TxnOffset, ...]
    decided_ms: Millis = 0


class AnswerLeased(EndedBy, frozen=True, tag=True):
    """Queue views: leased messages are answered for, all in one way. Receipts that are over were answered before."""

    receipts: tuple[str, ...]
    kind: Literal["ack", "nack", "reject"]
    delay_ms: Millis | None
    reason: str


class ReturnLeased(EndedBy, frozen=True, tag=True):
    """Queue views: leased messages are given back."""

    receipts: tuple[str, ...]


class ScheduleDelayed(EndedBy, frozen=True, tag=True):
    """Schedules take these, each entry that of its partition. Each has a mark; those whose mark is in there behind the
    schedule's offset are there already."""

    entries: tuple[ScheduleEntry, ...]
    schedules_from: tuple[Offset, ...]

    def start(self, schedule: int) -> Offset:
        """From the beginning of one that was not there yet."""
        return self.schedules_from[schedule] if schedule < len(self.schedules_from) else 0


TxnEffect: TypeAlias = WriteMarker | CommitOffsets | AnswerLeased | ReturnLeased | ScheduleDelayed


class TransactionEnd(msgspec.Struct, frozen=True):
    """An end that is decided: all of this, and when it is durable the coordinator notes that it is over."""

    transactional_id: str
    producer_id: int
    epoch: int
    effects: tuple[TxnEffect, ...]

    @property
    def whose(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class CarryOut(msgspec.Struct, frozen=True, tag=True):
    """Ends that were decided together."""

    ends: tuple[TransactionEnd, ...]


class StageMoved(msgspec.Struct, frozen=True, tag=True):
    """For who counts and traces: a producer's transaction is in another stage."""

    before: TxnState | None
    after: TxnState
    now: Millis


class TxnTimedOut(msgspec.Struct, frozen=True, tag=True):
    """For who counts: an open transaction ran out of time."""

    transactional_id: str


Effect: TypeAlias = CarryOut | StageMoved | TxnTimedOut


def end_of(state: TxnState, delayed: Sequence[TxnDelayed], coordinator_epoch: int) -> TransactionEnd:
    """All that the end of this transaction comes to. The same state gives the same effects, however often."""
    by = (state.producer_id, state.epoch, coordinator_epoch)
    effects = (
        *(WriteMarker(*by, topic, partition, state.commits) for topic, partition in state.partitions),
        *(_committed(state, delayed, by) if state.commits else _aborted(state, by)),
    )
    return TransactionEnd(state.transactional_id, state.producer_id, state.epoch, effects)


def _committed(state: TxnState, delayed: Sequence[TxnDelayed], by: tuple[int, int, int]) -> Iterator[TxnEffect]:
    groups: dict[str, list[TxnOffset]] = {}
    for one in state.offsets:
        groups.setdefault(one.group, []).append(one)
    for group, offsets in groups.items():
        yield CommitOffsets(*by, group, tuple(offsets), state.updated_ms)
    alike: dict[TxnAnswer, list[str]] = {}
    for answer in state.answers:
        alike.setdefault(replace(answer, receipt=""), []).append(answer.receipt)
    for answer, receipts in alike.items():
        yield AnswerLeased(*by, tuple(receipts), answer.kind, answer.delay_ms, answer.reason)
    if entries := tuple(_marked(state, delayed)):
        yield ScheduleDelayed(*by, entries, state.schedules_from or (state.schedule_from,))


def _aborted(state: TxnState, by: tuple[int, int, int]) -> Iterator[TxnEffect]:
    if state.answers:
        yield ReturnLeased(*by, tuple(state.receipts))


def _marked(state: TxnState, delayed: Sequence[TxnDelayed]) -> Iterator[ScheduleEntry]:
    """A mark names a delayed message of a transaction for ever."""
    for one in delayed:
        for place, entry in enumerate(one.entries):
            yield replace(entry, mark=f"{state.producer_id}/{state.epoch}/{one.number}/{place}")
