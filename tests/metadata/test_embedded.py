"""The metadata store in files: power cuts, full disks, damage."""

from __future__ import annotations

import pytest

from goqueue.base.errors import DiskFull
from goqueue.base.metadata import Commit
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualLoop, in_place, run_virtually

COMMITS = (
    Commit({"slots": "1"}),
    Commit({"topics/a": "1", "topics/b": "1", "shards/0": "1"}),
    Commit({"topics/a": "2", "cluster": "2"}, ["topics/b"]),
    Commit(deletes=["cluster"]),
    Commit({"topics/b": "5", "slots": "5"}, ["topics/a", "shards/0"]),
    Commit({"topics/b": "6"}),
    Commit(deletes=["topics/b", "slots"]),
    Commit({"topics/c": "8", "topics/d": "8"}),
)


async def opened(disk: SimDisk) -> EmbeddedMetadata:
    store = EmbeddedMetadata(disk, in_place)
    await store.open()
    return store


async def read(disk: SimDisk) -> dict[str, str]:
    found = await (await opened(disk)).read()
    return {key: entry.value for key, entry in found.entries.items()}


def contents(disk: SimDisk) -> dict[str, str]:
    return run_virtually(lambda loop: read(disk))


def states() -> list[dict[str, str]]:
    """After each commit."""
    found: list[dict[str, str]] = [{}]
    for commit in COMMITS:
        kept = {key: value for key, value in found[-1].items() if key not in commit.deletes}
        found.append({**kept, **commit.puts})
    return found


async def live(disk: SimDisk, done: list[int]) -> None:
    store = await opened(disk)
    for number, commit in enumerate(COMMITS, 1):
        await store.commit(commit)
        done.append(number)


def live_until_cut(disk: SimDisk) -> int:
    """How many commits were answered."""
    done = [0]
    with pytest.raises(PowerCut):
        run_virtually(lambda loop: live(disk, done))
    return done[-1]


def steps_of_a_life() -> int:
    disk = SimDisk()
    run_virtually(lambda loop: live(disk, []))
    return disk.steps


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_at_any_write_leaves_every_commit_whole_or_undone(mode: CrashMode) -> None:
    wanted = states()
    total = steps_of_a_life()
    assert total > 60
    for crash_at in range(total):
        for seed in range(5 if mode == "torn" else 1):
            disk = SimDisk(crash_at)
            done = live_until_cut(disk)
            after = disk.crash(mode, seed)
            assert contents(after) in wanted[done : done + 2], (crash_at, done)


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_while_a_start_finishes_a_commit_changes_nothing(mode: CrashMode) -> None:
    for crash_at in range(0, steps_of_a_life(), 3):
        disk = SimDisk(crash_at)
        live_until_cut(disk)
        first = disk.crash(mode, crash_at)
        probe = first.crash("kept")
        expected = contents(probe)
        for second in range(probe.steps):
            again = first.crash("kept")
            again.crash_at = second
            with pytest.raises(PowerCut):
                contents(again)
            assert contents(again.crash(mode, second)) == expected


def test_a_commit_that_finds_no_room_changes_nothing_and_a_removal_needs_none() -> None:
    for first_full in range(40):

        async def scenario(loop: VirtualLoop, first_full: int = first_full) -> None:
            disk = SimDisk()
            store = await opened(disk)
            await store.commit(Commit({"topics/a": "1", "topics/b": "1"}))
            before = (await store.read()).entries
            disk.full_at = disk.space_calls + first_full
            try:
                await store.commit(Commit({"topics/a": "2", "topics/c": "2"}, ["topics/b"]))
                expected = {"topics/a": "2", "topics/c": "2"}
            except DiskFull:
                assert (await store.read()).entries == before
                expected = {"topics/a": "1", "topics/b": "1"}
            assert await read(disk.crash("kept")) == expected, "noted is done, though there is no room to carry it out"
            disk.free_space()
            await store.commit(Commit({"topics/a": "3"}))
            assert await read(disk.crash("kept")) == {**expected, "topics/a": "3"}
            disk.full_at = disk.space_calls
            await store.commit(Commit(deletes=["topics/a"]))
            disk.free_space()
            assert "topics/a" not in await read(disk.crash("kept"))

        run_virtually(scenario)


def test_a_damaged_key_is_left_alone_and_the_others_are_there() -> None:
    disk = SimDisk()
    run_virtually(lambda loop: live(disk, []))
    path = "metadata/topics/c.v"
    for position in range(len(disk.read_file(path) or b"")):
        disk.flip_bit(path, position)
        assert contents(disk) == {"topics/d": "8"}
        disk.flip_bit(path, position)
    assert contents(disk) == {"topics/c": "8", "topics/d": "8"}


def test_foreign_files_and_a_file_under_another_keys_name_are_left_alone() -> None:
    disk = SimDisk()
    run_virtually(lambda loop: live(disk, []))
    stranger = disk.read_file("metadata/topics/c.v") or b""
    disk.put("metadata/topics/e.v", stranger)
    disk.put("metadata/README", b"hello")
    disk.put("metadata/topics/c.v.tmp", b"half")
    assert contents(disk) == {"topics/c": "8", "topics/d": "8"}
    assert disk.read_file("metadata/topics/e.v") == stranger and disk.read_file("metadata/README") == b"hello"
    assert disk.read_file("metadata/topics/c.v.tmp") is None
