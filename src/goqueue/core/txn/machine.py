"""Decides about transactions. Every decision is a new state of one transactional id, to be made durable before anything
follows from it; what follows an ending is data too (`effects.py`), made from that state.

An epoch fences: who shows an older one than the producer's has been replaced. Where the client can be told so, every
transaction gets an epoch of its own, so that a late write of one can never slip into the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from goqueue.base.errors import Conflict
from goqueue.base.ids import Millis, Offset
from goqueue.core.machine import ASKER, Decision, Reply
from goqueue.core.txn.activity import TxnActivity
from goqueue.core.txn.checks import check_id, ending, fenced, not_open, staged_only
from goqueue.core.txn.effects import CarryOut, Effect, StageMoved, TransactionEnd, TxnTimedOut, end_of
from goqueue.core.txn.epochs import EPOCH_MAX, NEW, bumped, first
from goqueue.core.txn.errors import InvalidProducerMapping, InvalidTxnState, InvalidTxnTimeout
from goqueue.core.txn.moves import More, begun_again, check_end, fenced_off, is_repeated_init, with_more
from goqueue.core.txn.questions import ALLOWED, EpochSeen, IsOpen, MayWrite, OpenAnswer, WriteAnswer
from goqueue.core.txn.records import (
    ENDING,
    IDLE,
    Record,
    TxnDelayedGone,
    TxnOwnerGone,
    TxnStage,
    TxnState,
    emptied,
)
from goqueue.core.txn.table import TransactionTable

_FORGET_EVERY_MS: Final = 3_600_000
_AT_ONCE: Final = 1_000  # records of one tick
_SOON_MS: Final = 1_000  # to the next tick, if there are more


class TxnLimits(msgspec.Struct, frozen=True):
    """How long a transaction may take, and how long idle producers and owners are remembered."""

    timeout_ms_max: Millis
    idle_ms: Millis
    owner_ms: Millis


class Transactions:
    """All transactional producers of a coordinator. `table` is durable, everything else is made from it."""

    def __init__(self, limits: TxnLimits, coordinator_epoch: int = 0) -> None:
        self.table = TransactionTable()
        self._limits = limits
        self._coordinator_epoch = coordinator_epoch
        self._activity = TxnActivity()
        self._forget_at: Millis | None = None

    # --- what the host asks ----------------------------------------------------------------------------------

    def apply(self, record: Record, offset: Offset = 0) -> None:
        """The only way that something durable changes, live and on recovery."""
        self.table.apply(record)
        self._activity.apply(record)

    def loaded(self, now: Millis) -> Decision[Record]:
        """Everybody gets a whole session; ends that were decided are carried out (again)."""
        for state in self.table.open():
            self._activity.touch(state.transactional_id, now)
        self._activity.watch_again(self.table.open())
        self._forget_at = now + _FORGET_EVERY_MS
        ends = tuple(self._end_of(state) for state in self.table.in_doubt())
        return Decision(effects=[CarryOut(ends)] if ends else [])

    def revert(self, records: Sequence[Record], now: Millis) -> Sequence[int]:
        """Deadlines that passed come again. Nobody waits here."""
        self._activity.watch_again(self.table.open())
        return ()

    def snapshot(self) -> Iterator[Record]:
        return self.table.snapshot()

    def next_deadline(self) -> Millis | None:
        due = self._activity.next_due()
        return due if self._forget_at is None else min(self._forget_at, due or self._forget_at)

    def tick(self, now: Millis) -> Decision[Record]:
        """Open transactions whose time is up are aborted, and their producers shut out; idle ones are forgotten."""
        states: list[TxnState] = []
        for name in self._activity.passed(now, _AT_ONCE):
            state = self.table.get(name)
            if state is not None and state.stage is TxnStage.ONGOING:
                if self._activity.due(state) <= now:
                    states.append(fenced_off(state, now))
                else:
                    self._activity.watch_again([state])
        decision = self.decided(now, None, states)
        decision.effects[:0] = [TxnTimedOut(state.transactional_id) for state in states]
        if self._forget_at is not None and self._forget_at <= now:
            decision.records += self._forgotten(now)
        return decision

    def _forgotten(self, now: Millis) -> list[Record]:
        producers = self._activity.idle_producers(self.table.all(), now - self._limits.idle_ms)
        owners = self._activity.idle_owners(now - self._limits.owner_ms)
        gone: list[Record] = list(islice(producers, _AT_ONCE))
        gone += (TxnOwnerGone(owner) for owner in owners if not self.table.staged.open_count(owner))
        self._forget_at = now + (_FORGET_EVERY_MS if len(gone) < _AT_ONCE else _SOON_MS)
        return gone

    def shift(self, by_ms: Millis, now: Millis) -> Decision[Record]:
        """Nobody has more or less time for it. What is open is noted again, so that a load counts by the new time."""
        self._activity.shift(by_ms)
        if self._forget_at is not None:
            self._forget_at += by_ms
        going_on = [state for state in self.table.open() if state.stage is TxnStage.ONGOING]
        return Decision(
            [replace(one, started_ms=one.started_ms + by_ms, updated_ms=one.updated_ms + by_ms) for one in going_on]
        )

    def decided(self, now: Millis, reply: Any, states: Iterable[TxnState], *also: Record) -> Decision[Record]:
        """These states; what ended with them goes, and what follows from them follows."""
        records: list[Record] = [*also]
        effects: list[Effect] = []
        ends: list[TransactionEnd] = []
        for state in states:
            before = self.table.get(state.transactional_id)
            records.append(state)
            if state.stage in IDLE:
                records += self._leftovers(state.transactional_id)
            elif state.stage in ENDING:
                ends.append(self._end_of(state))
            if (TxnStage.EMPTY if before is None else before.stage) is not state.stage:
                effects.append(StageMoved(before, state, now))
        if ends:
            effects.append(CarryOut(tuple(ends)))
        return Decision(records, [Reply(ASKER, reply)], effects)

    def _leftovers(self, name: str) -> list[TxnDelayedGone]:
        return [TxnDelayedGone(name, one.epoch, one.number) for one in self.table.delayed(name)]

    def _end_of(self, state: TxnState) -> TransactionEnd:
        return end_of(state, self.table.delayed(state.transactional_id), self._coordinator_epoch)

    # --- producers -------------------------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        timeout_ms: Millis,
        fresh_id: int,
        now: Millis,
        producer_id: int = NEW,
        epoch: int = NEW,
        session_ms: Millis = 0,
        shown_epoch: int | None = None,
    ) -> Decision[Record]:
        """A producer begins, or begins again: everything older is fenced. An open transaction has to be ended first.

        `shown_epoch` is what the producer showed, where that is not the epoch to go on from.
        """
        check_id(transactional_id)
        if not 0 < timeout_ms <= self._limits.timeout_ms_max:
            raise InvalidTxnTimeout(
                f"A transaction may take up to {self._limits.timeout_ms_max} ms, not {timeout_ms}.", field="timeout"
            )
        state = self.table.get(transactional_id)
        if state is not None and state.owner:
            raise staged_only(state)
        if state is not None and is_repeated_init(state, producer_id, epoch):
            return self.decided(now, state, [])
        shown = epoch if shown_epoch is None else shown_epoch
        whose = (producer_id, epoch)
        fresh = first(transactional_id, fresh_id) if state is None else begun_again(state, whose, fresh_id)
        fresh = replace(fresh, timeout_ms=timeout_ms, updated_ms=now, session_ms=session_ms, shown_epoch=shown)
        return self.decided(now, fresh, [fresh])

    def needs_id(self, transactional_id: str, fences: bool) -> bool:
        """Whether who begins with this id, perhaps after one more epoch to fence with, takes a new producer id."""
        known = self.table.get(transactional_id)
        return known is None or known.epoch >= EPOCH_MAX - fences

    def beat(self, producer_id: int, epoch: int | None, now: Millis) -> TxnState:
        """The producer is alive."""
        state = self.table.require_producer(producer_id)
        if epoch is not None and epoch != state.epoch:
            raise fenced(state, epoch)
        self._activity.touch(state.transactional_id, now)
        return state

    def touch(self, producer_id: int, now: Millis) -> None:
        """The producer wrote something."""
        if (state := self.table.of_producer(producer_id)) is not None:
            self._activity.touch(state.transactional_id, now)

    # --- a transaction ---------------------------------------------------------------------------------------

    def add(
        self, transactional_id: str, producer_id: int, epoch: int, now: Millis, more: More, *, begins: bool = True
    ) -> Decision[Record]:
        """The transaction touches more; the first thing it touches begins it if that is how its client works."""
        before = state = self.check(transactional_id, producer_id, epoch)
        self._activity.touch(transactional_id, now)
        if state.stage in ENDING:
            raise ending()
        if state.stage is not TxnStage.ONGOING:
            if not begins or state.owner:
                raise not_open(state)
            state = replace(emptied(state), stage=TxnStage.ONGOING, started_ms=now)
        state = with_more(state, more)
        if state == before:  # a producer adds the same partition again and again
            return self.decided(now, state, [])
        state = replace(state, updated_ms=now)
        decision = self.decided(now, state, [state])
        decision.records += [more.delayed] if more.delayed is not None else []
        return decision

    def check(self, transactional_id: str, producer_id: int, epoch: int) -> TxnState:
        """The producer's state, if it is the producer and nobody took its place."""
        state = self.table.require(transactional_id)
        if state.producer_id != producer_id:
            raise InvalidProducerMapping(
                f"Producer {producer_id} is not the one of {transactional_id!r}; init again.", field="producer_id"
            )
        if epoch != state.epoch:
            raise fenced(state, epoch)
        return state

    def check_open(self, transactional_id: str, producer_id: int, epoch: int, now: Millis) -> TxnState:
        """The same, and its transaction is open."""
        state = self.check(transactional_id, producer_id, epoch)
        self._activity.touch(transactional_id, now)
        if state.stage in ENDING:
            raise ending()
        if state.stage is not TxnStage.ONGOING:
            raise not_open(state)
        return state

    def may_write(self, asked: MayWrite, now: Millis) -> WriteAnswer:
        """Yes if the producer has an open transaction that this partition is part of."""
        error = self._write_error(asked)
        if error is not None:
            return WriteAnswer(error)
        self.touch(asked.producer_id, now)
        return ALLOWED

    def is_open(self, asked: IsOpen) -> OpenAnswer:
        """What a power cut took from this log, and not from the partition, is nobody's."""
        if self.table.writes_to(asked.producer_id, asked.topic, asked.partition, asked.epoch):
            return OpenAnswer()
        state, epoch = self.table.of_producer(asked.producer_id), asked.epoch
        if state is not None and state.stage is TxnStage.ONGOING and state.epoch == epoch:
            epoch = min(epoch, EPOCH_MAX) + 1  # not whole any more: nobody may go on with it and commit the rest
        return OpenAnswer(epoch)

    def _write_error(self, asked: MayWrite) -> Conflict | None:
        state = self.table.of_producer(asked.producer_id)
        if state is None:
            return InvalidProducerMapping(f"No transactional producer {asked.producer_id}; init again.")
        if asked.epoch != state.epoch:
            return fenced(state, asked.epoch)
        if state.stage is not TxnStage.ONGOING or (asked.topic, asked.partition) not in state.partitions:
            place = f"{asked.topic} {asked.partition}"
            return InvalidTxnState(
                f"{place} is not part of an open transaction of producer {asked.producer_id}; add it first."
            )
        return None

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        commit: bool,
        now: Millis,
        *,
        bump: bool = False,
        may_be_idle: bool = False,
        schedules_from: tuple[Offset, ...] = (),
    ) -> Decision[Record]:
        """Commit or abort. Nothing to decide if that was decided and carried out before: asking again is fine.

        `schedules_from` is where the schedules ended before, so that delayed messages are found there behind it.
        """
        state = self.table.require(transactional_id)
        self._activity.touch(transactional_id, now)
        done = TxnStage.COMPLETE_COMMIT if commit else TxnStage.COMPLETE_ABORT
        if (state.ended_producer_id, state.ended_epoch, state.stage) == (producer_id, epoch, done):
            return self.decided(now, state, [])
        state = self.check(transactional_id, producer_id, epoch)
        if commit and state.owner:
            raise staged_only(state)
        if may_be_idle and not commit and not state.owner and state.stage in IDLE:
            state = replace(emptied(state), stage=TxnStage.ONGOING, started_ms=now)
        check_end(state, commit)
        stage = TxnStage.PREPARE_COMMIT if commit else TxnStage.PREPARE_ABORT
        ended = replace(state, stage=stage, updated_ms=now, bumps=bump, schedules_from=schedules_from)
        ended = replace(ended, ended_epoch=epoch, ended_producer_id=producer_id)
        return self.decided(now, ended, [ended])

    def fence(self, transactional_id: str, now: Millis, epoch: int = NEW) -> Decision[Record]:
        """Ends an open transaction without its producer, who is shut out (at least of this epoch). Nothing if none is
        open."""
        state = self.table.require(transactional_id)
        if state.stage is not TxnStage.ONGOING:
            return self.decided(now, state, [])
        ended = fenced_off(state, now)
        ended = replace(ended, epoch=max(ended.epoch, epoch))
        return self.decided(now, ended, [ended])

    def completed(self, ended: TransactionEnd, now: Millis, fresh_id: int = NEW) -> Decision[Record]:
        """All effects are durable. Nothing to decide if it was noted before."""
        state = self.table.get(ended.transactional_id)
        if state is None or state.stage not in ENDING or (state.producer_id, state.epoch) != ended.whose:
            return self.decided(now, state, [])
        done = TxnStage.COMPLETE_COMMIT if state.commits else TxnStage.COMPLETE_ABORT
        over = replace(emptied(state), stage=done, updated_ms=now)
        over = bumped(over, fresh_id) if state.bumps else over
        return self.decided(now, over, [over])

    def epoch_seen(self, seen: EpochSeen, now: Millis) -> Decision[Record]:
        """If that is a later epoch than this log knows, it is not given out again, and nothing goes on before it."""
        state = self.table.of_producer(seen.producer_id)
        if state is None or state.stage in ENDING or state.epoch >= seen.epoch:
            return self.decided(now, None, [])
        if state.stage is TxnStage.ONGOING:  # only here: its producer had ended it, or it would have no later epoch
            return self.fence(state.transactional_id, now, min(seen.epoch, EPOCH_MAX) + 1)
        moved = replace(state, epoch=seen.epoch)
        return self.decided(now, moved, [moved])
