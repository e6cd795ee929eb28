"""No space, failing syncs, and the guard that refuses writes before either."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from goqueue.base.errors import DiskFull, StorageFailed
from goqueue.format.batch import Buffer
from goqueue.log.disk import Usage
from goqueue.log.space import SpaceGuard
from goqueue.sim.disk import SimDisk, SimFile
from tests.log.logs import DIRECTORY, append, batch, fill, look, open_at, seal, stop, survey, sync, value_at

ROOM = 1 << 20


def wanted(count: int) -> list[str]:
    return [value_at(number) for number in range(count)]


def test_an_append_without_space_changes_nothing() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 3)
    sync(log)
    disk.capacity_bytes = used = disk.capacity_bytes - disk.usage().free_bytes
    size = log.size_bytes
    for _ in range(2):
        with pytest.raises(DiskFull):
            fill(log, 1)
        assert (log.end_offset, log.size_bytes, log.failure) == (3, size, None)
    assert log.home.stats.append_failures == 2
    assert survey(log) == wanted(3), "reads go on"
    disk.capacity_bytes = used + ROOM
    fill(log, 2)
    stop(log)
    log, found = open_at(disk)
    assert found.was_clean and survey(log) == wanted(5)


def test_an_append_that_finds_no_space_right_after_a_roll_is_tried_again_later() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 4)
    sync(log)
    disk.capacity_bytes -= disk.usage().free_bytes
    for _ in range(3):
        with pytest.raises(DiskFull):
            fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 4], "no segment is added at every try"
    disk.capacity_bytes += ROOM
    fill(log, 4)
    seal(log)
    stop(log)
    log, _ = open_at(disk, segment_bytes=600)
    assert survey(log) == wanted(8)


def test_a_first_append_without_space_leaves_an_empty_log() -> None:
    disk = SimDisk(capacity_bytes=10)
    log, _ = open_at(disk)
    with pytest.raises(DiskFull):
        append(log, batch("a"))
    assert log.end_offset == 0
    again, _ = open_at(disk)
    assert again.end_offset == 0


@pytest.mark.parametrize("space", range(0, 1_400, 60))
def test_whatever_space_is_left_a_refused_append_loses_nothing(space: int) -> None:
    disk = SimDisk(capacity_bytes=space)
    log, _ = open_at(disk, segment_bytes=400)
    taken = 0
    for _ in range(20):
        try:
            fill(log, 1)
            taken += 1
        except DiskFull:
            assert log.end_offset == taken
    assert survey(log) == wanted(taken)
    disk.capacity_bytes += ROOM
    fill(log, 1)
    log, _ = open_at(disk, segment_bytes=400)
    assert survey(log) == wanted(taken + 1)


def test_any_other_error_of_a_write_makes_the_log_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = open_at(SimDisk())
    fill(log, 3)

    def fails(self: SimFile, buffers: Sequence[Buffer]) -> None:
        raise OSError(errno.EIO, "simulated write failure")

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "append", fails)
        with pytest.raises(StorageFailed):
            fill(log, 1)
    with pytest.raises(StorageFailed):
        fill(log, 1)
    assert log.failure is not None and log.begin_sync() is None
    assert log.end_offset == 3 and survey(log) == wanted(3)


def test_a_log_that_failed_keeps_nothing_of_those_who_try_to_write() -> None:
    log, _ = open_at(SimDisk())
    log.fail(OSError(errno.EIO, "simulated write failure"))
    met = []
    for _ in range(3):
        with pytest.raises(StorageFailed) as caught:
            fill(log, 1)
        met.append(caught.value)
    assert len({id(one) for one in met}) == 3, "the frames of all who met one error stay as long as it does"


def test_a_failed_sync_vouches_for_nothing() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 2)
    sync(log)
    fill(log, 2)
    disk.fails_sync = True
    job = log.begin_sync()
    assert job is not None
    with pytest.raises(OSError, match="sync failure") as caught:
        job.run()
    assert log.synced_offset == 2
    failure = log.fail(caught.value)
    assert isinstance(failure, StorageFailed) and log.failure is not None and str(log.failure) == str(failure)
    disk.fails_sync = False
    with pytest.raises(StorageFailed):
        fill(log, 1)
    assert log.begin_sync() is None and log.synced_offset == 2
    assert survey(log) == wanted(4), "reads go on"


def test_after_a_failed_sync_a_restart_finds_what_is_there() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    fill(log, 2)
    sync(log)
    fill(log, 2)
    disk.fails_sync = True
    job = log.begin_sync()
    assert job is not None
    with pytest.raises(OSError, match="sync failure") as caught:
        job.run()
    log.fail(caught.value)
    log.close()
    for mode, counts in (("kept", {4}), ("dropped", {2}), ("torn", {2, 3, 4})):
        again, _ = open_at(disk.crash(mode, 1))  # type: ignore[arg-type]
        assert again.end_offset in counts and survey(again) == wanted(again.end_offset)
        fill(again, 1)
        assert look(again, again.end_offset - 1) == value_at(again.end_offset - 1)


def test_a_sync_on_a_full_disk_does_not_fail_the_partition() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=400)
    fill(log, 2)
    sync(log)
    fill(log, 4)
    disk.capacity_bytes -= disk.usage().free_bytes
    sync(log)
    assert log.synced_offset == 6


def test_damage_is_told_and_the_rest_is_read_on_a_full_disk() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    fill(log, 12)
    stop(log)
    disk.flip_bit(log.segments[0].path(".log"), 80)
    disk.capacity_bytes -= disk.usage().free_bytes
    log, _ = open_at(disk, segment_bytes=600)
    assert survey(log) == ["damaged", *wanted(12)[1:]]


def test_the_guard_refuses_writes_above_its_limit_and_looks_again_when_told() -> None:
    disk = SimDisk(capacity_bytes=1_000)
    guard = SpaceGuard(disk, 90)
    guard.check()
    disk.make_dirs("d")
    disk.open("d/f", create=True).append([b"x" * 899])
    assert guard.measure() == Usage(1_000, 101, 89.9)
    guard.check()
    disk.open("d/f").append([b"x"])
    guard.check()
    guard.measure()
    assert guard.is_full
    with pytest.raises(DiskFull, match="90 % full") as caught:
        guard.check()
    assert caught.value.detail == {"used_percent": 90.0}
    disk.remove("d/f")
    guard.measure()
    guard.check()


def test_a_full_disk_leaves_no_half_written_note_behind() -> None:
    disk = SimDisk()
    disk.make_dirs(DIRECTORY)
    disk.write_file(f"{DIRECTORY}/note", b"old")
    disk.capacity_bytes = 5
    with pytest.raises(OSError, match="full"):
        disk.write_file(f"{DIRECTORY}/note", b"longer than before")
    assert disk.read_file(f"{DIRECTORY}/note") == b"old"
