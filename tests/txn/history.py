"""What clients did and saw: writes with their transactions, how those ended, and reads of committed data."""

from __future__ import annotations

import enum

import msgspec

FINAL = "the end"  # the reader that reads everything once nothing is open any more


class Outcome(enum.StrEnum):
    """How a transaction ended, as its producer was told. Unknown: it was told nothing, or was gone."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Write(msgspec.Struct, frozen=True):
    """Every value is written by one transaction, once; `partition` is a number, or a topic and a number."""

    txn: str
    partition: str
    value: str
    offset: int | None = None  # if the producer was told


class Read(msgspec.Struct, frozen=True):
    """One message that a reader of committed data was handed, in which of its polls."""

    reader: str
    poll: int
    partition: str
    offset: int
    value: str


class History:
    """Filled while a test runs; the checker reads it afterwards."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.outcomes: dict[str, Outcome] = {}
        self.reads: list[Read] = []
        self._polls: dict[str, int] = {}

    def wrote(self, txn: str, partition: object, value: str, offset: int | None = None) -> None:
        """Note it before it is sent; the transaction counts as unknown until it `ended`."""
        self.outcomes.setdefault(txn, Outcome.UNKNOWN)
        self.writes.append(Write(txn, str(partition), value, offset))

    def ended(self, txn: str, outcome: Outcome) -> None:
        self.outcomes[txn] = outcome

    def polled(self, reader: str, found: list[tuple[object, int, str]]) -> None:
        """One poll of a reader: partition, offset and value of each message, as they came."""
        poll = self._polls[reader] = self._polls.get(reader, 0) + 1
        self.reads += [Read(reader, poll, str(partition), offset, value) for partition, offset, value in found]

    @property
    def final(self) -> list[Read]:
        return [one for one in self.reads if one.reader == FINAL]

    def count(self, outcome: Outcome) -> int:
        return sum(one is outcome for one in self.outcomes.values())
