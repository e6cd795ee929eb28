"""What partitions and the coordinator ask each other; questions and answers can be sent to another place as bytes.

A partition asks when the first batch of a transaction comes to it. From then on, until the transaction's marker, it
knows by its own log that the producer may write. The coordinator asks before it commits.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError


class MayWrite(msgspec.Struct, frozen=True, gc=False):
    """May this producer write here, as part of its open transaction?"""

    producer_id: int
    epoch: int
    topic: str
    partition: int


class WriteAnswer(msgspec.Struct, frozen=True):
    """Yes, or the error word that the batch is refused with."""

    error: GoQueueError | None = None


ALLOWED: Final = WriteAnswer()


class IsOpen(msgspec.Struct, frozen=True, gc=False):
    """A partition holds messages of a transaction without a marker, of this epoch: does the coordinator know it?"""

    producer_id: int
    epoch: int
    topic: str
    partition: int


class OpenAnswer(msgspec.Struct, frozen=True, gc=False):
    """Its end will bring a marker; or nobody knows it, and it is to be aborted, as this epoch."""

    abort_as: int | None = None


class EpochSeen(msgspec.Struct, frozen=True, gc=False):
    """A partition knows this epoch of the producer: no later producer may get it again."""

    producer_id: int
    epoch: int


class ProducerActive(msgspec.Struct, frozen=True, gc=False):
    """The producer wrote something. Nobody answers, and one that is lost does no harm."""

    producer_id: int
    epoch: int


class ConfirmWrites(msgspec.Struct, frozen=True):
    """Is all that this producer wrote in its open transaction as durable as the node promises?"""

    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]


class WritesConfirmed(msgspec.Struct, frozen=True, gc=False):
    """It is, and there are so many messages of this epoch."""

    messages: int
