"""Epochs of producers: each shuts out those before it. Where they are used up, a new producer id begins again at 0."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from goqueue.core.txn.records import TxnState

EPOCH_MAX: Final = 2**15 - 2  # the last one is kept to fence with
NEW: Final = -1


def epoch_exhausted(state: TxnState) -> bool:
    """Its epochs are used up: the next one takes a new producer id."""
    return state.epoch >= EPOCH_MAX


def bumped(state: TxnState, fresh_id: int) -> TxnState:
    if epoch_exhausted(state):
        return replace(state, producer_id=fresh_id, epoch=0)
    return replace(state, epoch=state.epoch + 1)
