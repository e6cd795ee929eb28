"""No descriptor or no memory is no damage: the write is refused, the log stays writable, nothing is lost."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from goqueue.base.errors import OutOfResources, StorageFailed
from goqueue.format.batch import Buffer
from goqueue.log.appending import RollRule
from goqueue.log.held_logs import HeldLogs
from goqueue.log.home import OpenSegments, SegmentHome
from goqueue.log.partition_log import PartitionLog
from goqueue.log.real_disk import RealDisk, RealFile
from goqueue.log.recovery import open_log
from goqueue.log.spare import SpareDescriptors
from goqueue.log.stats import StorageStats
from goqueue.sim.disk import SimDisk, SimFile
from tests.log.logs import HOUR_MS, append, batch, home, open_at, read_all, seal, sync

LOAD = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def values(log: PartitionLog) -> list[str]:
    return [(record.value or b"").decode() for record in read_all(log)]


def test_a_segment_that_cannot_be_opened_refuses_the_write_and_nothing_else() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=1024)
    disk.out_of_files = True
    with pytest.raises(OutOfResources):
        append(log, batch("a"))
    assert log.failure is None
    disk.out_of_files = False
    append(log, batch("a"))
    append(log, batch("b" * 900))
    disk.out_of_files = True
    with pytest.raises(OutOfResources):
        append(log, batch("c" * 900))  # it would roll
    assert log.failure is None
    disk.out_of_files = False
    append(log, batch("c" * 900))
    sync(log)
    assert values(log) == ["a", "b" * 900, "c" * 900]


@pytest.mark.parametrize("number", LOAD)
def test_a_write_for_which_the_system_has_no_room_is_refused_once(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = open_at(SimDisk())
    append(log, batch("a"))

    def fails(self: SimFile, buffers: Sequence[Buffer]) -> None:
        raise OSError(number, "simulated")

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "append", fails)
        with pytest.raises(OutOfResources):
            append(log, batch("b"))
    append(log, batch("c"))
    assert log.failure is None and values(log) == ["a", "c"]


def test_what_may_mean_damage_still_makes_the_log_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = open_at(SimDisk())
    append(log, batch("a"))

    def fails(self: SimFile, buffers: Sequence[Buffer]) -> None:
        raise OSError(errno.EIO, "simulated")

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "append", fails)
        with pytest.raises(StorageFailed):
            append(log, batch("b"))
    assert log.failure is not None


def test_a_sync_that_finds_no_descriptor_promises_nothing_and_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = open_at(SimDisk())
    append(log, batch("a"))

    def fails(self: SimDisk, path: str) -> None:
        raise OSError(errno.EMFILE, "simulated")

    job = log.begin_sync()
    assert job is not None
    with monkeypatch.context() as patched:
        patched.setattr(SimDisk, "sync_dir", fails)
        with pytest.raises(OSError, match="simulated") as caught:
            job.run()
    assert not job.sync_failed
    log.refuse_sync(job, caught.value)
    assert log.failure is None and log.is_dirty and log.synced_offset == 0
    assert isinstance(log.sync_refusal, OutOfResources)
    sync(log)
    assert log.synced_offset == 1 and log.sync_refusal is None


def test_a_sync_that_fails_as_such_is_known_by_that() -> None:
    disk = SimDisk()
    log, _ = open_at(disk)
    append(log, batch("a"))
    disk.fails_sync = True
    job = log.begin_sync()
    assert job is not None
    with pytest.raises(OSError, match="sync failure"):
        job.run()
    assert job.sync_failed


# --- handles that are let go -----------------------------------------------------------------------------------


def logs_that_share(disk: SimDisk | RealDisk, count: int, active_max: int) -> tuple[list[PartitionLog], OpenSegments]:
    shared = OpenSegments(4, active_max)
    made = []
    for number in range(count):
        at = SegmentHome(disk, f"logs/t/{number}", 256, shared, StorageStats())
        made.append(open_log(at, RollRule(2048, 168 * HOUR_MS))[0])
    return made, shared


def test_only_so_many_logs_hold_a_handle_and_all_can_be_written_to(tmp_path: Path) -> None:
    logs, shared = logs_that_share(RealDisk(tmp_path), 20, 3)
    for turn in range(40):
        for number, log in enumerate(logs):
            append(log, batch(f"{number}-{turn}"))
            sync(log)
            assert shared.active_count <= 3
    for number, log in enumerate(logs):
        seal(log)
        assert values(log) == [f"{number}-{turn}" for turn in range(40)]
        assert log.failure is None


def test_a_handle_stays_until_what_was_written_through_it_is_safe() -> None:
    logs, _ = logs_that_share(SimDisk(), 6, 2)
    for log in logs:
        append(log, batch("a"))
    assert all(log.segments[-1].held_file() is not None for log in logs)
    for log in logs:
        sync(log)
    assert sum(log.segments[-1].held_file() is not None for log in logs) <= 2


def test_a_log_that_finds_no_descriptor_takes_that_of_one_that_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ask for the others any more: they would keep theirs for good."""
    logs, shared = logs_that_share(SimDisk(), 6, 100)
    real_open = SimDisk.open

    def limited(self: SimDisk, path: str, *, create: bool = False, spare: bool = False) -> SimFile:
        if shared.active_count >= 5 and not spare:
            raise OSError(errno.EMFILE, "Too many open files")
        return real_open(self, path, create=create, spare=spare)

    monkeypatch.setattr(SimDisk, "open", limited)
    for log in logs[:5]:
        append(log, batch("a"))
    with pytest.raises(OutOfResources):
        append(logs[5], batch("a"))
    for log in logs[:5]:
        sync(log)
    append(logs[5], batch("a"))
    assert [values(log) for log in logs] == [["a"]] * 6


def test_a_sync_that_lacks_a_descriptor_for_names_gives_up_those_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a node whose descriptors are all held by such files would never get out of it."""
    logs, _ = logs_that_share(SimDisk(), 6, 2)
    for log in logs:
        append(log, batch("a"))

    def no_more(self: SimDisk, path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(SimDisk, "sync_dir", no_more)
        for log in logs:
            job = log.begin_sync()
            assert job is not None
            with pytest.raises(OSError, match="Too many") as refused:
                job.run()
            log.refuse_sync(job, refused.value)
    assert sum(log.segments[-1].held_file() is not None for log in logs) <= 2
    assert [log.synced_offset for log in logs] == [0] * 6, "nothing is promised yet"
    for log in logs:
        sync(log)
    assert [log.synced_offset for log in logs] == [1] * 6
    assert [values(log) for log in logs] == [["a"]] * 6


def test_which_logs_were_there_is_noted_with_a_descriptor_that_is_held_back() -> None:
    disk = SimDisk()
    held = HeldLogs(disk)
    disk.out_of_files = True
    held.add("topic", 3)
    held.settle("topic")
    assert HeldLogs(disk.crash("dropped")).has("topic", 3)


def test_a_file_of_another_size_than_it_should_have_is_not_written_to(tmp_path: Path) -> None:
    """A second writer must not be able to overwrite what is there."""
    log, _ = open_log(home(RealDisk(tmp_path)), RollRule(2048, 168 * HOUR_MS))
    append(log, batch("a"))
    sync(log)
    log.segments[-1].let_go()
    with (tmp_path / log.segments[-1].path(".log")).open("ab") as other:
        other.write(b"x")
    with pytest.raises(StorageFailed):
        append(log, batch("b"))


def test_a_log_that_is_deleted_leaves_no_handle_open() -> None:
    logs, shared = logs_that_share(SimDisk(), 3, 8)
    for log in logs:
        append(log, batch("a"))
    logs[1].release("trash")
    assert shared.active_count == 2


# --- descriptors held back -------------------------------------------------------------------------------------


def test_what_must_not_fail_uses_a_descriptor_that_is_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path, spare=2)
    disk.make_dirs("d")
    calls = 0

    def scarce(self: RealFile, path: str, create: bool) -> None:
        nonlocal calls
        calls += 1
        self._fd = -1
        if calls % 2:
            raise OSError(errno.EMFILE, "simulated")
        opened(self, path, create)

    opened = RealFile.__init__
    monkeypatch.setattr(RealFile, "__init__", scarce)
    for _ in range(10):
        disk.open("d/f", create=True, spare=True)
    with pytest.raises(OSError, match="simulated"):
        disk.open("d/f", create=True)
    disk.close()


def test_without_one_to_give_the_error_is_told() -> None:
    def fails() -> None:
        raise OSError(errno.EMFILE, "simulated")

    spare = SpareDescriptors(1)
    with pytest.raises(OSError, match="simulated"):
        spare.use(fails)
    spare.close()
