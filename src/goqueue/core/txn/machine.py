"""Decides about transactions. Every decision is a new state of one transactional id, to be made durable before anything
follows from it; what follows an ending is in the state itself: markers to write, offsets to commit, receipts to answer.

An epoch fences: who shows an older one than the producer's has been replaced. Where the client can be told so, every
transaction gets an epoch of its own, so that a late write of one can never slip into the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from goqueue.base.errors import OutOfOrderSequence
from goqueue.base.ids import Millis
from goqueue.base.limits import TXN_ANSWERS_MAX, TXN_DELAYED_MAX, TXN_OFFSETS_MAX
from goqueue.core.txn.checks import check_id, check_room, ending, fenced, not_open, staged_only, wrong
from goqueue.core.txn.deadlines import TxnDeadlines
from goqueue.core.txn.epochs import NEW, bumped
from goqueue.core.txn.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidTxnState,
    InvalidTxnTimeout,
    UnknownTransaction,
)
from goqueue.core.txn.records import (
    CALLS_KEPT,
    ENDING,
    IDLE,
    Record,
    TxnAnswer,
    TxnCall,
    TxnDelayed,
    TxnDelayedGone,
    TxnGone,
    TxnOffset,
    TxnOwner,
    TxnOwnerGone,
    TxnStage,
    TxnState,
    emptied,
)
from goqueue.core.txn.staged import StagedSets

_AGAIN_MS: Final = 1_000


class Transactions:
    """All transactional producers of a node."""

    def __init__(self, timeout_ms_max: Millis, idle_ms: Millis, owner_ms: Millis) -> None:
        self.staged = StagedSets(owner_ms)
        self._timeout_ms_max = timeout_ms_max
        self._idle_ms = idle_ms
        self._states: dict[str, TxnState] = {}
        self._ids: dict[int, str] = {}  # by producer id
        self._open: set[str] = set()  # begun, and their end not yet carried out
        self._delayed: dict[str, dict[int, TxnDelayed]] = {}
        self.delayed_bytes = 0
        self._touched: dict[str, Millis] = {}
        self._deadlines = TxnDeadlines()

    # --- state -----------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """The only way that something durable changes, live and on recovery."""
        if isinstance(record, TxnOwner | TxnOwnerGone):
            self.staged.apply(record)
            return
        name = record.transactional_id
        if isinstance(record, TxnDelayed):
            self._delayed.setdefault(name, {})[record.number] = record
            self.delayed_bytes += record.size
        elif isinstance(record, TxnDelayedGone):
            waiting = self._delayed.get(name, {})
            if (known := waiting.get(record.number)) is not None and known.epoch == record.epoch:
                del waiting[record.number]
                self.delayed_bytes -= known.size
            if not waiting:
                self._delayed.pop(name, None)
        else:
            self._apply_state(name, record)

    def _apply_state(self, name: str, record: TxnState | TxnGone) -> None:
        before = self._states.pop(name, None)
        if before is not None:
            self._ids.pop(before.producer_id, None)
        self._open.discard(name)
        self.staged.moved(before, None if isinstance(record, TxnGone) else record)
        if isinstance(record, TxnGone):
            self._touched.pop(name, None)
            return
        self._states[name] = record
        self._ids[record.producer_id] = name
        if record.stage not in IDLE:
            self._open.add(name)
        if record.stage is TxnStage.ONGOING:
            self._deadlines.set(name, self._due(record))

    def all(self) -> list[TxnState]:
        return [self._states[name] for name in sorted(self._states)]

    def open(self) -> list[TxnState]:
        """Those that are not over."""
        return [self._states[name] for name in sorted(self._open)]

    @property
    def open_count(self) -> int:
        return len(self._open)

    def get(self, transactional_id: str) -> TxnState | None:
        return self._states.get(transactional_id)

    def require(self, transactional_id: str) -> TxnState:
        state = self._states.get(transactional_id)
        if state is None:
            raise UnknownTransaction(
                f"No producer has the transactional id {transactional_id!r}; init it first.", field="transactional_id"
            )
        return state

    def of_producer(self, producer_id: int) -> TxnState | None:
        name = self._ids.get(producer_id)
        return None if name is None else self._states[name]

    def in_doubt(self) -> list[TxnState]:
        """Whose end was decided and may not have been carried out."""
        return [state for state in self.open() if state.stage in ENDING]

    def writes_to(self, producer_id: int, topic: str, partition: int, epoch: int = 0) -> bool:
        """Whether a transaction of the producer, of that epoch or later, is open and has messages there."""
        state = self.of_producer(producer_id)
        if state is None or state.stage in IDLE or state.epoch < epoch:
            return False
        return (topic, partition) in state.partitions

    def delayed(self, transactional_id: str) -> list[TxnDelayed]:
        """What waits for the end of the transaction, in order."""
        waiting = self._delayed.get(transactional_id, {})
        return [waiting[number] for number in sorted(waiting)]

    def leftovers(self, record: Record) -> list[Record]:
        """What goes together with a transaction that is over."""
        if not isinstance(record, TxnState) or record.stage not in IDLE:
            return []
        return [
            TxnDelayedGone(one.transactional_id, one.epoch, one.number) for one in self.delayed(record.transactional_id)
        ]

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
    ) -> TxnState:
        """A producer begins, or begins again: everything older is fenced. An open transaction has to be ended first."""
        check_id(transactional_id)
        if not 0 < timeout_ms <= self._timeout_ms_max:
            raise InvalidTxnTimeout(
                f"A transaction may take up to {self._timeout_ms_max} ms, not {timeout_ms}.", field="timeout"
            )
        self._touched[transactional_id] = now
        state = self._states.get(transactional_id)
        if state is not None and state.owner:
            raise staged_only(state)
        if state is None:
            return TxnState(transactional_id, fresh_id, 0, timeout_ms=timeout_ms, updated_ms=now, session_ms=session_ms)
        if self.is_repeated_init(state, producer_id, epoch):
            return state
        if producer_id != NEW and (producer_id, epoch) != (state.producer_id, state.epoch):
            raise fenced(state, epoch)
        if state.stage not in IDLE:
            raise ending()
        fresh = replace(
            emptied(state),
            timeout_ms=timeout_ms,
            updated_ms=now,
            session_ms=session_ms,
            ended_epoch=-1,
            ended_producer_id=-1,
            shown_epoch=epoch,
        )
        return bumped(fresh, fresh_id)

    def is_repeated_init(self, state: TxnState, producer_id: int, epoch: int) -> bool:
        """Whether the producer began again just so, and did not hear the answer."""
        shown = (state.producer_id, state.shown_epoch)
        return producer_id != NEW and epoch != NEW and shown == (producer_id, epoch) and state.stage is TxnStage.EMPTY

    def beat(self, producer_id: int, epoch: int | None, now: Millis) -> TxnState:
        """The producer is alive."""
        state = self.of_producer(producer_id)
        if state is None:
            raise UnknownTransaction(f"There is no producer {producer_id}; init it first.", field="producer_id")
        if epoch is not None and epoch != state.epoch:
            raise fenced(state, epoch)
        self._touched[state.transactional_id] = now
        return state

    def touch(self, producer_id: int, now: Millis) -> None:
        """The producer wrote something."""
        if (name := self._ids.get(producer_id)) is not None:
            self._touched[name] = now

    def touch_all(self, now: Millis) -> None:
        """After a start everybody gets a whole session."""
        for state in self.open():
            self._touched[state.transactional_id] = now
            if state.stage is TxnStage.ONGOING:
                self._deadlines.set(state.transactional_id, self._due(state))

    # --- a transaction ---------------------------------------------------------------------------------------

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        now: Millis,
        *,
        begins: bool = True,
        partitions: Iterable[tuple[str, int]] = (),
        offsets: Iterable[TxnOffset] = (),
        answers: Iterable[TxnAnswer] = (),
        groups: Iterable[str] = (),
        call: TxnCall | None = None,
        delayed: int = 0,
    ) -> TxnState:
        """The transaction touches more; the first thing it touches begins it if that is how its client works."""
        state = self.check(transactional_id, producer_id, epoch)
        self._touched[transactional_id] = now
        if state.stage in ENDING:
            raise ending()
        if state.stage is not TxnStage.ONGOING:
            if not begins or state.owner:
                raise not_open(state)
            state = replace(emptied(state), stage=TxnStage.ONGOING, started_ms=now)
        places = {(one.group, one.topic, one.partition): one for one in (*state.offsets, *offsets)}
        answered = {one.receipt: one for one in (*state.answers, *answers)}
        waiting = state.delayed + delayed
        check_room(len(places), TXN_OFFSETS_MAX, "offsets")
        check_room(len(answered), TXN_ANSWERS_MAX, "receipts")
        check_room(waiting, TXN_DELAYED_MAX, "delayed messages")
        return replace(
            state,
            updated_ms=now,
            partitions=tuple(sorted({*state.partitions, *partitions})),
            offsets=tuple(places[key] for key in sorted(places)),
            answers=tuple(answered.values()),
            groups=tuple(sorted({*state.groups, *groups})),
            calls=(*state.calls, call)[-CALLS_KEPT:] if call is not None else state.calls,
            delayed=waiting,
        )

    def check(self, transactional_id: str, producer_id: int, epoch: int) -> TxnState:
        """The producer's state, if it is the producer and nobody took its place."""
        state = self.require(transactional_id)
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
        self._touched[transactional_id] = now
        if state.stage in ENDING:
            raise ending()
        if state.stage is not TxnStage.ONGOING:
            raise not_open(state)
        return state

    def check_write(self, producer_id: int, epoch: int, topic: str, partition: int) -> None:
        """Raises unless the producer has an open transaction that this partition is part of."""
        state = self.of_producer(producer_id)
        if state is None:
            raise InvalidProducerMapping(f"No transactional producer {producer_id}; init again.")
        if epoch != state.epoch:
            raise fenced(state, epoch)
        if state.stage is not TxnStage.ONGOING or (topic, partition) not in state.partitions:
            raise InvalidTxnState(
                f"{topic} {partition} is not part of an open transaction of producer {producer_id}; add it first."
            )

    def call(self, state: TxnState, sequence: int) -> TxnCall | None:
        """The publish that had this number; None if it is the next."""
        known = next((one for one in state.calls if one.sequence == sequence), None)
        if known is None and state.calls and sequence <= state.calls[-1].sequence:
            last = state.calls[-1].sequence
            raise OutOfOrderSequence(
                f"The transaction's last publish had the sequence {last}; {sequence} is too old.", field="sequence"
            )
        return known

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        commit: bool,
        now: Millis,
        bump: bool = False,
        may_be_idle: bool = False,
    ) -> TxnState | None:
        """The decision. None if it was taken and carried out before: asking again is fine."""
        state = self.require(transactional_id)
        self._touched[transactional_id] = now
        done = TxnStage.COMPLETE_COMMIT if commit else TxnStage.COMPLETE_ABORT
        if (state.ended_producer_id, state.ended_epoch, state.stage) == (producer_id, epoch, done):
            return None
        state = self.check(transactional_id, producer_id, epoch)
        if commit and state.owner:
            raise staged_only(state)
        wanted = TxnStage.PREPARE_COMMIT if commit else TxnStage.PREPARE_ABORT
        if may_be_idle and not commit and not state.owner and state.stage in IDLE:
            state = replace(emptied(state), stage=TxnStage.ONGOING, started_ms=now)
        if state.stage is TxnStage.ONGOING:
            ended = replace(state, stage=wanted, updated_ms=now, bumps=bump)
            return replace(ended, ended_epoch=epoch, ended_producer_id=producer_id)
        if state.stage is wanted:
            raise ConcurrentTransactions("The transaction is being ended; try again in a moment.")
        raise wrong(state, commit)

    def fence(self, transactional_id: str, now: Millis) -> TxnState | None:
        """Ends an open transaction without its producer, who is shut out. None if none is open."""
        state = self.require(transactional_id)
        if state.stage is not TxnStage.ONGOING:
            return None
        aborted = replace(state, stage=TxnStage.PREPARE_ABORT, epoch=state.epoch + 1, updated_ms=now, bumps=False)
        return replace(aborted, ended_epoch=-1, ended_producer_id=-1)

    def completed(self, transactional_id: str, now: Millis, bump: bool, fresh_id: int = NEW) -> TxnState:
        """The end was carried out; with `bump` the next transaction has an epoch of its own."""
        state = self.require(transactional_id)
        done = TxnStage.COMPLETE_COMMIT if state.commits else TxnStage.COMPLETE_ABORT
        state = replace(emptied(state), stage=done, updated_ms=now)
        return bumped(state, fresh_id) if bump else state

    # --- time ------------------------------------------------------------------------------------------------

    def _due(self, state: TxnState) -> Millis:
        heard = max(self._touched.get(state.transactional_id, 0), state.started_ms)
        if state.owner:
            return heard + state.timeout_ms
        due = state.started_ms + state.timeout_ms
        return min(due, heard + state.session_ms) if state.session_ms else due

    def is_overdue(self, transactional_id: str, now: Millis) -> bool:
        state = self._states.get(transactional_id)
        return state is not None and state.stage is TxnStage.ONGOING and self._due(state) <= now

    def overdue(self, now: Millis) -> list[str]:
        """Open transactions whose time is up; each is told once, and again after a time if it is still open."""
        found: list[str] = []
        for name in self._deadlines.passed(now):
            state = self._states.get(name)
            if state is not None and state.stage is TxnStage.ONGOING:
                is_over = self._due(state) <= now
                self._deadlines.set(name, now + _AGAIN_MS if is_over else self._due(state))
                if is_over:
                    found.append(name)
        return found

    def shift(self, by_ms: Millis) -> list[TxnState]:
        """The clock was set: nobody has more or less time for it. Returns the open ones as they have to be noted."""
        self._deadlines.shift(by_ms)
        self._touched = {name: heard + by_ms for name, heard in self._touched.items()}
        self.staged.shift(by_ms)
        for name, state in self._states.items():
            started_ms = state.started_ms + by_ms if state.started_ms else 0
            self._states[name] = replace(state, started_ms=started_ms, updated_ms=state.updated_ms + by_ms)
        return [state for state in self.open() if state.stage is TxnStage.ONGOING]

    def next_deadline(self) -> Millis | None:
        return self._deadlines.next()

    def forgotten(self, now: Millis) -> Iterator[TxnGone]:
        """Producers that were silent for too long."""
        for state in self.all():
            if state.stage in IDLE and state.updated_ms + self._idle_ms <= now:
                yield TxnGone(state.transactional_id)


def mark_of(state: TxnState, number: int, place: int) -> str:
    """Names a delayed message of a transaction for ever."""
    return f"{state.producer_id}/{state.epoch}/{number}/{place}"
