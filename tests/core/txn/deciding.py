"""Decisions of the transaction machine, as a host that never fails takes them."""

from __future__ import annotations

from typing import Any

from goqueue.core.machine import Decision
from goqueue.core.txn.effects import CarryOut, TransactionEnd, TxnTimedOut
from goqueue.core.txn.machine import Transactions, TxnLimits
from goqueue.core.txn.records import Record, TxnState


def new_machine(timeout_ms_max: int = 900_000, idle_ms: int = 1_000_000, owner_ms: int = 1_000_000) -> Transactions:
    return Transactions(TxnLimits(timeout_ms_max, idle_ms, owner_ms))


def take(machine: Transactions, decision: Decision[Record]) -> Any:
    """Its records hold; its reply."""
    for record in decision.records:
        machine.apply(record)
    (reply,) = decision.replies
    return reply.result


def state_in(decision: Decision[Record]) -> TxnState | None:
    """The one state that it decides; None if it decides nothing."""
    states = [one for one in decision.records if isinstance(one, TxnState)]
    assert len(states) < 2
    return states[0] if states else None


def ends_in(decision: Decision[Record]) -> list[TransactionEnd]:
    return [end for one in decision.effects if isinstance(one, CarryOut) for end in one.ends]


def overdue(machine: Transactions, now: int) -> list[str]:
    """Whose time is up by now. It is not written: the machine is told that it could not be."""
    decision = machine.tick(now)
    machine.revert(decision.records, now)
    return [one.transactional_id for one in decision.effects if isinstance(one, TxnTimedOut)]


def complete(machine: Transactions, name: str, now: int, fresh_id: int = -1) -> TxnState | None:
    """Notes that the end of the transaction is carried out."""
    (end,) = [end for end in ends_in(machine.loaded(now)) if end.transactional_id == name]
    done: TxnState | None = take(machine, machine.completed(end, now, fresh_id))
    return done
