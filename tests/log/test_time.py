"""Looking up offsets by time, over several segments and with clocks that go back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.format.records import NewRecord, build
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog
from goqueue.sim.disk import SimDisk
from tests.log.logs import append, batch, batch_starts, compact_all, compacted, fill, flip, open_at, seal, stop, sync


def expected(times: list[int], timestamp: int, start: int = 0) -> tuple[int, int] | None:
    """The contract, in one line: the first message at or after the time."""
    return next(((at, time) for at, time in enumerate(times) if at >= start and time >= timestamp), None)


def filled(disk: Disk, times: list[int], segment_bytes: int = 400, interval: int = 100) -> PartitionLog:
    log, _ = open_at(disk, segment_bytes=segment_bytes, interval=interval, open_max=2)
    for time in times:
        append(log, batch("x" * 20, time=time))
    return log


def test_a_time_is_found_across_segments(disk: Disk) -> None:
    times = [1_000 + 10 * at for at in range(40)]
    log = filled(disk, times)
    assert len(log.segments) > 5
    for timestamp in range(990, 1_400, 3):
        assert log.offset_at_time(timestamp) == expected(times, timestamp)


def test_before_the_first_and_after_the_last(disk: Disk) -> None:
    log = filled(disk, [1_000, 2_000, 3_000])
    assert log.offset_at_time(-1) == (0, 1_000)
    assert log.offset_at_time(0) == (0, 1_000)
    assert log.offset_at_time(3_000) == (2, 3_000)
    assert log.offset_at_time(3_001) is None


def test_times_within_a_batch_are_told_apart(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, build([NewRecord(None, b"v", (), time) for time in (50, 10, 90, 70)]))
    assert [log.offset_at_time(time) for time in (5, 50, 51, 90)] == [(0, 50), (0, 50), (2, 90), (2, 90)]
    assert log.latest_time() == (2, 90)


def test_the_time_of_an_offset_is_that_of_its_batch(disk: Disk) -> None:
    times = [1_000 + 10 * at for at in range(40)]
    log = filled(disk, times)
    assert [log.time_at(offset) for offset in range(40)] == times
    assert log.time_at(40) is None
    append(log, build([NewRecord(None, b"v", (), time) for time in (1_500, 1_510, 1_590)]))
    assert [log.time_at(offset) for offset in (40, 41, 42)] == [1_590] * 3, "nobody looks into the batch"


@settings(deadline=None, max_examples=80)
@given(
    times=st.lists(st.integers(0, 60), min_size=1, max_size=40),
    segment_bytes=st.integers(150, 1_500),
    interval=st.integers(1, 600),
    start=st.integers(0, 20),
    reopens=st.booleans(),
)
def test_out_of_order_times_are_found(
    times: list[int], segment_bytes: int, interval: int, start: int, reopens: bool
) -> None:
    disk = SimDisk()
    log = filled(disk, times, segment_bytes, interval)
    start = min(start, len(times) - 1)
    sync(log)
    log.begin_drop_head(start).run()
    if reopens:
        stop(log)
        log, _ = open_at(disk, segment_bytes=segment_bytes, interval=interval, open_max=2)
    for timestamp in range(-1, 62):
        assert log.offset_at_time(timestamp) == expected(times, timestamp, start)


def test_the_latest_time_is_the_largest_and_not_the_last(disk: Disk) -> None:
    log = filled(disk, [10, 500, 20, 499, 30, 500, 5])
    assert log.latest_time() == (1, 500)


def test_indexes_that_go_missing_are_rebuilt(disk: Disk) -> None:
    times = [1_000 + 10 * (at ^ 5) for at in range(30)]
    log = filled(disk, times)
    stop(log)
    for segment in log.segments[:-1]:
        disk.remove(segment.path(".timeindex"))
        disk.remove(segment.path(".index"))
    log, _ = open_at(disk, segment_bytes=400, interval=100)
    for timestamp in range(990, 1_320, 5):
        assert log.offset_at_time(timestamp) == expected(times, timestamp)
    assert log.home.stats.indexes_rebuilt > 0


def test_the_latest_time_looks_at_what_is_left(disk: Disk) -> None:
    log = filled(disk, [5_000, 1_000], segment_bytes=10_000)
    log.begin_drop_head(1).run()
    assert log.latest_time() == (1, 1_000)


def test_the_latest_time_is_found_after_compaction() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=400)
    append(log, build([NewRecord(b"k", b"young", (), 5_000), NewRecord(b"stays", b"v", (), 1_000)]))
    for _ in range(12):
        append(log, batch("x" * 60, key="k", time=1_000))
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=400))
    assert log.latest_time() == (1, 1_000)


def test_a_time_behind_damage_in_the_same_segment_is_found(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=1_000, interval=10_000)
    fill(log, 20)
    stop(log)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    log, _ = open_at(disk, segment_bytes=1_000, interval=10_000)
    assert log.offset_at_time(1_001) == (2, 1_002)
