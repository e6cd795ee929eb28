"""What the coordinator raises for, in its own words."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.base.errors import InvalidField, InvalidGroup
from goqueue.base.limits import GROUP_NAME_CHARS_MAX, TXN_ID_CHARS_MAX
from goqueue.core.txn.errors import ConcurrentTransactions, InvalidTxnState, ProducerFenced, TransactionTooLarge
from goqueue.core.txn.records import TxnState


def check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidField("The transactional id is empty; give it a name.", field="transactional_id")
    if len(transactional_id) > TXN_ID_CHARS_MAX or "\0" in transactional_id:
        raise InvalidField(
            f"A transactional id has at most {TXN_ID_CHARS_MAX} characters, and none of them is NUL.",
            field="transactional_id",
        )


def check_room(count: int, most: int, what: str) -> None:
    if count > most:
        raise TransactionTooLarge(f"A transaction holds at most {most} {what}; commit more often.")


def check_groups(names: Iterable[str]) -> None:
    """They are written down with the transaction, whether such groups are there or not."""
    if any(len(name) > GROUP_NAME_CHARS_MAX for name in names):
        raise InvalidGroup(f"A group's name has at most {GROUP_NAME_CHARS_MAX} characters.", field="group")


def fenced(state: TxnState, epoch: int) -> ProducerFenced:
    return ProducerFenced(
        f"Epoch {epoch} of {state.transactional_id!r} is over, {state.epoch} took its place: another producer began "
        "with this id, or the transaction ran out of time. Init again.",
        field="epoch",
    )


def ending() -> ConcurrentTransactions:
    return ConcurrentTransactions("The producer's last transaction is being ended; try again in a moment.")


def not_open(state: TxnState) -> InvalidTxnState:
    return InvalidTxnState(f"No transaction of {state.transactional_id!r} is open; begin one first.")


def staged_only(state: TxnState) -> InvalidTxnState:
    return InvalidTxnState(
        f"{state.transactional_id!r} is a staged writer of {state.owner!r}: it begins by being staged and is committed "
        "with its batch."
    )


def wrong(state: TxnState, commit: bool) -> InvalidTxnState:
    wanted = "committed" if commit else "aborted"
    return InvalidTxnState(f"The transaction of {state.transactional_id!r} is {state.stage}; it cannot be {wanted}.")
