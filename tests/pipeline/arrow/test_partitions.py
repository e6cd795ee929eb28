"""Where rows go: as the broker and Kafka's own clients decide it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as stock_murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.core.partitioner import Partitioner
from goqueue.pipeline.arrow.murmur import murmur2
from goqueue.pipeline.arrow.partitions import partitions_of, split
from goqueue.pipeline.arrow.rows import rows_of
from goqueue.pipeline.link.errors import PipelineError

keys = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=50)


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=50))
def test_keys_hash_as_in_kafkas_clients(found: list[bytes]) -> None:
    assert murmur2(pa.array(found, pa.binary())).tolist() == [stock_murmur2(key) & 0x7FFFFFFF for key in found]


@settings(deadline=None)
@given(keys, st.integers(1, 50), st.sampled_from(["murmur2", "murmur3"]), st.integers(0, 9), st.integers(0, 3))
def test_rows_go_where_the_broker_would_put_them(
    found: list[bytes | None], count: int, hash_name: str, turn: int, skip: int
) -> None:
    column = pa.array([b"skipped"] * skip + found, pa.binary()).slice(skip)
    rows = rows_of(pa.record_batch({"value": column, "key": column}), 0)
    broker = Partitioner(hash_name)
    for _ in range(turn + 1):
        broker.begin_publish()
    chosen = partitions_of(rows, None, count, turn, hash_name)
    assert chosen.tolist() == [broker.choose(key, None, count) for key in found]
    parts = {number: part.values.to_pylist() for number, part in split(rows, chosen)}
    assert parts == {
        number: [key for key, at in zip(found, chosen.tolist(), strict=True) if at == number]
        for number in sorted(set(chosen.tolist()))
    }


def test_a_row_that_names_its_partition_goes_there() -> None:
    rows = rows_of(pa.record_batch({"value": ["a", "b", "c"], "key": ["x", None, "x"]}), 0)
    named = pa.array([3, None, None], pa.int32())
    assert partitions_of(rows, named, 4, 1).tolist()[:2] == [3, 1]
    assert partitions_of(rows, named, 4, 1)[2] == partitions_of(rows, None, 4, 1)[2]


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (pa.array([4]), "names partition 4; the topic has 0 to 3"),
        (pa.array([-1]), "names partition -1"),
        (pa.array(["1"]), "it must be an integer"),
    ],
)
def test_partitions_that_are_not_there_are_refused(named: pa.Array, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        partitions_of(rows_of(pa.record_batch({"value": ["a"]}), 0), named, 4, 0)


def test_no_rows_are_no_parts() -> None:
    rows = rows_of(pa.record_batch({"value": pa.array([], pa.binary())}), 0)
    assert list(split(rows, partitions_of(rows, None, 4, 0))) == []
