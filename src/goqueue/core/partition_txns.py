"""The transactions of one partition: which are open, which were aborted. Readers of committed data go by it.

An open transaction holds such readers back from its first message on; what was aborted is passed over. Everything
follows from the batches in the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from goqueue.base.ids import Offset


class Aborted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One aborted transaction, from its first message to its marker; `stable` is how far readers could go after it."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    stable: Offset


class PartitionTxns:
    """Told of every transactional batch and marker, in order."""

    __slots__ = ("_aborted", "_by_producer", "_open")

    def __init__(self) -> None:
        self._open: dict[int, Offset] = {}  # first offset by producer
        self._aborted: list[Aborted] = []  # in the order of their markers
        self._by_producer: dict[int, tuple[list[Offset], list[Offset]]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._aborted

    @property
    def open(self) -> dict[int, Offset]:
        return dict(self._open)

    @property
    def aborted(self) -> Sequence[Aborted]:
        return self._aborted

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def stable(self, end: Offset) -> Offset:
        """How far readers of committed data may go."""
        return min(end, min(self._open.values())) if self._open else end

    # --- what happens ----------------------------------------------------------------------------------------

    def wrote(self, producer_id: int, base_offset: Offset) -> None:
        """A message of a transaction is in the log."""
        self._open.setdefault(producer_id, base_offset)

    def ended(self, producer_id: int, marker: Offset, committed: bool) -> None:
        """A marker is in the log. One without messages before it means nothing."""
        first = self._open.pop(producer_id, None)
        if first is not None and not committed:
            self._note(Aborted(producer_id, first, marker, self.stable(marker + 1)))

    def _note(self, one: Aborted) -> None:
        self._aborted.append(one)
        firsts, lasts = self._by_producer.setdefault(one.producer_id, ([], []))
        lasts.append(one.last_offset)  # first, as another thread may look here by `firsts`
        firsts.append(one.first_offset)

    # --- questions -------------------------------------------------------------------------------------------

    def is_aborted(self, producer_id: int, offset: Offset) -> bool:
        """Whether the producer's batch there belongs to an aborted transaction."""
        known = self._by_producer.get(producer_id)
        if known is None:
            return False
        at = bisect_right(known[0], offset) - 1
        return at >= 0 and offset <= known[1][at]

    def overlapping(self, begin: Offset, end: Offset) -> list[Aborted]:
        """Aborted transactions with messages from `begin` up to `end`."""
        found: list[Aborted] = []
        at = bisect_left(self._aborted, begin, key=_last_offset)
        for place in range(at, len(self._aborted)):
            one = self._aborted[place]
            if one.first_offset < end:
                found.append(one)
            if one.stable >= end:
                break  # whatever ended later began behind the end
        return found

    # --- upkeep ----------------------------------------------------------------------------------------------

    def cut_head(self, start: Offset) -> None:
        """The log begins later."""
        if self._aborted and self._aborted[0].last_offset < start:
            self._restore([one for one in self._aborted if one.last_offset >= start])
        for producer, first in self._open.items():
            self._open[producer] = max(first, start)

    def cut_tail(self, end: Offset) -> None:
        """The log ends earlier: aborted transactions whose marker is gone are open again. Of committed ones nothing is
        kept; where their markers may be gone the log has to be read again."""
        gone = [one for one in self._aborted if one.last_offset >= end]
        self._restore([one for one in self._aborted if one.last_offset < end])
        for one in gone:
            self._open.setdefault(one.producer_id, one.first_offset)
        self._open = {producer: first for producer, first in self._open.items() if first < end}

    def restore(self, opened: dict[int, Offset], aborted: Sequence[Aborted]) -> None:
        self._open = dict(opened)
        self._restore(aborted)

    def _restore(self, aborted: Sequence[Aborted]) -> None:
        """Other threads may be looking: they see the old or the new, never half of it."""
        fresh = PartitionTxns()
        for one in aborted:
            fresh._note(one)
        self._aborted, self._by_producer = fresh._aborted, fresh._by_producer


def _last_offset(one: Aborted) -> Offset:
    return one.last_offset
