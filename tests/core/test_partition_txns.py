"""The transactions of a partition, against a model that remembers every message."""

from __future__ import annotations

import random

import pytest

from goqueue.core.partition_txns import PartitionTxns


class Model:
    """Keeps the whole log in the open: (producer, is_marker, committed)."""

    def __init__(self) -> None:
        self.log: list[tuple[int, bool, bool]] = []
        self.start = 0

    def end_of(self, offset: int) -> int | None:
        """The marker that ends the transaction of a message, if it is there."""
        producer = self.log[offset][0]
        markers = (at for at in range(offset, len(self.log)) if self.log[at][:2] == (producer, True))
        return next(markers, None)

    def first_of(self, offset: int) -> int:
        """The first message of the transaction that a message or marker belongs to."""
        producer = self.log[offset][0]
        first = offset
        for at in range(offset - 1, -1, -1):
            if self.log[at][0] == producer:
                if self.log[at][1]:
                    break
                first = at
        return first

    def messages(self) -> list[int]:
        return [at for at, (_, is_marker, _) in enumerate(self.log) if not is_marker and at >= self.start]

    def is_aborted(self, offset: int) -> bool:
        marker = self.end_of(offset)
        return marker is not None and not self.log[marker][2]

    def stable(self) -> int:
        return min((at for at in self.messages() if self.end_of(at) is None), default=len(self.log))

    def overlapping(self, begin: int, end: int) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for marker, (producer, is_marker, committed) in enumerate(self.log):
            if is_marker and not committed and marker >= begin:
                first = self.first_of(marker)
                if first < marker and first < end:
                    found.add((producer, first))
        return found


def a_log(chance: random.Random, length: int) -> tuple[Model, PartitionTxns]:
    model, txns = Model(), PartitionTxns()
    for _ in range(length):
        producer, kind = chance.randrange(4), chance.random()
        offset = len(model.log)
        if kind < 0.6:
            model.log.append((producer, False, False))
            txns.wrote(producer, offset)
        else:
            committed = kind < 0.8
            model.log.append((producer, True, committed))
            txns.ended(producer, offset, committed)
    return model, txns


@pytest.mark.parametrize("seed", range(150))
def test_it_knows_what_is_open_and_aborted(seed: int) -> None:
    chance = random.Random(seed)
    model, txns = a_log(chance, chance.randrange(1, 60))
    end = len(model.log)
    assert txns.stable(end) == model.stable()
    for offset in model.messages():
        if offset < model.stable():
            assert txns.is_aborted(model.log[offset][0], offset) == model.is_aborted(offset), offset
    for _ in range(20):
        begin = chance.randrange(end)
        until = chance.randrange(begin, end) + 1
        if until <= model.stable():
            found = {(one.producer_id, one.first_offset) for one in txns.overlapping(begin, until)}
            assert found == model.overlapping(begin, until)


@pytest.mark.parametrize("seed", range(80))
def test_a_snapshot_says_the_same(seed: int) -> None:
    model, txns = a_log(random.Random(seed), 40)
    copy = PartitionTxns()
    copy.restore(txns.open, list(txns.aborted))
    assert (copy.open, list(copy.aborted)) == (txns.open, list(txns.aborted))
    assert copy.stable(40) == model.stable()
    for offset in model.messages():
        producer = model.log[offset][0]
        assert copy.is_aborted(producer, offset) == txns.is_aborted(producer, offset)


@pytest.mark.parametrize("seed", range(80))
def test_a_log_that_begins_later_forgets_what_it_had_before(seed: int) -> None:
    chance = random.Random(seed)
    model, txns = a_log(chance, 50)
    start = chance.randrange(50)
    before = txns.overlapping(start, 50)
    txns.cut_head(start)
    assert all(one.last_offset >= start for one in txns.aborted)
    assert txns.overlapping(start, 50) == before
    assert txns.stable(50) == (max(model.stable(), start) if txns.open else 50)


@pytest.mark.parametrize("seed", range(80))
def test_a_log_that_loses_abort_markers_has_those_transactions_open_again(seed: int) -> None:
    chance = random.Random(seed)
    model, txns = a_log(chance, 50)
    end = chance.randrange(1, 50)
    txns.cut_tail(end)
    del model.log[end:]
    lost = {at for at in model.messages() if model.end_of(at) is None}
    opened = set(txns.open.items())
    assert opened <= {(model.log[at][0], model.first_of(at)) for at in lost}
    assert all(one.last_offset < end for one in txns.aborted)


def test_a_marker_without_messages_means_nothing() -> None:
    txns = PartitionTxns()
    txns.ended(1, 0, False)
    txns.ended(1, 1, True)
    assert txns.is_empty and txns.stable(2) == 2


def test_thousands_of_aborted_ones_are_not_looked_at_one_by_one() -> None:
    txns = PartitionTxns()
    for number in range(10_000):
        txns.wrote(number % 7, 2 * number)
        txns.ended(number % 7, 2 * number + 1, False)
    assert [one.first_offset for one in txns.overlapping(10_000, 10_004)] == [10_000, 10_002]
    assert txns.is_aborted(5_000 % 7, 10_000)
