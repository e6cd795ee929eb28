"""Finds what must never be in a history of transactions."""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from tests.txn.history import History, Outcome, Read, Write


class Kind(enum.StrEnum):
    """The ways in which a history can be wrong."""

    ABORTED_READ = "aborted read"
    LOST = "lost write"
    DOUBLED = "doubled write"
    TORN = "torn transaction"
    TWO_VALUES = "one offset with two values"
    SKIP = "skip within a poll"
    REVERSAL = "reversal within a poll"
    UNWRITTEN = "read of what nobody wrote"


class Violation(msgspec.Struct, frozen=True):
    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check(history: History) -> list[Violation]:
    """All violations; none if the history can be that of a broker that keeps its word."""
    return [
        *_aborted_reads(history),
        *_lost(history),
        *_doubled(history),
        *_torn(history),
        *_two_values(history),
        *_disorder(history),
    ]


def kinds(history: History) -> set[Kind]:
    return {one.kind for one in check(history)}


def _aborted_reads(history: History) -> Iterator[Violation]:
    writers: dict[str, list[Write]] = defaultdict(list)
    for write in history.writes:
        writers[write.value].append(write)
    for read in history.reads:
        mine = writers.get(read.value)
        if not mine:
            yield Violation(Kind.UNWRITTEN, _tell(read))
        elif all(history.outcomes[one.txn] is Outcome.ABORTED for one in mine):
            yield Violation(Kind.ABORTED_READ, f"{_tell(read)}, of {mine[0].txn}")


def _lost(history: History) -> Iterator[Violation]:
    """Committed, or seen by somebody, and not there in the end."""
    there = {(one.partition, one.value) for one in history.final}
    for write in history.writes:
        if history.outcomes[write.txn] is Outcome.COMMITTED and (write.partition, write.value) not in there:
            yield Violation(Kind.LOST, f"{write.value!r} of {write.txn} is not in {write.partition}")
    for read in history.reads:
        if (read.partition, read.value) not in there:
            yield Violation(Kind.LOST, f"{_tell(read)}, and it is not there in the end")


def _doubled(history: History) -> Iterator[Violation]:
    """One value in two places. Reading the same place again is a reader's right, but not within a poll."""
    places: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for read in history.reads:
        places[read.value].add((read.partition, read.offset))
    for value, found in places.items():
        if len(found) > 1:
            yield Violation(Kind.DOUBLED, f"{value!r} is at {sorted(found)}")


def _torn(history: History) -> Iterator[Violation]:
    there = {(one.partition, one.value) for one in history.final}
    by_txn: dict[str, list[Write]] = defaultdict(list)
    for write in history.writes:
        by_txn[write.txn].append(write)
    for txn, writes in by_txn.items():
        seen = sum((one.partition, one.value) in there for one in writes)
        if 0 < seen < len(writes):
            yield Violation(Kind.TORN, f"{seen} of {len(writes)} writes of {txn} are visible in the end")


def _two_values(history: History) -> Iterator[Violation]:
    """Over all readers, and what producers of committed transactions were told."""
    values: dict[tuple[str, int], set[str]] = defaultdict(set)
    for read in history.reads:
        values[(read.partition, read.offset)].add(read.value)
    for write in history.writes:
        if write.offset is not None and history.outcomes[write.txn] is Outcome.COMMITTED:
            values[(write.partition, write.offset)].add(write.value)
    for (partition, offset), found in values.items():
        if len(found) > 1:
            yield Violation(Kind.TWO_VALUES, f"{partition} at {offset} is {sorted(found)}")


def _disorder(history: History) -> Iterator[Violation]:
    """Within a poll offsets rise, and nothing that is visible in the end is passed over."""
    visible: dict[str, list[int]] = defaultdict(list)
    for partition, offset in sorted({(one.partition, one.offset) for one in history.final}):
        visible[partition].append(offset)
    polls: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for read in history.reads:
        polls[(read.reader, read.poll, read.partition)].append(read.offset)
    for (reader, poll, partition), offsets in polls.items():
        where = f"poll {poll} of {reader!r} in {partition}"
        for before, after in pairwise(offsets):
            if after <= before:
                yield Violation(Kind.REVERSAL, f"{where}: {after} after {before}")
        first, last = min(offsets), max(offsets)
        there = visible[partition]
        passed = sorted(set(there[bisect_right(there, first) : bisect_left(there, last)]) - set(offsets))
        if passed:
            yield Violation(Kind.SKIP, f"{where}: {passed[:5]} between {first} and {last}")


def _tell(read: Read) -> str:
    return f"{read.reader!r} read {read.value!r} in {read.partition} at {read.offset}"
