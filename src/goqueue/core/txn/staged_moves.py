"""What is decided about staged sets: a writer opens, named ones are committed as one, the others of their owner go."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import STAGED_PLACES_MAX, STAGED_WRITERS_MAX
from goqueue.core.machine import Decision
from goqueue.core.txn.checks import ending
from goqueue.core.txn.epochs import bumped, first
from goqueue.core.txn.errors import StagedConflict, TransactionTooLarge
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.moves import fenced_off
from goqueue.core.txn.records import IDLE, Record, TxnGone, TxnOwner, TxnStage, TxnState, emptied
from goqueue.core.txn.staged import NamedWriter

_AGAIN: Final = "Nothing was committed; stage the batch again."


def opened(
    machine: Transactions,
    transactional_id: str,
    owner: str,
    batch: int,
    timeout_ms: Millis,
    fresh_id: int,
    now: Millis,
    in_use: Container[str] = (),
    owners_elsewhere: int = 0,
) -> Decision[Record]:
    """The writer begins, or begins again with a new epoch. What it left open has to be ended first.

    A new id takes the place of one that nobody uses, if the owner has as many as it may. `owners_elsewhere` is how many
    owners other coordinators of the node keep.
    """
    state = machine.table.get(transactional_id)
    if state is not None and state.stage not in IDLE:
        raise ending()
    staged = machine.table.staged
    staged.check_writer_room(owner, owners_elsewhere)
    fresh = first(transactional_id, fresh_id) if state is None else bumped(emptied(state), fresh_id)
    begun = replace(
        fresh,
        stage=TxnStage.ONGOING,
        owner=owner,
        batch=batch,
        timeout_ms=timeout_ms,
        session_ms=0,
        started_ms=now,
        updated_ms=now,
        ended_epoch=-1,
        ended_producer_id=-1,
        shown_epoch=-1,
    )
    gone = None if state is not None else next((one for one in staged.surplus(owner) if one not in in_use), None)
    return machine.decided(now, begun, [begun], *([] if gone is None else [TxnGone(gone)]))


def check_named(machine: Transactions, owner: str, batch: int, named: Sequence[NamedWriter]) -> list[TxnState]:
    """The states of all that a commit names; raises for the first that is not open in this set."""
    if len(named) > STAGED_WRITERS_MAX:
        raise TransactionTooLarge(f"A commit names at most {STAGED_WRITERS_MAX} writers.", field="writers")
    states = [_check_one(machine, owner, batch, one, place) for place, one in enumerate(named)]
    if len({state.transactional_id for state in states}) < len(states):
        raise InvalidField("A writer is named twice.", field="writers")
    if sum(len(state.partitions) for state in states) > STAGED_PLACES_MAX:
        raise TransactionTooLarge(
            f"The writers of a batch write to at most {STAGED_PLACES_MAX} partitions, counted for each of them; use "
            "fewer writers.",
            field="writers",
        )
    return states


def _check_one(machine: Transactions, owner: str, batch: int, one: NamedWriter, place: int) -> TxnState:
    state = machine.table.get(one.transactional_id)
    name = one.transactional_id
    if state is None or not state.owner:
        raise _conflict(one, place, f"{name!r} is not staged. {_AGAIN}")
    if (state.owner, state.batch) != (owner, batch):
        message = f"{name!r} is staged for batch {state.batch} of {state.owner!r}, not for batch {batch} of {owner!r}."
        raise _conflict(one, place, f"{message} {_AGAIN}")
    if (state.producer_id, state.epoch) != (one.producer_id, one.epoch) or state.stage is not TxnStage.ONGOING:
        message = f"{name!r} with epoch {one.epoch} is over: it was staged again, aborted, or ran out of time."
        raise _conflict(one, place, f"{message} {_AGAIN}")
    return state


def check_count(one: NamedWriter, place: int, stored: int) -> None:
    """A writer that says how many messages it stored finds all of them."""
    if one.messages is not None and one.messages != stored:
        message = (
            f"{one.transactional_id!r} stored {one.messages} messages, and {stored} are there: the others were lost"
        )
        raise _conflict(one, place, f"{message} with the node's power, or never stored. {_AGAIN}")


def _conflict(one: NamedWriter, place: int, told: str) -> StagedConflict:
    return StagedConflict(told, field=f"writers[{place}]", writer=one.transactional_id)


def commit(
    machine: Transactions,
    owner: str,
    batch: int,
    named: Sequence[NamedWriter],
    others: Iterable[str],
    now: Millis,
    schedules_from: tuple[Offset, ...] = (),
) -> Decision[Record]:
    """The named are committed; of the others those that are open are dropped, and counted. It is one decision: the
    owner's number and the end of every writer are written at once, or nothing is."""
    states = check_named(machine, owner, batch, named)
    chosen = {state.transactional_id for state in states}
    committed = [_committed(state, now, schedules_from) for state in states]
    dropped = _dropped(machine, [name for name in others if name not in chosen], now)
    return machine.decided(now, len(dropped), [*committed, *dropped], TxnOwner(owner, batch, now))


def _committed(state: TxnState, now: Millis, schedules_from: tuple[Offset, ...]) -> TxnState:
    ended = replace(state, stage=TxnStage.PREPARE_COMMIT, updated_ms=now, bumps=True, schedules_from=schedules_from)
    return replace(ended, ended_epoch=-1, ended_producer_id=-1)


def drop(machine: Transactions, names: Iterable[str], now: Millis) -> Decision[Record]:
    """Those that are still open are aborted, their writers shut out, and counted."""
    dropped = _dropped(machine, names, now)
    return machine.decided(now, len(dropped), dropped)


def _dropped(machine: Transactions, names: Iterable[str], now: Millis) -> list[TxnState]:
    states = (machine.table.require(name) for name in names)
    return [fenced_off(state, now) for state in states if state.stage is TxnStage.ONGOING]
