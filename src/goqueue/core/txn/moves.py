"""How the state of one transactional id moves on: from state to state, without anything beside it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from goqueue.base.errors import OutOfOrderSequence
from goqueue.base.ids import Millis
from goqueue.base.limits import TXN_ANSWERS_MAX, TXN_DELAYED_MAX, TXN_GROUPS_MAX, TXN_OFFSETS_MAX
from goqueue.core.txn.checks import check_groups, check_room, ending, fenced, wrong
from goqueue.core.txn.epochs import NEW, bumped
from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.core.txn.records import (
    CALLS_KEPT,
    IDLE,
    TxnAnswer,
    TxnCall,
    TxnDelayed,
    TxnOffset,
    TxnStage,
    TxnState,
    emptied,
)


class More(msgspec.Struct, frozen=True):
    """What a transaction is about to touch."""

    partitions: Sequence[tuple[str, int]] = ()
    offsets: Sequence[TxnOffset] = ()
    answers: Sequence[TxnAnswer] = ()
    groups: Sequence[str] = ()
    call: TxnCall | None = None
    delayed: TxnDelayed | None = None


def call_of(state: TxnState, sequence: int) -> TxnCall | None:
    """The publish that had this number; None if it is the next."""
    known = next((one for one in state.calls if one.sequence == sequence), None)
    if known is None and state.calls and sequence <= state.calls[-1].sequence:
        last = state.calls[-1].sequence
        raise OutOfOrderSequence(
            f"The transaction's last publish had the sequence {last}; {sequence} is too old.", field="sequence"
        )
    return known


def fenced_off(state: TxnState, now: Millis) -> TxnState:
    """Aborted, and its producer shut out by a later epoch."""
    aborted = replace(state, stage=TxnStage.PREPARE_ABORT, epoch=state.epoch + 1, updated_ms=now, bumps=False)
    return replace(aborted, ended_epoch=-1, ended_producer_id=-1)


def check_end(state: TxnState, commit: bool) -> None:
    if state.stage is (TxnStage.PREPARE_COMMIT if commit else TxnStage.PREPARE_ABORT):
        raise ConcurrentTransactions("The transaction is being ended; try again in a moment.")
    if state.stage is not TxnStage.ONGOING:
        raise wrong(state, commit)


def is_repeated_init(state: TxnState, producer_id: int, epoch: int) -> bool:
    """Whether the producer began again just so, and did not hear the answer."""
    shown = (state.producer_id, state.shown_epoch)
    return producer_id != NEW and epoch != NEW and shown == (producer_id, epoch) and state.stage is TxnStage.EMPTY


def begun_again(state: TxnState, whose: tuple[int, int], fresh_id: int) -> TxnState:
    """`whose` is what the producer shows of itself: its id and epoch, or `NEW` if it just comes."""
    if whose[0] != NEW and whose != (state.producer_id, state.epoch):
        raise fenced(state, whose[1])
    if state.stage not in IDLE:
        raise ending()
    return bumped(replace(emptied(state), ended_epoch=-1, ended_producer_id=-1), fresh_id)


def with_more(state: TxnState, more: More) -> TxnState:
    places = {(one.group, one.topic, one.partition): one for one in (*state.offsets, *more.offsets)}
    answered = {one.receipt: one for one in (*state.answers, *more.answers)}
    waiting = state.delayed + (0 if more.delayed is None else len(more.delayed.entries))
    groups = {*state.groups, *more.groups}
    check_groups(more.groups)
    check_room(len(groups), TXN_GROUPS_MAX, "groups")
    check_room(len(places), TXN_OFFSETS_MAX, "offsets")
    check_room(len(answered), TXN_ANSWERS_MAX, "receipts")
    check_room(waiting, TXN_DELAYED_MAX, "delayed messages")
    return replace(
        state,
        partitions=tuple(sorted({*state.partitions, *more.partitions})),
        offsets=tuple(places[key] for key in sorted(places)),
        answers=tuple(answered.values()),
        groups=tuple(sorted(groups)),
        calls=(*state.calls, more.call)[-CALLS_KEPT:] if more.call is not None else state.calls,
        delayed=waiting,
    )
