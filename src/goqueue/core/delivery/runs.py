"""Asks about many messages of a view at once: those of a lent range are told together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from goqueue.base.ids import Millis, Offset
from goqueue.core.delivery.delivery_state import DeliveryState
from goqueue.core.delivery.lane import Lease
from goqueue.core.delivery.lent import LentRange


class History(NamedTuple):
    """How often a message was handed out and how often it failed so far, and when it was first handed out."""

    handed: int
    failed: int
    first_ms: Millis


def is_row(offsets: Sequence[Offset]) -> bool:
    """Whether each is the one behind the one before it."""
    if isinstance(offsets, range):
        return offsets.step == 1 and bool(offsets)
    return offsets == [*range(offsets[0], offsets[0] + len(offsets))] if offsets else False


def as_row(offsets: Sequence[Offset]) -> Sequence[Offset]:
    """As a `range` if they are a row: then nobody need look at each of them again."""
    return range(offsets[0], offsets[-1] + 1) if is_row(offsets) else offsets


def histories(state: DeliveryState, offsets: Sequence[Offset]) -> list[tuple[int, History]]:
    """Those of messages that were looked at and are not done, by stretches that have the same: how many, and which."""
    whole = _range_of_all(state, offsets)
    if whole is not None:
        return [(len(offsets), _lent_history(whole))]
    found = groupby(_history(state, offset) for offset in offsets)
    return [(len(list(some)), history) for history, some in found]


def owners_of(state: DeliveryState, offsets: Sequence[Offset], attempt: int, nonce: str) -> set[str] | None:
    """Who has these messages, if a receipt with the attempt and the nonce names the live lease of each of them."""
    whole = _range_of_all(state, offsets)
    if whole is not None:
        return {whole.lease.owner} if attempt == 1 and whole.lease.nonce == nonce else None
    owners: set[str] = set()
    for offset in offsets:
        lease, handed = _lease_of(state, offset)
        if lease is None or handed != attempt or lease.nonce != nonce:
            return None
        owners.add(lease.owner)
    return owners


def split_lent(state: DeliveryState, offsets: Sequence[Offset]) -> tuple[list[tuple[Offset, Offset]], list[Offset]]:
    """The messages of lent ranges, first and last of each row of them; and the others."""
    if not state.lent:
        return [], list(offsets)
    if _range_of_all(state, offsets) is not None:
        return [(offsets[0], offsets[-1])], []
    rows: list[tuple[Offset, Offset]] = []
    others: list[Offset] = []
    for offset in offsets:
        if state.lent.find(offset) is None:
            others.append(offset)
        elif rows and rows[-1][1] == offset - 1:
            rows[-1] = (rows[-1][0], offset)
        else:
            rows.append((offset, offset))
    return rows, others


def _range_of_all(state: DeliveryState, offsets: Sequence[Offset]) -> LentRange | None:
    """The range, if they are a row and all are in one."""
    if not state.lent or not offsets:
        return None
    one = state.lent.find(offsets[0])
    return one if one is not None and offsets[-1] <= one.last and is_row(offsets) else None


def _history(state: DeliveryState, offset: Offset) -> History:
    held = state.held.get(offset)
    if held is not None:
        return History(held.handed, held.failed, held.first_ms)
    one = state.lent.find(offset)
    if one is None:
        raise KeyError(offset)
    return _lent_history(one)


def _lent_history(one: LentRange) -> History:
    return History(1, 0, one.first_ms)


def _lease_of(state: DeliveryState, offset: Offset) -> tuple[Lease | None, int]:
    """With how often the message was handed out."""
    held = state.held.get(offset)
    if held is not None:
        return held.lease, held.handed
    one = state.lent.find(offset)
    return (None, 0) if one is None else (one.lease, 1)
