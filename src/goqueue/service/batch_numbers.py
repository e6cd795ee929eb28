"""The numbers of batches that may be sent again: each goes on where the one before in its partition ended."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.base.commands import BatchIdentity
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.core.dedupe import SEQUENCE_MAX
from goqueue.format.records import Sequenced
from goqueue.service.sorting import PartitionBatch


class Numbering:
    """Of one publish. A batch that cannot be stored takes those behind it in its partition with it: a second try must
    not find another one under its number."""

    def __init__(self, identities: Sequence[BatchIdentity]) -> None:
        self._next = {one.partition: Sequenced(one.producer_id, 0, one.sequence) for one in identities}
        self._failed: dict[int, GoQueueError] = {}

    def of(self, pile: PartitionBatch) -> Sequenced | None:
        return self._next.get(pile.partition)

    def failed(self, partition: int) -> GoQueueError | None:
        return self._failed.get(partition)

    def stored(self, pile: PartitionBatch, outcome: Offset | GoQueueError) -> None:
        before = self._next.get(pile.partition)
        if before is None:
            return
        if isinstance(outcome, GoQueueError):
            self._failed[pile.partition] = outcome
        else:
            sequence = (before.sequence + len(pile.records)) & SEQUENCE_MAX
            self._next[pile.partition] = Sequenced(before.producer_id, before.epoch, sequence)
