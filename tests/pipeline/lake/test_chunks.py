"""How a replay is cut: nothing lost, nothing twice, every partition in order, time across partitions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.pipeline.lake.chunks import Block, cut, in_order
from goqueue.pipeline.link.place import OffsetRange, Place


def blocks_of(topic: str, partition: int, times: list[int], size: int = 10) -> list[Block]:
    return [Block(topic, partition, at * size, at * size + size, size, time) for at, time in enumerate(times)]


def test_a_chunk_is_a_range_in_each_partition() -> None:
    found = cut([*blocks_of("a", 0, [1, 2]), *blocks_of("a", 1, [1, 2])], 40)
    assert [(chunk.ranges, chunk.rows) for chunk in found] == [
        ((OffsetRange("a", 0, 0, 20), OffsetRange("a", 1, 0, 20)), 40)
    ]


def test_partitions_go_by_time() -> None:
    order = in_order([*blocks_of("a", 0, [5, 6]), *blocks_of("b", 0, [1, 9])])
    assert [(block.topic, block.start) for block in order] == [("b", 0), ("a", 0), ("a", 10), ("b", 10)]


def test_a_clock_that_went_back_does_not_turn_a_partition_round() -> None:
    order = in_order(blocks_of("a", 0, [9, 1, 5]))
    assert [block.start for block in order] == [0, 10, 20]


def test_a_block_too_large_is_a_chunk_of_its_own() -> None:
    assert [chunk.rows for chunk in cut(blocks_of("a", 0, [1, 2, 3]), 3)] == [10, 10, 10]
    assert cut([], 3) == []


PLACES = st.tuples(st.sampled_from("ab"), st.integers(0, 2))
LANES = st.dictionaries(PLACES, st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50)), min_size=1, max_size=12))


@settings(max_examples=200, deadline=None)
@given(LANES, st.integers(1, 30), st.randoms(use_true_random=False))
def test_every_message_is_in_exactly_one_chunk_and_in_order(lanes, rows_max, random) -> None:  # type: ignore[no-untyped-def]
    blocks = []
    for (topic, partition), lane in lanes.items():
        at = 0
        for rows, time in lane:
            blocks.append(Block(topic, partition, at, at + rows, rows, time))
            at += rows + 3  # holes lie between blocks
    random.shuffle(blocks)
    chunks = cut(blocks, rows_max)
    reached: dict[Place, int] = {}
    for chunk in chunks:
        for one in chunk.ranges:
            assert one.start >= reached.get(one.place, 0)
            reached[one.place] = one.end
    for block in blocks:
        inside = [
            chunk
            for chunk in chunks
            for one in chunk.ranges
            if one.place == Place(block.topic, block.partition) and one.start <= block.start and block.end <= one.end
        ]
        assert len(inside) == 1
    assert sum(chunk.rows for chunk in chunks) == sum(block.rows for block in blocks)
    largest = max((block.rows for block in blocks), default=0)
    assert all(chunk.rows <= max(rows_max, largest) for chunk in chunks)
