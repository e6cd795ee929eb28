"""Dropping the head, cutting the tail, and the rules of retention."""

from __future__ import annotations

import pytest

from goqueue.base.errors import OffsetOutOfRange
from goqueue.base.topic_config import TopicConfig
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog
from goqueue.log.retention import new_start, wants_roll
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from tests.log.logs import (
    DIRECTORY,
    HOUR_MS,
    append,
    batch,
    batch_starts,
    compact_all,
    compacted,
    fill,
    flip,
    look,
    open_at,
    seal,
    stop,
    survey,
    sync,
    value_at,
    values,
)


def wanted(first: int, end: int) -> list[str]:
    return [value_at(number) for number in range(first, end)]


def filled(disk: Disk, count: int = 16) -> PartitionLog:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, count)
    sync(log)
    seal(log)
    return log


# --- the head -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(17))
def test_a_dropped_head_stays_dropped(disk: Disk, start: int) -> None:
    log = filled(disk)
    log.begin_drop_head(start).run()
    assert (log.start_offset, log.end_offset) == (start, 16)
    assert survey(log) == wanted(start, 16)
    if start:
        with pytest.raises(OffsetOutOfRange):
            log.read(start - 1, 100, 16)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and (log.start_offset, log.end_offset) == (start, 16)
    assert survey(log) == wanted(start, 16)
    fill(log, 1)
    assert look(log, 16) == value_at(16)


def test_dropped_segments_are_deleted_with_all_their_files(disk: Disk) -> None:
    log = filled(disk)
    second = log.segments[1].base_offset
    log.begin_drop_head(second).run()
    assert not [name for name in disk.names(DIRECTORY) if name.startswith(f"{0:020d}")]
    assert log.home.stats.segments_deleted == 1


def test_the_head_never_moves_back_or_beyond_the_end(disk: Disk) -> None:
    log = filled(disk)
    log.begin_drop_head(5).run()
    log.begin_drop_head(2).run()
    assert log.start_offset == 5
    log.begin_drop_head(99).run()
    assert log.start_offset == log.end_offset == 16
    assert append(log, batch("next")) == 16


def test_segments_left_by_a_crash_in_a_drop_go_at_the_next_start(disk: Disk) -> None:
    log = filled(disk)
    log.begin_drop_head(log.segments[2].base_offset)
    log.notes.write()
    log, _ = open_at(disk, segment_bytes=600)
    assert log.segments[0].base_offset == log.start_offset == 8
    assert survey(log) == wanted(8, 16)


def test_dropping_the_head_of_an_empty_log_is_no_error(disk: Disk) -> None:
    log, _ = open_at(disk)
    log.begin_drop_head(0).run()
    assert log.start_offset == 0


# --- the tail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reopens", [False, True])
@pytest.mark.parametrize("end", range(17))
def test_a_log_cut_at_any_offset_goes_on_from_there(disk: Disk, end: int, reopens: bool) -> None:
    log = filled(disk)
    if reopens:
        stop(log)
        log, _ = open_at(disk, segment_bytes=600)
    log.truncate(end)
    assert log.end_offset == log.synced_offset == end
    assert survey(log) == wanted(0, end)
    for number in range(3):
        append(log, batch(f"new{number}", time=9_000))
    assert survey(log) == [*wanted(0, end), "new0", "new1", "new2"]
    assert log.offset_at_time(8_000) == (end, 9_000)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and survey(log) == [*wanted(0, end), "new0", "new1", "new2"]
    assert log.offset_at_time(8_000) == (end, 9_000)


def test_a_cut_within_a_batch_takes_the_whole_batch(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch("a", "b"))
    append(log, batch("c", "d", "e"))
    log.truncate(3)
    assert log.end_offset == 2 and values(log) == ["a", "b"]


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_cut_is_durable_at_once(mode: CrashMode) -> None:
    disk = SimDisk()
    log = filled(disk)
    log.truncate(6)
    again, _ = open_at(disk.crash(mode), segment_bytes=600)
    assert survey(again) == wanted(0, 6)


def test_a_cut_at_the_end_or_beyond_does_nothing(disk: Disk) -> None:
    log = filled(disk)
    before = disk.names(DIRECTORY)
    log.truncate(16)
    log.truncate(99)
    assert log.end_offset == 16 and disk.names(DIRECTORY) == before


def test_a_cut_below_the_start_is_refused(disk: Disk) -> None:
    log = filled(disk)
    log.begin_drop_head(6).run()
    with pytest.raises(OffsetOutOfRange):
        log.truncate(3)
    assert survey(log) == wanted(6, 16)


@pytest.mark.parametrize(("mode", "seeds"), [("kept", 1), ("dropped", 1), ("torn", 4)])
def test_a_crash_anywhere_in_a_cut_leaves_the_old_or_a_shorter_log(mode: CrashMode, seeds: int) -> None:
    probe = SimDisk()
    log = filled(probe)
    before = probe.steps
    log.truncate(6)
    for crash_at in range(before, probe.steps):
        for seed in range(seeds):
            disk = SimDisk(crash_at)
            log = filled(disk)
            with pytest.raises(PowerCut):
                log.truncate(6)
            log, _ = open_at(disk.crash(mode, seed), segment_bytes=600)
            assert 6 <= log.end_offset <= 16
            assert survey(log) == wanted(0, log.end_offset)
            assert not any(segment.damage for segment in log.segments)


def test_a_sync_begun_before_a_cut_vouches_for_nothing_written_after_it() -> None:
    log, _ = open_at(SimDisk())
    fill(log, 6)
    job = log.begin_sync()
    assert job is not None
    log.truncate(2)
    append(log, batch("new"))
    job.run()
    log.finish_sync(job)
    assert log.synced_offset <= 2


def test_a_sync_begun_before_a_cut_promises_nothing_after_a_restart() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 6)
    job = log.begin_sync()
    assert job is not None
    log.truncate(2)
    job.run()
    log.finish_sync(job)
    fill(log, 1)
    path = log.segments[-1].path(".log")
    flip(disk, path, batch_starts(disk, path)[2] + 80)
    log, _ = open_at(disk)
    assert log.end_offset == 2
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".cut")]


def test_a_cut_never_ends_the_log_before_its_start(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch(*"abcdef"))
    log.begin_drop_head(4).run()
    log.truncate(5)
    assert log.start_offset <= log.end_offset
    offset = append(log, batch("new"))
    assert look(log, offset) == "new"


def test_a_cut_within_a_damaged_range_leaves_no_silent_hole(disk: Disk) -> None:
    log = filled(disk)
    path = log.segments[0].path(".log")
    stop(log)
    starts = batch_starts(disk, path)
    flip(disk, path, starts[1] + 80)
    flip(disk, path, starts[2] + 80)
    log, _ = open_at(disk, segment_bytes=600)
    log.truncate(2)
    append(log, batch("new"))
    assert "missing" not in survey(log)


def test_a_cut_takes_the_compaction_marks_back() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=600)
    fill(log, 16, keys=["k"] * 16)
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=600))
    log.truncate(2)
    assert max(log.notes.meta.compacted_to, log.notes.meta.gaps_to) <= log.end_offset


# --- retention ------------------------------------------------------------------------------------------


def by_hours(hours: list[int]) -> PartitionLog:
    """One sealed segment an hour named, and an empty active one."""
    return by_hours_on(SimDisk(), hours, is_sealed=True)


def test_segments_older_than_the_limit_go() -> None:
    log = by_hours([1, 2, 3, 4])
    config = TopicConfig(retention_ms=2 * HOUR_MS)
    assert new_start(log.segments, config, 3 * HOUR_MS) is None
    assert new_start(log.segments, config, 3 * HOUR_MS + 1) == 1
    assert new_start(log.segments, config, 5 * HOUR_MS + 1) == 3
    assert new_start(log.segments, config, 99 * HOUR_MS) == 4


def by_hours_on(disk: Disk, hours: list[int], is_sealed: bool) -> PartitionLog:
    log, _ = open_at(disk)
    for hour in hours:
        append(log, batch("x" * 100, time=hour * HOUR_MS), now=hour * HOUR_MS)
        log.roll()
    sync(log)
    if is_sealed:
        seal(log)
    return log


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("damaged", [[0], [0, 1]])
def test_what_is_damaged_goes_no_sooner_than_it_would_have(is_sealed: bool, damaged: list[int]) -> None:
    """It can come back from another replica."""
    disk = SimDisk()
    log = by_hours_on(disk, [3, 3, 4], is_sealed)
    disk = disk.crash("kept")
    for number in damaged:
        path = log.segments[number].path(".log")
        disk.flip_bit(path, log.segments[number].length - 5)
    log, _ = open_at(disk)
    for segment in log.segments[:-1]:
        segment.verify()
    seal(log)
    assert [number for number, segment in enumerate(log.segments) if segment.damage] == damaged
    config = TopicConfig(retention_ms=2 * HOUR_MS)
    for now in (3, 4, 5):
        assert new_start(log.segments, config, now * HOUR_MS) is None
    assert new_start(log.segments, config, 99 * HOUR_MS) == 3


def test_what_was_damaged_while_the_node_ran_keeps_its_time() -> None:
    disk = SimDisk()
    log = by_hours_on(disk, [3], is_sealed=True)
    disk.flip_bit(log.segments[0].path(".log"), log.segments[0].length - 5)
    log.segments[0].doubt()
    log.segments[0].verify()
    assert log.segments[0].damage
    assert new_start(log.segments, TopicConfig(retention_ms=2 * HOUR_MS), 5 * HOUR_MS) is None
    assert new_start(log.segments, TopicConfig(retention_ms=2 * HOUR_MS), 5 * HOUR_MS + 1) == 1


def test_a_young_segment_keeps_all_behind_it() -> None:
    log = by_hours([1, 9, 2, 9])
    assert new_start(log.segments, TopicConfig(retention_ms=HOUR_MS), 9 * HOUR_MS) == 1


def test_segments_above_the_size_limit_go_and_the_limit_stays_filled() -> None:
    log = by_hours([1, 2, 3, 4])
    size = log.segments[0].length
    for limit, start in ((-1, None), (5 * size, None), (4 * size, None), (3 * size, 1), (3 * size - 1, 1), (0, 4)):
        config = TopicConfig(retention_ms=-1, retention_bytes=limit)
        assert new_start(log.segments, config, 4 * HOUR_MS) == start, limit


def test_the_stricter_rule_wins() -> None:
    log = by_hours([1, 2, 3, 4])
    config = TopicConfig(retention_ms=2 * HOUR_MS, retention_bytes=log.segments[0].length)
    assert new_start(log.segments, config, 4 * HOUR_MS + 1) == 3


def test_endless_retention_and_compacted_topics_delete_nothing() -> None:
    log = by_hours([1, 2])
    assert new_start(log.segments, TopicConfig(retention_ms=-1), 999 * HOUR_MS) is None
    assert new_start(log.segments, TopicConfig(cleanup_policy="compact"), 999 * HOUR_MS) is None
    assert new_start(log.segments, TopicConfig(cleanup_policy="compact,delete"), 999 * HOUR_MS) == 2


def test_the_active_and_the_unsealed_segments_stay() -> None:
    log, _ = open_at(SimDisk())
    append(log, batch("a"))
    log.roll()
    append(log, batch("b"))
    assert new_start(log.segments, TopicConfig(retention_ms=1), 99 * HOUR_MS) is None
    assert new_start((), TopicConfig(retention_ms=1), 99 * HOUR_MS) is None


def test_an_unsealed_segment_keeps_all_behind_it() -> None:
    log = by_hours([9, 1, 1])
    log.segments[0].seal = None
    assert new_start(log.segments, TopicConfig(retention_ms=HOUR_MS), 9 * HOUR_MS) is None


def test_retention_survives_a_restart(disk: Disk) -> None:
    log = filled(disk)
    stop(log)
    log, _ = open_at(disk, segment_bytes=600)
    start = new_start(log.segments, TopicConfig(retention_ms=1), 99 * HOUR_MS)
    assert start == log.segments[-1].base_offset
    log.begin_drop_head(start).run()
    assert survey(open_at(disk, segment_bytes=600)[0]) == wanted(start, 16)


def test_an_active_segment_rolls_when_it_is_old_or_all_expired() -> None:
    log, _ = open_at(SimDisk())
    config = TopicConfig(segment_ms=5 * HOUR_MS, retention_ms=10 * HOUR_MS)
    append(log, batch("a", time=HOUR_MS), now=HOUR_MS)
    active = log.segments[-1]
    assert not wants_roll(active, config, 6 * HOUR_MS)
    assert wants_roll(active, config, 6 * HOUR_MS + 1)
    quick = TopicConfig(segment_ms=500 * HOUR_MS, retention_ms=HOUR_MS)
    assert not wants_roll(active, quick, 2 * HOUR_MS)
    assert wants_roll(active, quick, 2 * HOUR_MS + 1)
    assert not wants_roll(active, TopicConfig(segment_ms=500 * HOUR_MS, retention_ms=-1), 400 * HOUR_MS)
    log.roll()
    assert not wants_roll(log.segments[-1], quick, 999 * HOUR_MS), "an empty segment is left alone"


def test_messages_without_a_time_are_not_expired_at_once() -> None:
    log, _ = open_at(SimDisk())
    append(log, batch("a", time=-1), now=1_000 * HOUR_MS)
    assert not wants_roll(log.segments[-1], TopicConfig(), 1_000 * HOUR_MS)
    log.roll()
    seal(log)
    assert new_start(log.segments, TopicConfig(), 1_000 * HOUR_MS) is None
