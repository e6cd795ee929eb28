"""Which batches a reader of committed data sees, against a plain model of transactions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch
from goqueue.format.batch import Buffer, read_header, stamp
from goqueue.format.control import marker
from goqueue.format.records import InTransaction, NewRecord, build
from goqueue.pipeline.arrow.spots import Spot
from goqueue.pipeline.link.visible import sound_batches, visible
from goqueue.wire.messages.fetch import AbortedTransaction

# What happens in a log: a producer writes so many messages in its transaction, or ends it; -1 writes without one.
steps = st.tuples(st.integers(-1, 3), st.sampled_from(["write", "write", "commit", "abort"]), st.integers(1, 3))


class Story:
    """A log, and which of its offsets hold committed messages."""

    def __init__(self, script: list[tuple[int, str, int]]) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.committed: set[int] = set()
        self.aborted: list[tuple[int, int, int]] = []  # producer, first offset, its marker
        self._open: dict[int, list[int]] = {}
        for producer, what, count in script:
            self._happen(producer, what, count)
        for producer in list(self._open):
            self._happen(producer, "abort", 0)

    def _happen(self, producer: int, what: str, count: int) -> None:
        if what == "write":
            txn = None if producer < 0 else InTransaction(producer, 0, 0)
            records = [NewRecord(None, b"%d" % (self.end + at), (), 1) for at in range(count)]
            offsets = self._append(build(records, 0, txn), count)
            if producer < 0:
                self.committed.update(offsets)
            else:
                self._open.setdefault(producer, []).extend(offsets)
        elif producer in self._open:
            written = self._open.pop(producer)
            (end,) = self._append(marker(producer, 0, what == "commit", 1), 1)
            if what == "commit":
                self.committed.update(written)
            else:
                self.aborted.append((producer, written[0], end))

    def _append(self, batch: bytes, count: int) -> range:
        self.batches.append(b"".join(map(bytes, stamp(batch, self.end, 0))))
        self.end += count
        return range(self.end - count, self.end)

    def fetch(self, offset: int, size: int) -> tuple[Buffer, list[AbortedTransaction]]:
        """As the broker answers: whole batches from the one that holds the offset on."""
        first = next(at for at, batch in enumerate(self.batches) if read_header(batch).last_offset >= offset)
        chosen = self.batches[first : first + size]
        end = read_header(chosen[-1]).next_offset
        told = [(who, start) for who, start, ended in self.aborted if ended >= offset and start < end]
        return b"".join(chosen), [AbortedTransaction(*one) for one in told]


def offsets_in(spots: list[Spot]) -> list[int]:
    return [offset for spot in spots for offset in range(spot.header.base_offset, spot.header.next_offset)]


@settings(deadline=None, max_examples=300)
@given(st.lists(steps, min_size=1, max_size=40), st.data())
def test_exactly_what_was_committed_is_seen_wherever_fetches_begin_and_end(
    script: list[Any], data: st.DataObject
) -> None:
    story = Story(script)
    if not story.batches:
        return
    offset = start = data.draw(st.integers(0, story.end - 1))
    end = data.draw(st.integers(start + 1, story.end))
    seen: list[int] = []
    while offset < end:
        buffer, aborted = story.fetch(offset, data.draw(st.integers(1, 5)))
        spots, reached = sound_batches(buffer, offset, end)
        seen += [one for one in offsets_in(visible(spots, aborted)) if one >= offset]
        assert reached > offset
        offset = reached
    assert [one for one in seen if one < end] == [one for one in sorted(story.committed) if start <= one < end]


def test_without_a_list_everything_but_markers_is_seen() -> None:
    story = Story([(1, "write", 2), (1, "abort", 0), (-1, "write", 1)])
    buffer, _ = story.fetch(0, 9)
    assert offsets_in(visible(sound_batches(buffer, 0, 9)[0], ())) == [0, 1, 3]


def test_a_cut_batch_is_left_for_the_next_fetch() -> None:
    batch = one_message(0)
    assert sound_batches(batch + one_message(1)[:-1], 0, 9) == ([Spot(read_header(batch), 0)], 1)


def test_a_damaged_batch_is_refused_when_its_turn_comes() -> None:
    good, batch = one_message(0), one_message(1)
    for place in range(16, len(batch)):
        spoiled = bytearray(batch)
        spoiled[place] ^= 1
        assert sound_batches(good + spoiled, 0, 9)[1] == 1
        assert sound_batches(good + spoiled, 0, 1)[1] == 1
        with pytest.raises(CorruptBatch):
            sound_batches(spoiled, 1, 9)


def test_what_lies_behind_the_end_is_not_looked_at() -> None:
    buffer = one_message(0) + one_message(5)
    assert sound_batches(buffer[:-1] + b"X", 0, 5) == ([Spot(read_header(buffer), 0)], 5)
    assert len(sound_batches(buffer, 0, 6)[0]) == 2


@pytest.mark.parametrize("buffer", [b"x" * 20, b"\xff" * 200])
def test_a_fetch_that_brings_nothing_new_is_refused(buffer: bytes) -> None:
    for junk in (buffer, one_message(0)):
        with pytest.raises(CorruptBatch, match="no whole batch"):
            sound_batches(junk, 1, 9)


def one_message(offset: int) -> bytes:
    return b"".join(map(bytes, stamp(build([NewRecord(None, b"value", (), 1)]), offset, 0)))
