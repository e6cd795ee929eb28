"""Which logs have files is known after a crash, and not of topics that were deleted."""

from __future__ import annotations

from goqueue.log.held_logs import HELD, HeldLogs
from goqueue.sim.disk import SimDisk


def test_logs_are_known_after_a_crash_and_each_is_noted_once() -> None:
    disk = SimDisk()
    held = HeldLogs(disk)
    for partition in (0, 12, 0, 12):
        held.add("an-id", partition)
    disk = disk.crash("kept")
    again = HeldLogs(disk)
    assert [again.has("an-id", partition) for partition in (0, 1, 2, 12)] == [True, False, False, True]
    assert not again.has("another-id", 0)
    again.add("an-id", 1)
    again.add("an-id", 12)
    assert disk.read_file(f"{HELD}/an-id") == b"0\n12\n1\n"


def test_a_deleted_topic_is_forgotten() -> None:
    disk = SimDisk()
    held = HeldLogs(disk)
    held.add("an-id", 3)
    held.forget("an-id")
    held.forget("another-id")
    assert not held.has("an-id", 3) and disk.names(HELD) == []


def test_a_full_disk_is_no_reason_to_fail() -> None:
    disk = SimDisk()
    held = HeldLogs(disk)
    disk.full_at = disk.space_calls
    held.add("an-id", 3)
    assert not held.has("an-id", 3)
    disk.free_space()
    held.add("an-id", 3)
    assert held.has("an-id", 3)


def test_what_is_settled_survives_a_power_cut() -> None:
    disk = SimDisk()
    held = HeldLogs(disk)
    held.add("an-id", 3)
    assert not HeldLogs(disk.crash("dropped")).has("an-id", 3)
    held.settle("an-id")
    held.settle("another-id")
    held.add("an-id", 4)
    again = HeldLogs(disk.crash("dropped"))
    assert again.has("an-id", 3) and not again.has("an-id", 4)
    held.forget("an-id")
    held.settle("an-id")
