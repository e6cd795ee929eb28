"""How a replay is cut into chunks that are sent one after the other, each as a whole.

Messages are counted in blocks of neighbouring offsets. Blocks of one partition keep their order; those of different
partitions go by time. A chunk is a range of offsets in each partition, so it holds the same messages whenever it is
read, whatever else comes into the archive and however its files are laid out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.pipeline.link.place import OffsetRange, Place


class Block(msgspec.Struct, frozen=True):
    """Some messages of one partition: offsets from `start` up to `end`, the oldest of `time_ms`."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    time_ms: int


class Chunk(msgspec.Struct, frozen=True):
    """What is sent together."""

    ranges: tuple[OffsetRange, ...]
    rows: int


def cut(blocks: Iterable[Block], rows_max: int) -> list[Chunk]:
    """Chunks of at most `rows_max` messages, or of a single block."""
    chunks: list[Chunk] = []
    some: list[Block] = []
    for block in in_order(blocks):
        if some and sum(one.rows for one in some) + block.rows > rows_max:
            chunks.append(_chunk(some))
            some = []
        some.append(block)
    return [*chunks, _chunk(some)] if some else chunks


def in_order(blocks: Iterable[Block]) -> Iterator[Block]:
    """By time across partitions, by offset within one: a block is never earlier than those before it."""
    by_place: dict[Place, list[Block]] = {}
    for block in blocks:
        by_place.setdefault(Place(block.topic, block.partition), []).append(block)
    lanes = [_rising(sorted(some, key=lambda one: one.start)) for some in by_place.values()]
    return (block for _, _, _, block in heapq.merge(*lanes, key=lambda item: item[:3]))


def _rising(blocks: list[Block]) -> list[tuple[int, Place, int, Block]]:
    """Producers' clocks may go back; a block's time here does not."""
    found, latest = [], blocks[0].time_ms
    for block in blocks:
        latest = max(latest, block.time_ms)
        found.append((latest, Place(block.topic, block.partition), block.start, block))
    return found


def _chunk(blocks: list[Block]) -> Chunk:
    spans: dict[Place, tuple[int, int]] = {}
    for block in blocks:
        place = Place(block.topic, block.partition)
        start, _ = spans.get(place, (block.start, 0))
        spans[place] = (start, block.end)
    ranges = tuple(OffsetRange(*place, *span) for place, span in sorted(spans.items()))
    return Chunk(ranges, sum(block.rows for block in blocks))
