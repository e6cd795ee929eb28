"""Batches of idempotent producers that were refused on a connection, until they come again.

Clients send several batches before the first is answered. If one is refused for the moment, those behind it are out of
order as soon as the partition can be written to again. Told that, Kafka's C client raises its epoch and sends anew
whatever was not acknowledged, in all partitions: also what was stored just before a change of leader, which then is
there twice. So they are refused with the word of the first one, and the client sends all of them again, in order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from goqueue.base.errors import CorruptBatch, Full, GoQueueError, OutOfOrderSequence, Unavailable
from goqueue.base.ids import TopicPartition
from goqueue.format.batch import BatchHeader, Buffer, read_header

Writer = tuple[TopicPartition, int, int]  # an epoch of a producer in a partition

WRITERS_MAX: Final = 1_000  # remembered on one connection
BEHIND_MAX: Final = 64  # as many as can be under way on one connection
_FOR_THE_MOMENT: Final = (Unavailable, Full)  # words after which a client sends the same batch again


class _Refused(msgspec.Struct):
    sequence: int
    error: GoQueueError
    behind: int = 0  # batches that were refused because of it


class Refusals:
    """Those of one connection."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[Writer, _Refused] = {}

    def told(self, at: TopicPartition, batch: Buffer, error: GoQueueError) -> GoQueueError:
        """What the client is told whose batch could not be stored because of this error."""
        if isinstance(error, OutOfOrderSequence):
            return self._behind(at, read_header(batch)) or error
        if isinstance(error, _FOR_THE_MOMENT):
            with suppress(CorruptBatch):  # which the client hears of when it is looked at
                self._remember(at, read_header(batch), error)
        return error

    def stored(self, at: TopicPartition, batch: Buffer) -> None:
        """The producer's batches are in order again."""
        if self._refused:
            self._refused.pop(_writer(at, read_header(batch)), None)

    def _behind(self, at: TopicPartition, header: BatchHeader) -> GoQueueError | None:
        """Why a batch before this one was refused; None if that is not what is wrong with it."""
        refused = self._refused.get(_writer(at, header))
        if refused is None or header.base_sequence == refused.sequence or refused.behind >= BEHIND_MAX:
            return None
        refused.behind += 1
        return refused.error

    def _remember(self, at: TopicPartition, header: BatchHeader, error: GoQueueError) -> None:
        writer = _writer(at, header)
        if header.producer_id < 0 or writer in self._refused:
            return
        if len(self._refused) >= WRITERS_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[writer] = _Refused(header.base_sequence, error)


def _writer(at: TopicPartition, header: BatchHeader) -> Writer:
    return at, header.producer_id, header.producer_epoch
