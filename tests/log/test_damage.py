"""Damage of stored bytes: never a wrong record, never a silent hole, and everything else is still served."""

from __future__ import annotations

import errno
from collections.abc import Container
from itertools import pairwise

import msgspec
import pytest

from goqueue.base.errors import DamagedRange
from goqueue.format.batch import assemble, read_header
from goqueue.format.records import NewRecord, build
from goqueue.log.appending import RollRule
from goqueue.log.compaction import candidates
from goqueue.log.disk import Disk
from goqueue.log.mending import is_damaged
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import NeedsVerification
from goqueue.log.recovery import Recovered, open_log
from goqueue.log.scan import DamagedRegion
from goqueue.log.verifying import scrub
from goqueue.sim.disk import PowerCut, SimDisk
from tests.format import by_hand
from tests.log.logs import (
    DAMAGED,
    DIRECTORY,
    HOUR_MS,
    MISSING,
    append,
    batch,
    batch_starts,
    compact_all,
    compacted,
    fill,
    flip,
    home,
    look,
    open_at,
    overwrite,
    seal,
    stop,
    survey,
    sync,
    value_at,
)

COUNT = 12


def wanted(count: int = COUNT) -> list[str]:
    return [value_at(number) for number in range(count)]


def stopped(disk: Disk, count: int = COUNT, segment_bytes: int = 600) -> PartitionLog:
    """A log after a clean stop: sealed segments of four batches each, and an active one."""
    log, _ = open_at(disk, segment_bytes=segment_bytes)
    fill(log, count)
    stop(log)
    return log


def reopened(disk: Disk, segment_bytes: int = 600) -> PartitionLog:
    return open_at(disk, segment_bytes=segment_bytes)[0]


def clone(disk: SimDisk) -> SimDisk:
    return disk.crash("kept")


# --- a sealed segment -----------------------------------------------------------------------------------


def test_a_damaged_batch_is_an_error_that_says_where_to_read_on(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    log = reopened(disk)
    with pytest.raises(DamagedRange) as caught:
        log.read(1, 1_000, COUNT, wait=True)
    assert caught.value.detail == {"first_offset": 1, "last_offset": 1, "next_offset": 2}
    assert survey(log) == [value_at(0), DAMAGED, *wanted()[2:]]
    assert log.home.stats.damaged_ranges == 1
    assert (log.start_offset, log.end_offset) == (0, COUNT)


def test_a_read_before_the_damage_stops_at_it(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, starts[2] + 80)
    log = reopened(disk)
    for bytes_max in (1, 200, 300, 600, 10_000):
        assert len(log.read(0, bytes_max, COUNT, wait=True)) <= starts[2]
    assert len(log.read(0, 10_000, COUNT, wait=True)) == starts[2]


def test_known_damage_survives_restarts(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    for _ in range(3):
        log, found = open_at(disk, segment_bytes=600)
        assert found.was_clean
        assert survey(log) == [value_at(0), DAMAGED, *wanted()[2:]]
        stop(log)
    assert found.damaged_ranges == 1


def test_neighbouring_damaged_batches_are_one_range(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, starts[1] + 80)
    flip(disk, path, starts[2] + 80)
    log = reopened(disk)
    with pytest.raises(DamagedRange) as caught:
        log.read(1, 1_000, COUNT, wait=True)
    assert caught.value.detail["next_offset"] == 3
    assert survey(log) == [value_at(0), DAMAGED, DAMAGED, *wanted()[3:]]


def test_two_damaged_places_are_two_ranges(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, starts[0] + 80)
    flip(disk, path, starts[2] + 80)
    log = reopened(disk)
    assert survey(log) == [DAMAGED, value_at(1), DAMAGED, *wanted()[3:]]
    assert log.home.stats.damaged_ranges == 2


def test_a_segment_that_is_all_junk_is_one_range(disk: Disk) -> None:
    log = stopped(disk)
    segment = log.segments[0]
    overwrite(disk, segment.path(".log"), b"\x02" * segment.length)
    log = reopened(disk)
    assert survey(log) == [DAMAGED] * 4 + wanted()[4:]


def check_flip(disk: SimDisk, path: str, position: int, bit: int, owner: int) -> None:
    """No flip gives a wrong record, and only records of the batch that was hit may be missing."""
    damaged = clone(disk)
    damaged.flip_bit(path, position, bit)
    log = reopened(damaged)
    found = survey(log)
    assert log.end_offset == COUNT and len(found) == COUNT
    for offset, value in enumerate(found):
        if offset == owner:
            assert value in (DAMAGED, value_at(offset)), (position, bit)
        else:
            assert value == value_at(offset), (position, bit, offset)


def positions(disk: SimDisk, path: str, skipped: Container[int]) -> list[tuple[int, int]]:
    """Every byte of a file of batches with the number of its batch; without those of each header that are skipped."""
    starts = batch_starts(disk, path)
    return [
        (position, number)
        for number, (start, end) in enumerate(pairwise(starts))
        for position in range(start, end)
        if position - start not in skipped
    ]


BASE_OFFSET = range(8)
LAST_OFFSET_DELTA = range(23, 27)


def test_a_flip_of_any_byte_of_a_sealed_segment_hurts_only_its_batch() -> None:
    disk = SimDisk()
    path = stopped(disk).segments[0].path(".log")
    for position, owner in positions(disk, path, BASE_OFFSET):
        check_flip(disk, path, position, position % 8, owner)


def test_a_flip_of_a_base_offset_in_a_sealed_segment_hurts_only_its_batch() -> None:
    disk = SimDisk()
    path = stopped(disk).segments[0].path(".log")
    for number, start in enumerate(batch_starts(disk, path)[:-1]):
        for position in BASE_OFFSET:
            for bit in range(8):
                check_flip(disk, path, start + position, bit, number)


def test_damage_that_comes_later_is_found_too(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, starts[1] + 80)
    log = reopened(disk)
    survey(log)
    stop(log)
    flip(disk, path, starts[2] + 90)
    assert survey(reopened(disk)) == [value_at(0), DAMAGED, DAMAGED, *wanted()[3:]]


def test_records_behind_damage_are_served_after_a_power_cut() -> None:
    disk = SimDisk()
    log = stopped(disk)
    path = log.segments[0].path(".log")
    disk = clone(disk)
    # The batch that the old index leads to loses its length, so that nobody can walk over it.
    disk.flip_bit(path, batch_starts(disk, path)[2] + 8, 4)
    expected = [*wanted()[:2], DAMAGED, *wanted()[3:]]
    assert survey(reopened(disk)) == expected
    assert survey(reopened(disk.crash("dropped"))) == expected


def test_a_batch_within_a_value_is_never_served_as_a_record(disk: Disk) -> None:
    inner = build([NewRecord(None, b"not a record", (), 1_000)])
    inner = assemble(msgspec.structs.replace(read_header(inner), base_offset=1), inner[61:])
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 1)
    append(log, build([NewRecord(None, b"a batch: " + inner + b" and more", (), 1_000)]))
    fill(log, 6)
    path = log.segments[0].path(".log")
    stop(log)
    flip(disk, path, batch_starts(disk, path)[1] + 66)
    assert look(reopened(disk), 1) == DAMAGED


# --- files that are too short, too long, or gone --------------------------------------------------------


def test_a_sealed_file_cut_anywhere_loses_only_what_was_cut() -> None:
    disk = SimDisk()
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    whole = disk.read_file(path) or b""
    for size in range(0, len(whole), 5):
        damaged = clone(disk)
        damaged.put(path, whole[:size])
        left = sum(end <= size for end in starts[1:])
        for _ in range(2):
            log = reopened(damaged)
            assert survey(log) == wanted()[:left] + [DAMAGED] * (4 - left) + wanted()[4:], size
            stop(log)


@pytest.mark.parametrize("left", range(4))
def test_a_sealed_file_cut_between_batches_loses_only_what_was_cut(disk: Disk, left: int) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    file = disk.open(path)
    file.truncate(batch_starts(disk, path)[left])
    log = reopened(disk)
    assert survey(log) == wanted()[:left] + [DAMAGED] * (4 - left) + wanted()[4:]


def test_a_sealed_file_that_is_damaged_and_cut_loses_both_loudly(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    flip(disk, path, 80)
    disk.open(path).truncate(starts[3])
    assert survey(reopened(disk)) == [DAMAGED, value_at(1), value_at(2), DAMAGED, *wanted()[4:]]


def test_junk_behind_a_sealed_file_is_not_served(disk: Disk) -> None:
    log = stopped(disk)
    path = log.segments[0].path(".log")
    disk.open(path).append([disk.read_file(log.segments[1].path(".log")) or b""])
    log = reopened(disk)
    assert survey(log) == wanted() and not log.home.stats.damaged_ranges


def test_a_deleted_sealed_file_is_a_gap_and_not_silence(disk: Disk) -> None:
    log = stopped(disk, 20)
    gone = log.segments[1]
    disk.remove(gone.path(".log"))
    for _ in range(3):
        log, found = open_at(disk, segment_bytes=600)
        assert found.damaged_ranges == 1
        with pytest.raises(DamagedRange) as caught:
            log.read(gone.base_offset, 1_000, 20, wait=True)
        assert caught.value.detail == {"first_offset": 4, "last_offset": 7, "next_offset": 8}
        assert survey(log) == [*wanted(4), *[DAMAGED] * 4, *wanted(20)[8:]]
        stop(log)


def test_two_deleted_sealed_files_are_one_gap(disk: Disk) -> None:
    log = stopped(disk, 20)
    for segment in log.segments[1:3]:
        disk.remove(segment.path(".log"))
    assert survey(reopened(disk)) == [*wanted(4), *[DAMAGED] * 8, *wanted(20)[12:]]


def test_a_deleted_first_file_moves_the_start(disk: Disk) -> None:
    log = stopped(disk, 20)
    disk.remove(log.segments[0].path(".log"))
    log = reopened(disk)
    assert log.start_offset == 4 and survey(log) == wanted(20)[4:]


def test_a_gap_behind_a_damaged_segment_is_still_an_error(disk: Disk) -> None:
    log = stopped(disk, 20)
    before, gone = log.segments[:2]
    flip(disk, before.path(".log"), 80)
    disk.remove(gone.path(".log"))
    assert survey(reopened(disk)) == [DAMAGED, *wanted(4)[1:], *[DAMAGED] * 4, *wanted(20)[8:]]


def test_a_gap_behind_a_segment_without_index_is_still_an_error(disk: Disk) -> None:
    log = stopped(disk, 20)
    before, gone = log.segments[:2]
    disk.remove(before.path(".index"))
    disk.remove(gone.path(".log"))
    assert survey(reopened(disk)) == [*wanted(4), *[DAMAGED] * 4, *wanted(20)[8:]]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".seal"])
def test_a_deleted_side_file_costs_a_walk_and_nothing_else(disk: Disk, suffix: str) -> None:
    log = stopped(disk, 20)
    for segment in log.segments:
        disk.remove(segment.path(suffix))
    log = reopened(disk)
    assert survey(log) == wanted(20)
    assert log.offset_at_time(1_009) == (9, 1_009)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and survey(log) == wanted(20)


@pytest.mark.parametrize("name", ["meta.json", "checkpoint"])
def test_a_deleted_note_costs_a_check_and_nothing_else(disk: Disk, name: str) -> None:
    stopped(disk, 20)
    disk.remove(f"{DIRECTORY}/{name}")
    assert survey(reopened(disk)) == wanted(20)


# --- flips in the side files ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".seal"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_flip_of_any_byte_of_a_side_file_changes_no_record(suffix: str, which: int) -> None:
    disk = SimDisk()
    log = stopped(disk)
    path = log.segments[which].path(suffix)
    for position in range(len(disk.read_file(path) or b"")):
        for bit in (position % 8, (position + 5) % 8):
            damaged = clone(disk)
            damaged.flip_bit(path, position, bit)
            log = reopened(damaged)
            assert survey(log) == wanted(), position
            assert log.offset_at_time(1_002) == (2, 1_002)
            assert not log.home.stats.damaged_ranges


@pytest.mark.parametrize("name", ["meta.json", "checkpoint"])
def test_a_flip_of_any_byte_of_a_note_changes_no_record(name: str) -> None:
    disk = SimDisk()
    stopped(disk)
    path = f"{DIRECTORY}/{name}"
    for position in range(len(disk.read_file(path) or b"")):
        damaged = clone(disk)
        damaged.flip_bit(path, position, position % 8)
        log = reopened(damaged)
        assert (log.start_offset, log.end_offset) == (0, COUNT)
        assert survey(log) == wanted(), position


def test_a_flip_of_any_byte_of_a_damage_note_changes_no_record() -> None:
    disk = SimDisk()
    log = stopped(disk)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    log = reopened(disk)
    expected = [value_at(0), DAMAGED, *wanted()[2:]]
    assert survey(log) == expected
    stop(log)
    note = log.segments[0].path(".damage")
    for position in range(len(disk.read_file(note) or b"")):
        damaged = clone(disk)
        damaged.flip_bit(note, position, position % 8)
        assert survey(reopened(damaged)) == expected, position


def test_damage_known_when_the_seal_was_written_outlives_its_note() -> None:
    disk = SimDisk()
    log = stopped(disk, 6, segment_bytes=10_000)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    log = reopened(disk, 10_000)
    expected = [value_at(0), DAMAGED, *wanted(6)[2:]]
    assert survey(log) == expected
    stop(log)
    flip(disk, log.segments[0].path(".damage"), 12)
    assert survey(reopened(disk, 10_000)) == expected


# --- the active segment ---------------------------------------------------------------------------------


def test_damage_in_the_middle_of_the_active_segment_is_suspect_then_fenced(disk: Disk) -> None:
    log = stopped(disk, 6, segment_bytes=10_000)
    path = log.segments[0].path(".log")
    flip(disk, path, batch_starts(disk, path)[1] + 80)
    log, found = open_at(disk, segment_bytes=10_000)
    assert found.was_clean, "a clean stop is believed until somebody reads"
    assert look(log, 0) == value_at(0)
    with pytest.raises(NeedsVerification):
        log.read(1, 1, 6, wait=True)
    log.roll()
    with pytest.raises(DamagedRange) as caught:
        log.read(1, 1_000, 6, wait=True)
    assert caught.value.detail == {"first_offset": 1, "last_offset": 1, "next_offset": 2}
    fill(log, 2)
    expected = [value_at(0), DAMAGED, *wanted(8)[2:]]
    assert survey(log) == expected and log.home.stats.damaged_ranges == 1
    stop(log)
    log, found = open_at(disk, segment_bytes=10_000)
    assert found.was_clean and survey(log) == expected


def test_a_read_over_damage_in_the_active_segment_gives_no_part_of_it(disk: Disk) -> None:
    log = stopped(disk, 6, segment_bytes=10_000)
    path = log.segments[0].path(".log")
    starts = batch_starts(disk, path)
    sound = (disk.read_file(path) or b"")[: starts[3]]
    flip(disk, path, starts[3] + 80)
    log = reopened(disk, 10_000)
    try:
        data = log.read(0, 10_000, 6, wait=True)
    except NeedsVerification:
        return
    assert data and sound.startswith(data)


def test_a_flip_of_any_byte_of_the_active_segment_is_never_served() -> None:
    disk = SimDisk()
    path = stopped(disk, 5, segment_bytes=10_000).segments[0].path(".log")
    for position, owner in positions(disk, path, {*BASE_OFFSET, *LAST_OFFSET_DELTA}):
        check_active_flip(disk, path, position, position % 8, owner)


def check_active_flip(disk: SimDisk, path: str, position: int, bit: int, owner: int) -> None:
    """The batch that was hit is fenced, or cut where it is the last; all others keep their place."""
    damaged = clone(disk)
    damaged.flip_bit(path, position, bit)
    log = reopened(damaged, 10_000)
    found = survey(log)
    assert len(found) == 5 or (len(found) == owner == 4), (position, bit)
    for offset, value in enumerate(found):
        assert value == value_at(offset) or (offset == owner and value == DAMAGED), (position, bit, offset)


@pytest.mark.parametrize("owner", range(5))
def test_a_flip_of_a_base_offset_in_the_active_segment_is_never_served(owner: int) -> None:
    disk = SimDisk()
    path = stopped(disk, 5, segment_bytes=10_000).segments[0].path(".log")
    start = batch_starts(disk, path)[owner]
    for position in BASE_OFFSET:
        for bit in range(8):
            check_active_flip(disk, path, start + position, bit, owner)


def test_a_flip_of_a_last_offset_in_the_active_segment_leaves_no_silent_hole() -> None:
    disk = SimDisk()
    path = stopped(disk, 5, segment_bytes=10_000).segments[0].path(".log")
    for owner, start in enumerate(batch_starts(disk, path)[:-1]):
        for position in LAST_OFFSET_DELTA:
            for bit in range(8):
                check_active_flip(disk, path, start + position, bit, owner)


def test_a_flip_of_a_base_offset_after_a_crash_does_not_move_the_end() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=10_000)
    fill(log, 5)
    sync(log)
    path = log.segments[0].path(".log")
    for owner, start in enumerate(batch_starts(disk, path)[:-1]):
        damaged = clone(disk)
        damaged.flip_bit(path, start + 3, 0)
        log = reopened(damaged, 10_000)
        assert log.end_offset in (5, owner)
        assert MISSING not in survey(log)


def test_damage_below_the_last_sync_is_fenced_after_a_crash() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=10_000)
    fill(log, 6)
    sync(log)
    fill(log, 2)
    path = log.segments[0].path(".log")
    after = disk.crash("kept")
    after.flip_bit(path, batch_starts(disk, path)[2] + 80)
    log, found = open_at(after, segment_bytes=10_000)
    assert found.damaged_ranges == 1 and not found.bytes_cut
    assert survey(log) == [*wanted(2), DAMAGED, *wanted(8)[3:]]
    fill(log, 1)
    stop(log)
    assert survey(reopened(after, 10_000)) == [*wanted(2), DAMAGED, *wanted(9)[3:]]


def test_damage_above_the_last_sync_is_cut_and_kept_for_people() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=10_000)
    fill(log, 2)
    sync(log)
    fill(log, 4)
    path = log.segments[0].path(".log")
    after = disk.crash("kept")
    starts = batch_starts(disk, path)
    after.flip_bit(path, starts[3] + 80)
    log, found = open_at(after, segment_bytes=10_000)
    assert log.end_offset == 3 and found.bytes_cut == starts[-1] - starts[3]
    kept = after.read_file(f"{DIRECTORY}/{0:020d}.{starts[3]}.cut") or b""
    assert len(kept) == found.bytes_cut and survey(log) == wanted(3)


def test_a_damaged_unsealed_segment_in_the_middle_keeps_what_was_safe_behind_it() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 12)
    sync(log)
    after = disk.crash("kept")
    path = log.segments[1].path(".log")
    after.flip_bit(path, batch_starts(disk, path)[1] + 80)
    log = reopened(after)
    assert survey(log) == [*wanted(5), DAMAGED, *wanted(12)[6:]]
    stop(log)
    assert survey(reopened(after)) == [*wanted(5), DAMAGED, *wanted(12)[6:]]


def test_a_malformed_batch_with_a_right_crc_hurts_only_itself(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, by_hand.batch(b"\x7f" * 50, 1))
    append(log, batch("next"))
    stop(log)
    log, found = open_at(disk)
    assert found.was_clean and log.end_offset == 2
    assert look(log, 1) == "next"


def test_a_malformed_batch_does_not_spoil_looking_up_times(disk: Disk) -> None:
    log, _ = open_at(disk)
    append(log, by_hand.batch(b"\x7f" * 50, 1))
    append(log, batch("next", time=2_000))
    assert log.offset_at_time(900) == (1, 2_000)


def test_a_lost_first_file_of_a_compacted_log_is_not_forgotten_by_a_start_that_is_interrupted() -> None:
    """At any step: an empty file without a seal is what compaction leaves where nothing survived."""
    crash_at, is_over = 0, False
    while not is_over:
        disk = SimDisk()
        log, _ = replicated(disk)
        fill(log, 60, keys=["a", "b", "c", *map(str, range(57))])
        sync(log)
        seal(log)
        compact_all(log, compacted(segment_bytes=600))
        seal(log)
        log.close()
        disk.remove(log.segments[0].path(".log"))
        disk = disk.crash("kept")
        disk.crash_at = disk.steps + crash_at
        try:
            replicated(disk)
            is_over = True
        except PowerCut:
            crash_at += 1
        log, _ = replicated(disk.crash("kept"))
        assert is_damaged(log) and log.start_offset == 0, crash_at
    assert crash_at > 3


def replicated(disk: SimDisk) -> tuple[PartitionLog, Recovered]:
    return open_log(home(disk), RollRule(600, 168 * HOUR_MS), "", True)


def test_what_the_disk_failed_to_read_once_is_no_damage_when_it_is_as_sealed(disk: Disk) -> None:
    """Nobody else may have it, and a log with damage is not compacted. What is damaged stays so."""
    log = stopped(disk)
    log.roll()
    seal(log)
    first, second = log.segments[:2]
    log.note_unreadable(first, OSError(errno.EIO, "timed out"))
    second.quarantine([DamagedRegion(0, 10, second.base_offset, second.base_offset + 1)])
    log.note_unreadable(second, OSError(errno.EIO, "timed out"))
    assert candidates(log) == []
    for segment in (first, second):
        assert sum(scrub(segment)) == segment.length
    assert candidates(log) == [first] and second.differs
