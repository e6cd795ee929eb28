"""Batches of idempotent producers that were refused on a connection, until they come again.

Clients send several batches before the first is answered. If one is refused for the moment, those behind it are out of
order as soon as the partition can be written to again. Told that, Kafka's C client raises its epoch and sends anew
whatever was not acknowledged, in all partitions: also what was stored just before a change of leader, which then is
there twice. So they are refused with the word of the first one, and the client sends all of them again, in order. A
partition that does not know the producer would even store them, and the first one be out of order for good.

The same holds for a batch that was stored and could not be acknowledged: the next leader may cut it off, and this node
lead again before the batches behind it come.

A client begins again with the first batch that it has no good answer for: one that does not come behind the last one
that came. What was refused before that is not missing any more, whoever stored it meanwhile.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from goqueue.base.errors import CorruptBatch, Full, GoQueueError, OutOfOrderSequence, Unavailable
from goqueue.base.ids import TopicPartition
from goqueue.core.dedupe import SEQUENCE_MAX
from goqueue.format.batch import BatchHeader, Buffer, read_header

Writer = tuple[TopicPartition, int, int]  # an epoch of a producer in a partition

WRITERS_MAX: Final = 1_000  # remembered on one connection
BEHIND_MAX: Final = 64  # as many as can be under way on one connection
_FOR_THE_MOMENT: Final = (Unavailable, Full)  # words after which a client sends the same batch again


class _Refused(msgspec.Struct):
    sequence: int
    error: GoQueueError
    was_stored: bool  # and may be there still
    last: int  # the sequence that came last
    behind: int = 0  # batches that were refused because of it, since it came last

    def is_before(self, sequence: int) -> bool:
        return _is_before(self.sequence, sequence)

    def came(self, sequence: int) -> bool:
        """False if the client begins again with it."""
        is_next, self.last = _is_before(self.last, sequence), sequence
        return is_next


class Refusals:
    """Those of one connection."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[Writer, _Refused] = {}

    def before(self, at: TopicPartition, batch: Buffer) -> GoQueueError | None:
        """Why a batch before this one is missing; None if none is known to be."""
        if not self._refused:
            return None
        with suppress(CorruptBatch):
            header = read_header(batch)
            refused = self._refused.get(_writer(at, header))
            if refused is None:
                return None
            if not refused.came(header.base_sequence):
                del self._refused[_writer(at, header)]
            elif not refused.was_stored:
                return _behind(refused, header.base_sequence)
        return None

    def unsettled(self, at: TopicPartition, head: bytes, error: GoQueueError) -> None:
        """The batch with this header is stored here, and could not be acknowledged because of this error."""
        if isinstance(error, _FOR_THE_MOMENT):
            self._remember(at, read_header(head), error, was_stored=True)

    def told(self, at: TopicPartition, batch: Buffer, error: GoQueueError) -> GoQueueError:
        """What the client is told whose batch could not be stored because of this error."""
        if isinstance(error, OutOfOrderSequence):
            header = read_header(batch)
            refused = self._refused.get(_writer(at, header))
            return (None if refused is None else _behind(refused, header.base_sequence)) or error
        if isinstance(error, _FOR_THE_MOMENT):
            with suppress(CorruptBatch):  # which the client hears of when it is looked at
                self._remember(at, read_header(batch), error, was_stored=False)
        return error

    def stored(self, at: TopicPartition, batch: Buffer) -> None:
        """The producer's batches are in order again."""
        if self._refused:
            self._refused.pop(_writer(at, read_header(batch)), None)

    def _remember(self, at: TopicPartition, header: BatchHeader, error: GoQueueError, was_stored: bool) -> None:
        """The first one that is missing, from when it came last."""
        writer, sequence = _writer(at, header), header.base_sequence
        known = self._refused.get(writer)
        if header.producer_id < 0 or (known is not None and known.is_before(sequence)):
            return
        if known is None and len(self._refused) >= WRITERS_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[writer] = _Refused(sequence, error, was_stored, sequence)


def _behind(refused: _Refused, sequence: int) -> GoQueueError | None:
    """The word of the refused batch for one behind it."""
    if not refused.is_before(sequence) or refused.behind >= BEHIND_MAX:
        return None
    refused.behind += 1
    return refused.error


def _is_before(one: int, other: int) -> bool:
    return 0 < (other - one) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


def _writer(at: TopicPartition, header: BatchHeader) -> Writer:
    return at, header.producer_id, header.producer_epoch
