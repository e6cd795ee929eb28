"""Epochs of producers: each shuts out those before it. Where they are used up, a new producer id begins again at 0."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.core.txn.records import TxnState

EPOCH_MAX: Final = 2**15 - 2  # the last one is kept to fence with
NEW: Final = -1


def epoch_exhausted(state: TxnState) -> bool:
    """Its epochs are used up: the next one takes a new producer id."""
    return state.epoch >= EPOCH_MAX


def first(transactional_id: str, fresh_id: int) -> TxnState:
    """Of a new transactional id."""
    return TxnState(transactional_id, _given(fresh_id), 0)


def bumped(state: TxnState, fresh_id: int) -> TxnState:
    """With the next epoch, or the first of a new producer id."""
    if epoch_exhausted(state):
        return replace(state, producer_id=_given(fresh_id), epoch=0)
    return replace(state, epoch=state.epoch + 1)


def _given(fresh_id: int) -> int:
    """Who asked did not know that a new producer id would be needed, and has to come again with one."""
    if fresh_id == NEW:
        raise ConcurrentTransactions("The producer was forgotten, or its epochs used up, meanwhile; try again.")
    return fresh_id
