"""Keys live where Kafka's own clients put them."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import UnknownPartition
from goqueue.core.partitioner import Partitioner, murmur2

# From the tests of Kafka's Java client, as signed numbers.
GOLDEN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), GOLDEN.items())
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0x7FFFFFFF


@given(st.binary(max_size=200))
def test_murmur2_agrees_with_another_client(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0x7FFFFFFF


@pytest.mark.parametrize("name", ["murmur2", "murmur3"])
def test_a_key_always_goes_to_the_same_partition_and_keys_spread(name: str) -> None:
    partitioner = Partitioner(name)
    chosen = [partitioner.choose(str(number).encode(), None, 10) for number in range(1000)]
    assert chosen == [Partitioner(name).choose(str(number).encode(), None, 10) for number in range(1000)]
    assert min(chosen.count(partition) for partition in range(10)) > 60


def test_an_explicit_partition_wins_and_must_exist() -> None:
    partitioner = Partitioner("murmur2")
    assert partitioner.choose(b"key", 7, 10) == 7
    for wrong in (-1, 10):
        with pytest.raises(UnknownPartition):
            partitioner.choose(b"key", wrong, 10)


def test_messages_without_a_key_stay_together_within_a_publish() -> None:
    partitioner = Partitioner("murmur2")
    places = []
    for _ in range(4):
        partitioner.begin_publish()
        places.append([partitioner.choose(None, None, 3) for _ in range(3)])
    assert places == [[0] * 3, [1] * 3, [2] * 3, [0] * 3]
