"""The disk port: one contract for both disks, and the faults of the simulated one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from goqueue.log.disk import Disk
from goqueue.log.real_disk import RealDisk
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk

MODES: list[CrashMode] = ["kept", "dropped", "torn"]


# --- the contract ---------------------------------------------------------------------------------------


def test_a_file_grows_is_read_anywhere_and_is_cut(disk: Disk) -> None:
    disk.make_dirs("a/b")
    file = disk.open("a/b/f", create=True)
    assert file.size == 0 and file.read(0, 10) == b""
    file.append([b"hello", memoryview(b" "), bytearray(b"world")])
    assert file.size == disk.size("a/b/f") == 11
    assert file.read(6, 5) == b"world" and file.read(6, 50) == b"world" and file.read(11, 1) == b""
    assert file.read_cached(0, 5) == b"hello"
    file.truncate(5)
    file.append([b"!"])
    file.sync()
    assert file.size == 6 and disk.read_file("a/b/f") == b"hello!"


def test_many_buffers_are_appended_in_one_go(disk: Disk) -> None:
    disk.make_dirs("a")
    file = disk.open("a/f", create=True)
    parts = [bytes([number % 256]) * (number % 7) for number in range(3_000)]
    file.append(parts)
    assert file.read(0, 1 << 20) == b"".join(parts)


def test_a_file_that_is_not_there_is_not_opened(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("nothing")
    with pytest.raises(FileNotFoundError):
        disk.open("no/dir/f", create=True)
    with pytest.raises(FileNotFoundError):
        disk.size("nothing")
    assert disk.read_file("nothing") is None and disk.read_file("no/dir/f") is None
    assert disk.names("nothing") == [] and not disk.is_dir("nothing")


def test_a_note_is_replaced_whole(disk: Disk) -> None:
    disk.make_dirs("a")
    for data in (b"first", b"", b"x" * 100_000, b"last"):
        for durable in (True, False):
            disk.write_file("a/note", data, durable=durable)
            assert disk.read_file("a/note") == data
    assert disk.names("a") == ["note"]


def test_names_come_sorted_and_only_of_that_directory(disk: Disk) -> None:
    disk.make_dirs("a/sub/deep")
    for name in ("z", "b", "a"):
        disk.open(f"a/{name}", create=True)
    disk.make_dirs("ab")
    assert disk.names("a") == ["a", "b", "sub", "z"]
    assert disk.is_dir("a/sub") and not disk.is_dir("a/z")


def test_a_rename_replaces_and_moves_directories(disk: Disk) -> None:
    disk.make_dirs("a/sub")
    disk.open("a/f", create=True).append([b"new"])
    disk.open("a/g", create=True).append([b"old"])
    disk.open("a/sub/h", create=True).append([b"deep"])
    disk.rename("a/f", "a/g")
    disk.rename("a/sub", "a/moved")
    assert disk.names("a") == ["g", "moved"]
    assert disk.read_file("a/g") == b"new" and disk.read_file("a/moved/h") == b"deep"
    with pytest.raises(FileNotFoundError):
        disk.rename("a/f", "a/x")


def test_removing_is_quiet_about_what_is_not_there(disk: Disk) -> None:
    disk.make_dirs("a/b/c")
    disk.open("a/b/f", create=True)
    disk.remove("a/b/nothing")
    disk.remove("a/b/f")
    disk.remove_tree("a/b")
    disk.remove_tree("a/b")
    assert disk.names("a") == []


def test_an_open_file_outlives_its_name(disk: Disk) -> None:
    disk.make_dirs("a")
    file = disk.open("a/f", create=True)
    file.append([b"still here"])
    disk.remove("a/f")
    disk.open("a/f", create=True).append([b"another"])
    assert file.read(0, 99) == b"still here" and disk.read_file("a/f") == b"another"


def test_the_usage_adds_up(disk: Disk) -> None:
    usage = disk.usage()
    assert 0 <= usage.free_bytes <= usage.total_bytes and 0 <= usage.used_percent <= 100


def test_paths_of_the_real_disk_stay_below_its_root(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "root")
    disk.make_dirs("a")
    disk.write_file("a/f", b"x")
    assert (tmp_path / "root" / "a" / "f").read_bytes() == b"x"


def write_three_bytes(fd: int, buffers: list[bytes], position: int) -> int:
    """A `pwritev` that comes back early."""
    return os.write(fd, b"".join(buffers)[:3]) if os.lseek(fd, position, os.SEEK_SET) >= 0 else 0


def no_space(fd: int, data: bytes, position: int) -> int:
    raise OSError(errno.ENOSPC, "no space")


def test_a_real_append_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).open("f", create=True)
    file.append([b"whole"])
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", write_three_bytes)
        patched.setattr(os, "pwrite", no_space)
        with pytest.raises(OSError, match="no space"):
            file.append([b"half a ", b"batch"])
    assert file.size == 5 and (tmp_path / "f").read_bytes() == b"whole"
    file.append([b", again"])
    assert (tmp_path / "f").read_bytes() == b"whole, again"


def test_a_real_append_goes_on_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).open("f", create=True)
    monkeypatch.setattr(os, "pwritev", write_three_bytes)
    file.append([b"hello ", b"world"])
    assert file.size == 11 and (tmp_path / "f").read_bytes() == b"hello world"


# --- the simulated crash --------------------------------------------------------------------------------


def made(disk: SimDisk) -> None:
    """A directory and a file with `safe`, all durable."""
    disk.make_dirs("a")
    disk.open("a/f", create=True).append([b"safe"])
    disk.open("a/f").sync()
    disk.sync_dir("")
    disk.sync_dir("a")


@pytest.mark.parametrize("mode", MODES)
def test_what_was_synced_survives_every_crash(mode: CrashMode) -> None:
    disk = SimDisk()
    made(disk)
    for seed in range(20):
        assert disk.crash(mode, seed).read_file("a/f") == b"safe"


def test_unsynced_bytes_are_kept_dropped_or_torn() -> None:
    disk = SimDisk()
    made(disk)
    disk.open("a/f").append([b" and not"])
    assert disk.crash("kept").read_file("a/f") == b"safe and not"
    assert disk.crash("dropped").read_file("a/f") == b"safe"
    torn = {disk.crash("torn", seed).read_file("a/f") for seed in range(60)}
    assert {b"safe", b"safe and not"} < torn
    assert all(b"safe and not".startswith(data or b"-") for data in torn)


def test_of_two_unsynced_writes_the_second_may_survive_alone() -> None:
    disk = SimDisk()
    made(disk)
    disk.open("a/f").append([b"1111"])
    disk.open("a/f").append([b"2222"])
    assert b"safe\0\0\0\x002222" in {disk.crash("torn", seed).read_file("a/f") for seed in range(60)}


def test_an_unsynced_cut_may_be_undone() -> None:
    disk = SimDisk()
    made(disk)
    disk.open("a/f").truncate(1)
    assert disk.crash("dropped").read_file("a/f") == b"safe"
    assert disk.crash("kept").read_file("a/f") == b"s"


def test_a_name_is_durable_only_after_its_directory_is_synced() -> None:
    disk = SimDisk()
    made(disk)
    new = disk.open("a/new", create=True)
    new.append([b"bytes"])
    new.sync()
    assert disk.crash("dropped").names("a") == ["f"]
    disk.sync_dir("a")
    assert disk.crash("dropped").read_file("a/new") == b"bytes"


def test_a_directory_is_durable_only_after_its_parent_is_synced() -> None:
    disk = SimDisk()
    disk.make_dirs("a/b")
    disk.open("a/b/f", create=True)
    disk.sync_dir("a/b")
    disk.sync_dir("a")
    assert disk.crash("dropped").names("") == []
    disk.sync_dir("")
    assert disk.crash("dropped").names("a/b") == ["f"]


def test_a_rename_happens_whole_or_not_at_all() -> None:
    disk = SimDisk()
    made(disk)
    disk.open("a/g", create=True)
    disk.sync_dir("a")
    disk.rename("a/f", "a/g")
    found = {tuple(disk.crash("torn", seed).names("a")) for seed in range(40)}
    assert found == {("f", "g"), ("g",)}
    assert disk.crash("dropped").read_file("a/f") == b"safe"
    disk.sync_dir("a")
    assert disk.crash("dropped").read_file("a/g") == b"safe"


def test_a_removal_is_undone_without_a_sync_of_the_directory() -> None:
    disk = SimDisk()
    made(disk)
    disk.remove("a/f")
    assert disk.crash("dropped").read_file("a/f") == b"safe"
    disk.sync_dir("a")
    assert disk.crash("dropped").read_file("a/f") is None


def test_a_note_is_old_or_new_after_a_crash_at_every_step() -> None:
    for durable in (True, False):
        for crash_at in range(4, 20):
            disk = SimDisk()
            disk.make_dirs("a")
            disk.sync_dir("")
            disk.write_file("a/note", b"old")
            disk.crash_at = disk.steps + crash_at - 4
            try:
                disk.write_file("a/note", b"new", durable=durable)
            except PowerCut:
                pass
            else:
                if durable:
                    assert disk.crash("dropped").read_file("a/note") == b"new"
            if durable:
                for mode in MODES:
                    assert disk.crash(mode, crash_at).read_file("a/note") in (b"old", b"new")


def test_the_power_goes_at_the_appointed_step_and_stays_gone() -> None:
    disk = SimDisk(crash_at=2)
    disk.make_dirs("a/b")
    with pytest.raises(PowerCut):
        disk.open("a/b/f", create=True)
    with pytest.raises(PowerCut):
        disk.sync_dir("a")


def test_a_crashed_disk_is_independent_of_the_next_life() -> None:
    disk = SimDisk()
    made(disk)
    after = disk.crash("kept")
    after.open("a/f").append([b" later"])
    assert disk.read_file("a/f") == b"safe" and after.read_file("a/f") == b"safe later"


def test_equal_seeds_tear_alike() -> None:
    disk = SimDisk()
    made(disk)
    for number in range(20):
        disk.open(f"a/n{number}", create=True).append([b"bytes"])
    assert [disk.crash("torn", 7).names("a") for _ in range(3)] == [disk.crash("torn", 7).names("a")] * 3
    assert disk.crash("torn", 7).names("a") != disk.crash("torn", 8).names("a")


def test_a_failing_sync_makes_nothing_durable() -> None:
    disk = SimDisk()
    made(disk)
    file = disk.open("a/f")
    file.append([b" more"])
    disk.fails_sync = True
    with pytest.raises(OSError, match="sync failure"):
        file.sync()
    assert disk.crash("dropped").read_file("a/f") == b"safe"


def test_a_full_disk_takes_nothing_and_keeps_what_it_has() -> None:
    disk = SimDisk(capacity_bytes=10)
    disk.make_dirs("a")
    file = disk.open("a/f", create=True)
    file.append([b"12345678"])
    with pytest.raises(OSError, match="full"):
        file.append([b"123"])
    assert file.read(0, 99) == b"12345678"
    file.append([b"90"])
    assert disk.usage().free_bytes == 0


def test_a_failing_sync_fails_for_directories_too() -> None:
    disk = SimDisk()
    made(disk)
    disk.fails_sync = True
    with pytest.raises(OSError, match="sync failure"):
        disk.sync_dir("a")
