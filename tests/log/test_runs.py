"""Batches that are taken over in runs lie as if each had been written by itself."""

from __future__ import annotations

import random

import pytest

from goqueue.base.errors import DiskFull
from goqueue.format.batch import read_header, split
from goqueue.log.partition_log import PartitionLog
from goqueue.sim.disk import SimDisk
from tests.log.logs import HOUR_MS, batch, open_at, read_all


def take(log: PartitionLog, data: bytes) -> None:
    view, headers = memoryview(data), [read_header(one) for one in split(data)]
    while headers:
        count = log.restore_run(view, headers)
        view = view[sum(one.size for one in headers[:count]) :]
        del headers[:count]


def leader(chance: random.Random) -> PartitionLog:
    """With several epochs, segments, times, and offsets that compaction has left out."""
    log, _ = open_at(SimDisk(), segment_bytes=4_000)
    epoch, time = 0, 1_000
    for number in range(120):
        epoch += chance.random() < 0.05
        time += chance.choice([1, 1, 1, 100 * HOUR_MS])
        made = batch(*[f"{number}-{one}" * chance.randrange(1, 20) for one in range(chance.randrange(1, 4))], time=time)
        log.append(made, read_header(made), epoch, time)
        if chance.random() < 0.1:
            log.end_offset += chance.randrange(3)
    return log


@pytest.mark.parametrize("seed", range(5))
def test_a_run_lies_as_its_batches_would(seed: int) -> None:
    chance = random.Random(seed)
    source, one_disk, runs_disk = leader(chance), SimDisk(), SimDisk()
    alone, runs = open_at(one_disk, segment_bytes=4_000)[0], open_at(runs_disk, segment_bytes=4_000)[0]
    at = 0
    while data := source.read(at, chance.choice([1, 2_000, 9_000]), source.end_offset, wait=True):
        for one in split(data):
            alone.restore(one, read_header(one))
        take(runs, data)
        at = runs.end_offset
    assert runs.end_offset == alone.end_offset and runs.notes.meta.epochs == alone.notes.meta.epochs
    shapes = [[(held.base_offset, held.length, held.next_offset) for held in log.segments] for log in (alone, runs)]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 3
    for mine, other in zip(alone.segments, runs.segments, strict=True):
        assert mine.file().read(0, mine.length) == other.file().read(0, other.length)
        assert len(mine.indexes().offsets) == len(other.indexes().offsets)
    assert len(read_all(runs)) == len(read_all(source))
    assert runs.home.stats.records_appended == alone.home.stats.records_appended


def test_a_run_that_finds_no_space_leaves_nothing() -> None:
    source, disk = leader(random.Random(7)), SimDisk()
    data = source.read(0, 3_000, source.end_offset, wait=True)
    log, _ = open_at(disk, segment_bytes=4_000)
    disk.full_at = 0
    with pytest.raises(DiskFull):
        take(log, data)
    disk.free_space()
    assert (log.end_offset, log.size_bytes) == (0, 0)
    take(log, data)
    assert len(read_all(log)) == sum(read_header(one).record_count for one in split(data))
