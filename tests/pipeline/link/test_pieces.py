"""Batches are put together until they are worth handing on; what is kept meanwhile is bounded."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from goqueue.base.limits import KIB, MIB
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build
from goqueue.pipeline.arrow.spots import Spot
from goqueue.pipeline.link.fetching import FetchedBatches, rules_for
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.link.reading import _decoded, _in_pieces


def batch(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])


def test_batches_without_rows_are_not_kept() -> None:
    """As of a read of few keys, where most answers have none."""
    empty = batch()
    kept: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(1_000):
            yield empty
        kept.append(sys.getrefcount(empty))
        yield batch(b"v")

    (found,) = _in_pieces(batches())
    assert found["value"].to_pylist() == [b"v"] and found.schema == empty.schema
    assert kept[0] < 100
    assert list(_in_pieces(iter([empty] * 3))) == []


def test_small_batches_count_with_what_each_takes_of_its_own() -> None:
    pieces = list(_in_pieces(batch(b"%d" % number) for number in range(10_000)))
    assert [int(value) for piece in pieces for value in piece["value"].to_pylist()] == [*range(10_000)]
    assert 50 < max(piece.num_rows for piece in pieces) < 1_000


def test_large_batches_are_cut_and_what_was_small_before_comes_first() -> None:
    large = batch(*(b"x" * KIB for _ in range(20 * KIB)))
    pieces = list(_in_pieces(iter([batch(b"first"), large, batch(), batch(b"last")])))
    assert sum(piece.num_rows for piece in pieces) == large.num_rows + 2
    assert (pieces[0]["value"][0].as_py(), pieces[-1]["value"][0].as_py()) == (b"first", b"last")
    assert all(piece.slice(0).nbytes <= 9 * MIB for piece in pieces)


def test_wanted_keys_are_made_ready_once_for_all_groups() -> None:
    rules = rules_for("read_committed", True, MIB, None, (b"a", b"c"))
    assert rules.keys is not None and rules.keys.equals(pa.array([b"a", b"c"], pa.binary()))
    log = b"".join(build([NewRecord(key, key, (), 7) for key in (b"a", b"b")]) for _ in range(3))
    spots = [Spot(read_header(log, at), at) for at in (0, len(log) // 3, 2 * len(log) // 3)]
    groups = list(_decoded(FetchedBatches(OffsetRange("t", 0, 0, 9), log, spots), ["value"], 1, rules))
    assert [group["value"].to_pylist() for group in groups] == [[b"a"]] * 3
