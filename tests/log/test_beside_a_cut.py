"""What was under way, or noted, while a log was cut or begun anew: nothing of it holds for what comes after."""

from __future__ import annotations

import msgspec

from goqueue.log.appending import RollRule
from goqueue.log.recovery import open_log
from goqueue.sim.disk import SimDisk
from tests.log.logs import (
    DIRECTORY,
    HOUR_MS,
    append,
    batch,
    fill,
    home,
    of_a_leader,
    open_at,
    seal,
    survey,
    sync,
    taken,
    value_at,
    values,
)


def test_a_seal_begun_before_a_cut_does_not_seal_what_is_written_to_again() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 6)
    job = log.begin_seal()
    assert job is not None
    log.truncate(2)
    job.run()
    log.finish_seal(job)
    assert log.segments[-1].seal is None
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".seal")]
    fill(log, 6)
    sync(log)
    seal(log)
    log, found = open_at(disk.crash("dropped"), segment_bytes=600)
    assert not found.damaged_ranges and survey(log) == [value_at(number) for number in range(8)]


def test_the_seal_of_a_log_that_began_anew_is_not_that_of_another_segment_of_the_name() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 6)
    job = log.begin_seal()
    assert job is not None
    log.begin_anew(0)
    fill(log, 3, size=100)
    job.segment.seal = None
    disk.put(job.segment.path(".seal"), b"of the one before")
    log.finish_seal(job)
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".seal")]


def test_a_sync_that_fails_as_the_log_begins_anew_leaves_nothing_to_sync() -> None:
    log, _ = open_at(SimDisk())
    fill(log, 3)
    job = log.begin_sync()
    assert job is not None
    log.begin_anew(0)
    log.refuse_sync(job, FileNotFoundError("it is gone"))
    assert log.begin_sync() is None
    fill(log, 1)
    sync(log)
    assert log.synced_offset == 1


def test_a_dropped_head_does_not_take_the_file_that_has_its_name_by_now() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 8)
    sync(log)
    seal(log)
    job = log.begin_drop_head(8)
    log.begin_anew(0)
    fill(log, 2)
    sync(log)
    job.run()
    log, _ = open_at(disk.crash("kept"), segment_bytes=600)
    assert survey(log) == [value_at(number) for number in range(2)]


def test_a_batch_that_begins_before_an_empty_log_is_taken() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    log.begin_anew(5)
    append(log, batch("other"))
    log.truncate(5)
    assert [one.base_offset for one in log.segments] == [5]
    taken(log, of_a_leader(4, "a", "b", "c"))
    sync(log)
    assert (log.start_offset, log.end_offset, values(log)) == (5, 7, ["b", "c"])
    log, _ = open_at(disk.crash("dropped"))
    assert (log.start_offset, log.end_offset, values(log)) == (5, 7, ["b", "c"])


def test_what_was_to_be_deleted_and_was_lost_is_not_deleted_when_others_stand_there() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    fill(log, 3)
    log.note_deleted(5)
    log.notes.write()
    disk = disk.crash("dropped")
    log, _ = open_at(disk)
    assert (log.end_offset, log.notes.meta.deleted_to) == (3, 3)
    fill(log, 3)
    sync(log)
    log, _ = open_at(disk.crash("dropped"))
    assert (log.end_offset, log.notes.meta.deleted_to) == (6, 3)


def test_what_a_killed_process_had_not_synced_is_safe_with_its_name_when_it_counts() -> None:
    for messages in (0, 2):
        disk = SimDisk()
        log, _ = open_at(disk)
        log.roll()
        fill(log, messages)
        log, _ = open_at(disk)  # killed, and started again
        assert log.synced_offset == messages
        fill(log, 1)
        sync(log)
        log, _ = open_at(disk.crash("dropped"))
        assert log.end_offset == messages + 1


def test_where_a_new_log_begins_anew_is_safe_with_its_directory() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    log.begin_anew(5)
    assert log.synced_offset == 5
    log, _ = open_at(disk.crash("dropped"))
    assert (log.start_offset, log.end_offset) == (5, 5)


def test_what_a_cut_leaves_of_a_log_that_was_never_synced_is_safe_with_its_directory() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 5)
    log.truncate(3)
    assert log.synced_offset == 3
    log, _ = open_at(disk.crash("dropped"))
    assert survey(log) == [value_at(number) for number in range(3)]


def test_that_a_log_has_files_is_settled_before_its_directory_is_durable() -> None:
    disk = SimDisk()
    found: list[bool] = []

    def settled() -> None:
        found.append(disk.crash("dropped").is_dir(DIRECTORY))

    log, _ = open_log(msgspec.structs.replace(home(disk), settled=settled), RollRule(2048, HOUR_MS))
    log.begin_anew(5)
    assert found == [False]
    fill(log, 3)
    log.truncate(6)
    assert found == [False, True]
