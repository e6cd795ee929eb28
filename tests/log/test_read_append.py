"""Appending and reading, on both disks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import OffsetOutOfRange
from goqueue.format.batch import read_header, split, verified_header
from goqueue.format.records import Record, decode
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import WouldBlock
from goqueue.log.real_disk import RealDisk
from goqueue.sim.disk import SimDisk
from tests.log.logs import HOUR_MS, append, batch, fill, open_at, read_all, seal, stop, sync, value_at, values


def records_of(data: bytes) -> list[Record]:
    return [record for part in split(data) for record in decode(part)]


def read_from(log: PartitionLog, offset: int, bytes_max: int, limit: int, until: int) -> list[Record]:
    """A consumer's loop from an offset on, as a list of records."""
    found: list[Record] = []
    while offset < until and (data := log.read(offset, bytes_max, limit, wait=True)):
        part = [record for record in records_of(data) if record.offset >= offset]
        assert part, "a read that makes no progress"
        found += part
        offset = part[-1].offset + 1
    return found


def test_an_empty_log_reads_empty(disk: Disk) -> None:
    log, found = open_at(disk)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)
    assert found.was_clean and not found.segments
    assert log.read(0, 1_000, 10) == b""
    assert log.offset_at_time(0) is None and log.latest_time() is None
    assert not log.is_dirty and log.begin_sync() is None and log.begin_seal() is None


def test_a_directory_is_made_by_the_first_append_only(disk: Disk) -> None:
    log, _ = open_at(disk)
    assert not disk.is_dir("logs")
    append(log, batch("a"))
    assert disk.is_dir("logs/orders/0")


def test_what_is_appended_is_read_at_once(disk: Disk) -> None:
    log, _ = open_at(disk)
    assert append(log, batch("a", "b")) == 0
    assert append(log, batch("c")) == 2
    assert log.end_offset == 3 and log.synced_offset == 0
    assert values(log) == ["a", "b", "c"]


def test_a_stored_batch_is_the_produced_one_with_its_place(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch("first"))
    data = batch("a", "b", codec=4)
    log.append(data, read_header(data), 9, 1_000)
    stored = log.read(1, 10_000, 3, wait=True)
    header = verified_header(stored)
    assert (header.base_offset, header.leader_epoch) == (1, 9)
    assert stored[16:] == data[16:]


def test_the_brokers_time_is_stamped_on_request(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch("a", "b", time=5), now=77_000, append_time=True)
    assert [record.timestamp_ms for record in read_all(log)] == [77_000, 77_000]
    assert log.offset_at_time(77_000) == (0, 77_000)


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_an_offset_outside_the_log_is_refused_with_its_bounds(disk: Disk, offset: int) -> None:
    log, _ = open_at(disk)
    append(log, batch("a", "b", "c"))
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 100, 3)
    assert caught.value.detail == {"start_offset": 0, "end_offset": 3}


def test_a_read_at_the_end_is_empty(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 3)
    assert log.read(3, 100, 3) == b""


def test_a_read_gives_at_least_one_batch_however_small_the_limit(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=100_000)
    append(log, batch("x" * 20_000))
    append(log, batch("y" * 20_000))
    for bytes_max in (-5, 0, 1, 19_999):
        assert [record.value for record in records_of(log.read(1, bytes_max, 2, wait=True))] == [b"y" * 20_000]


def test_a_read_never_gives_more_than_asked_beyond_the_first_batch(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=100_000)
    fill(log, 50)
    one = len(log.read(0, 1, 50, wait=True))
    for bytes_max in range(one, 8 * one, 37):
        data = log.read(7, bytes_max, 50, wait=True)
        assert one <= len(data) <= bytes_max and len(data) % one == 0
        assert records_of(data)[0].offset == 7


def test_a_batch_that_reaches_the_limit_is_not_read(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch("a", "b"))
    append(log, batch("c", "d"))
    assert [record.offset for record in records_of(log.read(0, 10_000, 3, wait=True))] == [0, 1]
    assert log.read(2, 10_000, 3, wait=True) == b""
    assert log.read(0, 10_000, 1, wait=True) == b""
    assert [record.offset for record in records_of(log.read(2, 10_000, 4, wait=True))] == [2, 3]


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 400)), min_size=1, max_size=25),
    segment_bytes=st.integers(200, 3_000),
    interval=st.integers(1, 2_000),
    bytes_max=st.integers(0, 3_000),
    limit_cut=st.integers(0, 30),
    reopens=st.booleans(),
    on_real_disk=st.booleans(),
)
def test_a_reading_loop_gets_exactly_what_was_written(
    sizes: list[tuple[int, int]],
    segment_bytes: int,
    interval: int,
    bytes_max: int,
    limit_cut: int,
    reopens: bool,
    on_real_disk: bool,
) -> None:
    with tempfile.TemporaryDirectory() as root:
        disk: Disk = RealDisk(Path(root)) if on_real_disk else SimDisk()
        log, _ = open_at(disk, segment_bytes=segment_bytes, interval=interval, open_max=2)
        written: list[str] = []
        ends: list[int] = [0]
        for count, size in sizes:
            new = [f"{len(written) + at}-" + "z" * size for at in range(count)]
            append(log, batch(*new))
            written += new
            ends.append(len(written))
        sync(log)
        seal(log)
        if reopens:
            log.close()
            log, found = open_at(disk, segment_bytes=segment_bytes, interval=interval, open_max=2)
            assert found.was_clean
        limit = max(0, log.end_offset - limit_cut)
        readable = max(end for end in ends if end <= limit)
        for start in range(readable):
            found_records = read_from(log, start, bytes_max, limit, readable)
            assert [(record.value or b"").decode() for record in found_records] == written[start:readable]
            assert [record.offset for record in found_records] == list(range(start, readable))


def test_a_segment_rolls_by_size(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 20)
    assert len(log.segments) > 3
    assert all(segment.length <= 600 for segment in log.segments)
    assert [segment.base_offset for segment in log.segments[1:]] == [
        segment.next_offset for segment in log.segments[:-1]
    ]
    assert log.size_bytes == sum(segment.length for segment in log.segments)
    assert values(log) == [value_at(number) for number in range(20)]
    assert log.home.stats.segments_rolled == len(log.segments) - 1


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    for value in ("a", "b" * 5_000, "c"):
        append(log, batch(value))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert values(log) == ["a", "b" * 5_000, "c"]


def test_a_segment_rolls_by_time(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=100_000)
    week = 168 * HOUR_MS
    append(log, batch("a", time=1_000), now=1_000)
    append(log, batch("b", time=week), now=1_000 + week)
    assert len(log.segments) == 1
    append(log, batch("c", time=1_001 + week), now=1_001 + week)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert values(log) == ["a", "b", "c"]


def test_a_backfill_of_old_messages_does_not_roll_at_every_batch() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=100_000)
    for _ in range(20):
        append(log, batch("old", time=1_000), now=1_000 + 1_000 * HOUR_MS)
    assert len(log.segments) <= 2


def test_a_roll_of_an_empty_log_or_segment_loses_nothing_readable(disk: Disk) -> None:
    log, _ = open_at(disk)
    log.roll()
    fill(log, 2)
    log.roll()
    fill(log, 2)
    assert values(log) == [value_at(number) for number in range(4)]


def test_a_second_roll_finds_the_segment_empty_and_leaves_it(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 2)
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_cold_read_says_so_instead_of_waiting() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    log.roll()
    seal(log)
    disk.is_cold = True
    with pytest.raises(WouldBlock):
        log.read(0, 100, 3)
    assert log.read(0, 100, 3, wait=True)


def test_an_unverified_sealed_segment_is_not_read_on_the_loop(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    fill(log, 6)
    stop(log)
    log, _ = open_at(disk, segment_bytes=300)
    with pytest.raises(WouldBlock):
        log.read(0, 100, 6)
    assert log.read(0, 100, 6, wait=True)
    assert log.read(0, 100, 6)


def test_few_sealed_segments_stay_open(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300, open_max=2)
    fill(log, 30)
    sync(log)
    seal(log)
    for _ in range(2):
        assert values(log) == [value_at(number) for number in range(30)]
    assert sum(segment._file is not None for segment in log.segments[:-1]) <= 2


def test_counters_tell_what_happened(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    fill(log, 6)
    sync(log)
    seal(log)
    stats = log.home.stats
    assert stats.batches_appended == 6 and stats.bytes_appended == log.size_bytes
    assert stats.segments_sealed == len(log.segments) - 1
    log.read(0, 1, 6, wait=True)
    assert stats.reads == 1 and stats.bytes_read > 0
