"""Messages that one poll was handed of one partition, as long as all that can be said of one holds for the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from goqueue.base.commands import Stored
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Delivered, receipt_ends
from goqueue.format.records import Record

_headers_of: Final = attrgetter("headers")


class LeasedRun(msgspec.Struct, frozen=True):
    """All were handed out equally often, this time included: their receipts differ in the offset alone."""

    at: TopicPartition
    nonce: str
    attempt: int
    failures: int
    leased_until_ms: Millis
    first_leased_ms: Millis
    records: Sequence[Record]

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return sum([len(record.value or b"") for record in self.records])

    @property
    def receipt_ends(self) -> tuple[str, str]:
        """What stands before and behind the offset in each receipt."""
        return receipt_ends(self.at, self.attempt, self.nonce)

    def messages(self) -> list[Delivered]:
        """One by one."""
        topic, partition, (head, tail) = self.at.topic, self.at.partition, self.receipt_ends
        told = (self.attempt, self.failures, self.leased_until_ms, self.first_leased_ms)
        return [
            Delivered(
                Stored(topic, partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers),
                f"{head}{one.offset}{tail}",
                *told,
            )
            for one in self.records
        ]


def has_headers(records: Iterable[Record]) -> bool:
    """Whether one of them has any."""
    return any(map(_headers_of, records))


def messages_of(runs: Iterable[LeasedRun]) -> list[Delivered]:
    return [one for run in runs for one in run.messages()]
