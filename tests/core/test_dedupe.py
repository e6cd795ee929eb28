"""Idempotent producers: every retry is recognised, every gap refused, nothing counts before it is stored."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import InvalidProducerEpoch, OutOfOrderSequence
from goqueue.core.dedupe import BATCHES_KEPT, SEQUENCE_MAX, Dedupe
from goqueue.format.batch import BatchHeader, read_header
from goqueue.format.records import NewRecord, build

PLAIN = read_header(build([NewRecord(None, b"v", (), 1)]))


def batch(sequence: int, count: int = 1, epoch: int = 0, producer: int = 7) -> BatchHeader:
    return msgspec.structs.replace(
        PLAIN,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=count - 1,
        record_count=count,
    )


def store(dedupe: Dedupe, header: BatchHeader, offset: int) -> None:
    assert dedupe.check(header) is None
    dedupe.appended(header, offset, now=1_000)


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(0, 3), 100)
    store(dedupe, batch(3, 2), 103)
    mark = dedupe.check(batch(0, 3))
    assert mark is not None and (mark.base_offset, mark.last_offset) == (100, 102)


def test_a_sequence_that_was_not_stored_does_not_count() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(0), 0)
    assert dedupe.check(batch(1)) is None, "the append then fails"
    assert dedupe.check(batch(1)) is None, "so its retry is new"


def test_gaps_and_old_batches_are_refused() -> None:
    dedupe = Dedupe()
    for number in range(10):
        store(dedupe, batch(number), number)
    with pytest.raises(OutOfOrderSequence):
        dedupe.check(batch(11))
    with pytest.raises(OutOfOrderSequence):
        dedupe.check(batch(10 - BATCHES_KEPT - 1))
    assert dedupe.check(batch(10 - BATCHES_KEPT)) is not None


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(0), 0)
    with pytest.raises(OutOfOrderSequence):
        dedupe.check(batch(5, epoch=1))
    store(dedupe, batch(0, epoch=1), 1)
    with pytest.raises(InvalidProducerEpoch):
        dedupe.check(batch(1, epoch=0))


def test_sequences_wrap_around() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(SEQUENCE_MAX - 1, 2), 0)
    store(dedupe, batch(0), 2)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(500), 0)
    with pytest.raises(OutOfOrderSequence):
        dedupe.check(batch(502))


def test_a_cut_log_forgets_what_it_lost() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(0), 0)
    store(dedupe, batch(1), 1)
    dedupe.cut(1)
    store(dedupe, batch(1), 1)


def test_producers_that_are_silent_for_long_are_forgotten() -> None:
    dedupe = Dedupe()
    store(dedupe, batch(0), 0)
    dedupe.expire(before=1_000)
    assert len(dedupe) == 1
    dedupe.expire(before=1_001)
    assert len(dedupe) == 0


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=40))
def test_any_mix_of_losses_and_retries_stores_each_batch_once(plan: list[tuple[int, bool, bool]]) -> None:
    """A client that resends until it is answered; appends may fail, answers may be lost."""
    dedupe = Dedupe()
    log: list[int] = []
    sequence = 0
    for count, append_fails, answer_is_lost in plan:
        header = batch(sequence, count)
        for attempt in range(3):
            mark = dedupe.check(header)
            if mark is not None:
                assert log[mark.base_offset] == sequence
                break
            if append_fails and attempt == 0:
                continue
            dedupe.appended(header, len(log), now=1)
            log += range(sequence, sequence + count)
            if not answer_is_lost:
                break
        sequence += count
    assert log == list(range(sequence))
