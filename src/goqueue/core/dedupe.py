"""Idempotent producers: which batch is new, which was stored already, which must not be stored.

For each producer id the epoch and the last five batches are kept. A sequence counts only after its batch is in the log
(`appended`), so a failed append leaves no trace and its retry is new. State is rebuilt from a snapshot and the batches
behind it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.errors import InvalidProducerEpoch, OutOfOrderSequence
from goqueue.base.ids import Millis, Offset
from goqueue.format.batch import BatchHeader

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """One stored batch."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset


class ProducerState(msgspec.Struct):
    """What is known of one producer id in one partition."""

    producer_id: int
    epoch: int
    marks: list[StoredBatch]
    seen_ms: Millis

    @property
    def last_sequence(self) -> int:
        return self.marks[-1].last_sequence if self.marks else -1


class Dedupe:
    """The idempotent producers of one partition."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def producers(self) -> list[ProducerState]:
        return list(self._producers.values())

    def check(self, header: BatchHeader) -> StoredBatch | None:
        """None if the batch is new; the mark of the stored one if it is a repetition; else an error word."""
        known = self._producers.get(header.producer_id)
        if header.producer_id < 0 or known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"Producer {header.producer_id} has epoch {header.producer_epoch}; epoch {known.epoch} took its place."
            )
        if header.producer_epoch > known.epoch:
            if header.base_sequence != 0:
                raise _out_of_order(header, "a new epoch begins at sequence 0")
            return None
        last = _advance(header.base_sequence, header.last_offset_delta)
        for mark in known.marks:
            if (mark.first_sequence, mark.last_sequence) == (header.base_sequence, last):
                return mark
        if known.marks and header.base_sequence != _advance(known.last_sequence, 1):
            raise _out_of_order(header, f"the last one stored is {known.last_sequence}")
        return None

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """What the producer's next batch has to begin with."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch != epoch or not known.marks:
            return 0
        return _advance(known.last_sequence, 1)

    def epoch_of(self, producer_id: int) -> int:
        known = self._producers.get(producer_id)
        return 0 if known is None else known.epoch

    def last_offset(self, producer_id: int) -> Offset:
        """Of the producer's last batch; -1 if none is known."""
        known = self._producers.get(producer_id)
        return known.marks[-1].last_offset if known is not None and known.marks else -1

    def find(self, producer_id: int, epoch: int, first_sequence: int) -> StoredBatch | None:
        """The producer's batch with that sequence, if it is one of the last."""
        known = self._producers.get(producer_id)
        marks = known.marks if known is not None and known.epoch == epoch else []
        return next((mark for mark in marks if mark.first_sequence == first_sequence), None)

    def appended(self, header: BatchHeader, base_offset: Offset, now: Millis) -> None:
        """The batch is in the log."""
        if header.producer_id < 0:
            return
        known = self._producers.get(header.producer_id)
        if header.is_control:  # a marker with a newer epoch shuts out the producer's older selves
            if known is None or header.producer_epoch > known.epoch:
                self._producers[header.producer_id] = ProducerState(header.producer_id, header.producer_epoch, [], now)
            return
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = ProducerState(
                header.producer_id, header.producer_epoch, [], now
            )
        last = _advance(header.base_sequence, header.last_offset_delta)
        known.marks.append(StoredBatch(header.base_sequence, last, base_offset, base_offset + header.last_offset_delta))
        del known.marks[:-BATCHES_KEPT]
        known.seen_ms = now

    def become(self, other: Dedupe) -> None:
        """What another has found out is known from now on, and nothing else."""
        self._producers = other._producers

    def cut(self, end_offset: Offset) -> None:
        """The log ends earlier: what was beyond is not stored."""
        for known in self.producers():
            left = [mark for mark in known.marks if mark.last_offset < end_offset]
            if known.marks and not left:
                del self._producers[known.producer_id]
            known.marks = left

    def shift(self, by_ms: Millis) -> None:
        """The clock was set: who was heard a minute ago was heard a minute ago."""
        for known in self._producers.values():
            known.seen_ms += by_ms

    def expire(self, before: Millis) -> None:
        """Forgets producers not heard of since; their next batch counts as a first one."""
        for known in self.producers():
            if known.seen_ms < before:
                del self._producers[known.producer_id]

    def restore(self, producers: list[ProducerState]) -> None:
        self._producers = {known.producer_id: known for known in producers}


def _advance(sequence: int, by: int) -> int:
    """Sequences wrap to 0 after the largest."""
    return (sequence + by) & SEQUENCE_MAX


def _out_of_order(header: BatchHeader, why: str) -> OutOfOrderSequence:
    return OutOfOrderSequence(f"Producer {header.producer_id} sent sequence {header.base_sequence}; {why}.")
