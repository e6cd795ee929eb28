"""What the records of the coordinator's log come to: producers, delayed messages of open transactions, owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from goqueue.core.txn.errors import UnknownTransaction
from goqueue.core.txn.records import (
    ENDING,
    IDLE,
    Record,
    TxnDelayed,
    TxnDelayedGone,
    TxnGone,
    TxnOwner,
    TxnOwnerGone,
    TxnState,
)
from goqueue.core.txn.staged import StagedSets


class TransactionTable:
    """All transactional producers. It changes by `apply` alone."""

    def __init__(self) -> None:
        self.staged = StagedSets()
        self.delayed_bytes = 0
        self._states: dict[str, TxnState] = {}
        self.get: Callable[[str], TxnState | None] = self._states.get  # itself: everything that is done asks it
        self._ids: dict[int, str] = {}  # by producer id
        self._open: set[str] = set()  # begun, and their end not yet carried out
        self._moving: dict[str, dict[str, list[tuple[str, int]]]] = {}  # where they move groups, by group and id
        self._delayed: dict[str, dict[int, TxnDelayed]] = {}

    # --- changes ---------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        match record:
            case TxnState() | TxnGone():
                self._apply_state(record)
            case TxnDelayed():
                self._add_delayed(record)
            case TxnDelayedGone():
                self._drop_delayed(record)
            case TxnOwner() | TxnOwnerGone():
                self.staged.apply(record)

    def _add_delayed(self, record: TxnDelayed) -> None:
        waiting = self._delayed.setdefault(record.transactional_id, {})
        before = waiting.get(record.number)
        waiting[record.number] = record
        self.delayed_bytes += record.size - (0 if before is None else before.size)

    def _drop_delayed(self, gone: TxnDelayedGone) -> None:
        waiting = self._delayed.get(gone.transactional_id, {})
        if (known := waiting.get(gone.number)) is not None and known.epoch == gone.epoch:
            del waiting[gone.number]
            self.delayed_bytes -= known.size
        if not waiting:
            self._delayed.pop(gone.transactional_id, None)

    def _apply_state(self, record: TxnState | TxnGone) -> None:
        name = record.transactional_id
        before = self._states.pop(name, None)
        if before is not None:
            self._ids.pop(before.producer_id, None)
            self._stand_still(before)
        self._open.discard(name)
        self.staged.moved(before, None if isinstance(record, TxnGone) else record)
        if isinstance(record, TxnGone):
            return
        self._states[name] = record
        self._ids[record.producer_id] = name
        if record.stage not in IDLE:
            self._open.add(name)
            for one in record.offsets:
                self._moving.setdefault(one.group, {}).setdefault(name, []).append((one.topic, one.partition))

    def _stand_still(self, before: TxnState) -> None:
        for group in {one.group for one in before.offsets}:
            moving = self._moving.get(group)
            if moving is not None:
                moving.pop(before.transactional_id, None)
                if not moving:
                    del self._moving[group]

    def snapshot(self) -> Iterator[Record]:
        """Records that make all of this whole."""
        for state in self.all():
            yield state
            yield from self.delayed(state.transactional_id)
        yield from self.staged.snapshot()

    # --- questions -------------------------------------------------------------------------------------------

    def all(self) -> list[TxnState]:
        return [self._states[name] for name in sorted(self._states)]

    def open(self) -> list[TxnState]:
        """Those that are not over."""
        return [self._states[name] for name in sorted(self._open)]

    def moving(self, group: str) -> Iterator[tuple[str, int]]:
        """The partitions in which they are about to move a group."""
        return chain.from_iterable(self._moving.get(group, {}).values())

    @property
    def open_count(self) -> int:
        return len(self._open)

    def in_doubt(self) -> list[TxnState]:
        """Whose end was decided and may not have been carried out."""
        return [state for state in self.open() if state.stage in ENDING]

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

    def require_producer(self, producer_id: int) -> TxnState:
        state = self.of_producer(producer_id)
        if state is None:
            raise UnknownTransaction(f"There is no producer {producer_id}; init it first.", field="producer_id")
        return state

    def writes_to(self, producer_id: int, topic: str, partition: int, epoch: int = 0) -> bool:
        """Whether a transaction of the producer, of that epoch or later, is open and has messages there."""
        state = self.of_producer(producer_id)
        if state is None or state.stage in IDLE or state.epoch < epoch:
            return False
        return (topic, partition) in state.partitions

    def delayed(self, transactional_id: str) -> list[TxnDelayed]:
        """What waits for the end of the transaction, in order."""
        waiting = self._delayed.get(transactional_id)
        return [waiting[number] for number in sorted(waiting)] if waiting else []
