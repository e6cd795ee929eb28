"""Stopping and starting: what a clean stop saves, and what is checked without one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goqueue.log.checkpoint import read_checkpoint, write_checkpoint
from goqueue.log.disk import Disk
from goqueue.log.reader import WouldBlock
from goqueue.sim.disk import SimDisk
from tests.log.logs import (
    DIRECTORY,
    append,
    batch,
    batch_starts,
    fill,
    flip,
    look,
    of_a_leader,
    open_at,
    seal,
    stop,
    survey,
    sync,
    taken,
    value_at,
    values,
)


def wanted(count: int) -> list[str]:
    return [value_at(number) for number in range(count)]


def test_a_clean_stop_needs_no_check(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 14)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and found.segments == 4 and not found.damaged_ranges and not found.bytes_cut
    assert (log.start_offset, log.end_offset, log.synced_offset) == (0, 14, 14)
    assert not log.is_dirty
    assert survey(log) == wanted(14)


def test_a_second_clean_stop_without_writes_is_clean_again(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 14)
    stop(log)
    for _ in range(3):
        log, found = open_at(disk, segment_bytes=600)
        assert found.was_clean
        stop(log)
    assert survey(log) == wanted(14)


def test_appends_go_on_behind_a_clean_stop(disk: Disk) -> None:
    for life in range(1, 5):
        log, found = open_at(disk, segment_bytes=700)
        assert found.was_clean
        fill(log, 5)
        assert survey(log) == wanted(5 * life)
        assert log.offset_at_time(1_003) == (3, 1_003)
        stop(log)


@pytest.mark.parametrize("name", ["checkpoint", ".index", ".timeindex"])
def test_without_one_of_the_notes_of_a_stop_the_last_segment_is_checked(disk: Disk, name: str) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 14)
    stop(log)
    disk.remove(f"{DIRECTORY}/{name}" if name == "checkpoint" else log.segments[-1].path(name))
    log, found = open_at(disk, segment_bytes=600)
    assert not found.was_clean and found.bytes_checked == log.segments[-1].length
    assert not found.bytes_cut and not found.damaged_ranges
    noted = read_checkpoint(disk, DIRECTORY)
    is_noted = noted is not None and noted.synced_offset == log.end_offset == 14
    assert is_noted != log.is_dirty, "what was checked is noted as safe, or must be by the next sync"
    assert survey(log) == wanted(14)


@pytest.mark.parametrize(("written_by", "is_trusted"), [("", True), ("mine", True), ("another", False)])
def test_what_a_deleted_topic_noted_of_its_log_says_nothing_of_the_next(
    disk: Disk, written_by: str, is_trusted: bool
) -> None:
    """A power cut can bring its file back beside the log of a topic that has its name now."""
    log, _ = open_at(disk)
    fill(log, 4)
    stop(log)
    noted = read_checkpoint(disk, DIRECTORY)
    assert noted is not None
    write_checkpoint(disk, DIRECTORY, replace(noted, sync=noted.sync + 1, topic_id=written_by))
    write_checkpoint(disk, DIRECTORY, replace(noted, sync=noted.sync + 2, topic_id=written_by))
    assert (read_checkpoint(disk, DIRECTORY, "mine") is not None) == is_trusted


def test_after_a_kill_without_a_stop_the_unsealed_segments_are_checked(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 6)
    seal(log)
    fill(log, 8)
    log, found = open_at(disk, segment_bytes=600)
    assert found.bytes_checked == sum(segment.length for segment in log.segments[1:])
    assert survey(log) == wanted(14)
    seal(log)
    stop(log)
    assert open_at(disk, segment_bytes=600)[1].was_clean


def test_an_unfinished_batch_at_the_end_is_cut(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    whole = disk.read_file(log.segments[-1].path(".log")) or b""
    for size in range(1, 100, 7):
        disk.open(log.segments[-1].path(".log")).append([whole[:size]])
        log, found = open_at(disk)
        assert found.bytes_cut == size and log.end_offset == 3
        assert disk.size(log.segments[-1].path(".log")) == len(whole)
        assert survey(log) == wanted(3)
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".cut")]


def test_what_recovery_left_takes_appends_at_once(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 5)
    disk.open(log.segments[-1].path(".log")).append([b"torn"])
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 5)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and survey(log) == wanted(10)


def test_an_empty_active_segment_is_reopened(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    log.roll()
    stop(log)
    log, found = open_at(disk)
    assert found.was_clean and log.end_offset == 3
    fill(log, 2)
    assert survey(log) == wanted(5)


def test_a_consumer_at_the_end_gets_nothing_after_a_clean_start(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 3)
    stop(log)
    log, _ = open_at(disk)
    assert log.read(3, 1_000, 3, wait=True) == b""


def test_a_batch_above_the_limit_is_not_read_after_a_clean_start(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, batch("a"))
    append(log, batch("b", "c"))
    stop(log)
    log, _ = open_at(disk)
    assert log.read(1, 1_000, 2, wait=True) == b""


@pytest.mark.parametrize("interval", [64, 4096])
def test_what_a_leader_had_compacted_is_no_damage_after_a_clean_stop(disk: Disk, interval: int) -> None:
    log, _ = open_at(disk, interval=interval)
    for offset in (0, 1, 5, 6, 9):
        taken(log, of_a_leader(offset, f"{offset}"))
    stop(log)
    log, found = open_at(disk, interval=interval)
    assert found.was_clean and values(log) == ["0", "1", "5", "6", "9"]
    log.roll()
    seal(log)
    assert values(log) == ["0", "1", "5", "6", "9"] and not any(segment.damage for segment in log.segments)


def test_foreign_files_and_directories_stop_nothing(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 10)
    stop(log)
    strangers = ["notes.txt", "5.log", "00000000000000000005.log.bak", "00000000000000000005.txt", "a.tmp", "..log"]
    for name in strangers:
        disk.open(f"{DIRECTORY}/{name}", create=True).append([b"hello"])
    disk.make_dirs(f"{DIRECTORY}/lost+found/deep")
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and found.foreign_files == len(strangers) + 1
    assert survey(log) == wanted(10)
    assert all(disk.read_file(f"{DIRECTORY}/{name}") == b"hello" for name in strangers)
    assert disk.is_dir(f"{DIRECTORY}/lost+found/deep")


def test_litter_of_an_earlier_life_is_removed(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 10)
    stop(log)
    litter = [
        "meta.json.tmp",
        "checkpoint.tmp",
        f"{0:020d}.seal.tmp",
        f"{0:020d}.log.compact",
        f"{77:020d}.seal",
        f"{77:020d}.index",
    ]
    for name in litter:
        disk.open(f"{DIRECTORY}/{name}", create=True).append([b"junk"])
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and not found.foreign_files
    assert not set(litter) & set(disk.names(DIRECTORY))
    assert survey(log) == wanted(10)


def test_partitions_do_not_see_each_other(disk: Disk) -> None:
    one, _ = open_at(disk, directory="logs/orders/1")  # type: ignore[arg-type]
    two, _ = open_at(disk, directory="logs/orders/11")  # type: ignore[arg-type]
    append(one, batch("one"))
    append(two, batch("two"))
    stop(one)
    stop(two)
    assert survey(open_at(disk, directory="logs/orders/1")[0]) == ["one"]  # type: ignore[arg-type]


def test_sealed_segments_are_not_read_at_start() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 30)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.bytes_checked == 0 and log.home.stats.segments_verified == 0
    with pytest.raises(WouldBlock):
        log.read(0, 100, 30)
    look(log, 0)
    assert log.home.stats.segments_verified == 1


def test_a_removed_seal_does_not_come_back_over_synced_records() -> None:
    for seed in range(12):
        disk = SimDisk()
        log, _ = open_at(disk, segment_bytes=600)
        fill(log, 6)
        sync(log)
        seal(log)
        first, second = log.segments
        # The younger segment is gone, so the sealed one is the last and takes appends again.
        second.remove_files()
        disk.remove(f"{DIRECTORY}/checkpoint")
        disk.sync_dir(DIRECTORY)
        log, _ = open_at(disk, segment_bytes=1_200)
        assert log.end_offset == first.next_offset
        fill(log, 3)
        sync(log)
        safe = log.synced_offset
        fill(log, 3, size=300)
        log, _ = open_at(disk.crash("torn", seed), segment_bytes=1_200)
        assert survey(log)[:safe] == wanted(safe)


def test_a_log_never_begins_behind_its_end() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    fill(log, 3)
    log.begin_drop_head(6).run()
    log, _ = open_at(disk.crash("dropped"))
    assert log.start_offset <= log.end_offset
    offset = append(log, batch("new"))
    assert look(log, offset) == "new"


def test_a_damaged_tail_batch_is_found_after_a_clean_stop(disk: Disk) -> None:
    log, _ = open_at(disk)
    fill(log, 5)
    stop(log)
    path = log.segments[-1].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, starts[-2] + 80)
    log, found = open_at(disk)
    assert not found.was_clean and found.bytes_cut == starts[-1] - starts[-2]
    assert log.end_offset == 4 and survey(log) == wanted(4)
    cut = f"{DIRECTORY}/{0:020d}.{starts[-2]}.cut"
    assert len(disk.read_file(cut) or b"") == found.bytes_cut, "what had been synced is kept for people"
    fill(log, 1)
    stop(log)
    log, found = open_at(disk)
    assert found.was_clean and not found.foreign_files and survey(log) == wanted(5)


def test_a_damaged_tail_batch_that_was_synced_is_kept_after_a_crash() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 5)
    sync(log)
    path = log.segments[-1].path(".log")
    starts = batch_starts(disk, path)
    after = disk.crash("kept")
    after.flip_bit(path, starts[-2] + 80)
    log, found = open_at(after)
    assert found.bytes_cut and log.end_offset == 4 and survey(log) == wanted(4)
    assert [name for name in after.names(DIRECTORY) if name.endswith(".cut")]


def test_a_torn_write_that_was_never_synced_leaves_no_file_behind() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 4)
    sync(log)
    fill(log, 1)
    path = log.segments[-1].path(".log")
    after = disk.crash("kept")
    after.flip_bit(path, batch_starts(disk, path)[-2] + 80)
    log, found = open_at(after)
    assert found.bytes_cut and log.end_offset == 4 and survey(log) == wanted(4)
    assert not [name for name in after.names(DIRECTORY) if name.endswith(".cut")]


def test_a_log_that_the_last_sync_covered_is_opened_after_a_kill_without_a_write_or_a_sync() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 12)
    sync(log)
    before = disk.steps
    again, found = open_at(disk)
    assert found.bytes_checked > 0 and again.end_offset == 12
    assert disk.steps == before, "thousands of logs are opened by a start, and each sync takes milliseconds"
    assert again.begin_sync() is None, "nor is there anything to do afterwards"


def test_what_no_sync_covered_is_synced_before_the_log_goes_on() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    fill(log, 3)
    again, _ = open_at(disk)
    assert again.end_offset == 6 and again.begin_sync() is not None
    last, _ = open_at(disk.crash("dropped"))
    assert last.end_offset == 6, "who opens a log promises all of it"
