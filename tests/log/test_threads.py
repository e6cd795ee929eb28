"""Readers on other threads while the log changes; each race is played out step by step."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from goqueue.base.errors import OffsetOutOfRange
from goqueue.log.disk import File
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import read_batches
from goqueue.sim.disk import SimDisk, SimFile
from tests.log.logs import fill, look, open_at, seal, stop, survey, sync, value_at


def nothing() -> None: ...


def is_dirty(log: PartitionLog) -> bool:
    return log.is_dirty


class Hook(SimDisk):
    """Runs something once, just before the next open or read of one file, or just after an index is read."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        self.on_open: Callable[[], None] = nothing
        self.on_read: Callable[[], None] = nothing
        self.on_note: Callable[[], None] = nothing

    def read_file(self, path: str) -> bytes | None:
        data = super().read_file(path)
        if path.endswith(".index"):
            action, self.on_note = self.on_note, nothing
            action()
        return data

    def open(self, path: str, *, create: bool = False, spare: bool = False) -> SimFile:
        if path == self.path:
            action, self.on_open = self.on_open, nothing
            action()
        file = super().open(path, create=create)
        return _HookedFile(self, file) if path == self.path else file  # type: ignore[return-value]


class _HookedFile:
    def __init__(self, disk: Hook, file: File) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def read(self, position: int, size: int) -> bytes:
        action, self._disk.on_read = self._disk.on_read, nothing
        action()
        return self._file.read(position, size)


def stopped(count: int = 12) -> Hook:
    disk = Hook()
    log, _ = open_at(disk, segment_bytes=600, open_max=1)
    fill(log, count)
    stop(log)
    return disk


def verified(disk: Hook) -> PartitionLog:
    """A log whose sealed segments were all read once and let go again."""
    log, _ = open_at(disk, segment_bytes=600, open_max=1)
    survey(log)
    look(log, log.segments[-2].base_offset)
    return log


def test_a_reader_beside_a_rebuild_of_the_index_skips_nothing() -> None:
    disk = stopped()
    log = verified(disk)
    first = log.segments[0]
    disk.remove(first.path(".index"))
    disk.path = first.path(".log")
    first.let_go()
    found: list[str] = []
    other = Thread(target=lambda: found.append(look(log, 2)))

    def read_beside() -> None:
        other.start()
        other.join(0.2)  # it may as well wait for the rebuild

    disk.on_read = read_beside
    assert look(log, 1) == value_at(1)
    other.join()
    assert found == [value_at(2)]


def test_the_size_of_the_log_stands_still_while_a_segment_is_verified() -> None:
    disk = stopped()
    log, _ = open_at(disk, segment_bytes=600)
    first = log.segments[0]
    disk.flip_bit(first.path(".log"), 80)
    disk.path = first.path(".log")
    size, youngest = log.size_bytes, first.max_timestamp
    seen: list[tuple[int, int]] = []
    reads = 0

    def watch() -> None:
        nonlocal reads
        reads += 1
        seen.append((log.size_bytes, first.max_timestamp))
        disk.on_read = watch

    disk.on_read = watch
    look(log, 1)
    assert reads > 1 and set(seen) == {(size, youngest)}


def test_a_read_that_retention_overtakes_is_out_of_range() -> None:
    disk = stopped()
    log = verified(disk)
    first = log.segments[0]
    first.let_go()
    disk.path = first.path(".log")
    disk.on_open = lambda: log.begin_drop_head(log.segments[1].base_offset).run()
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100, 12, wait=True)


def test_appends_beside_the_first_read_after_a_start_are_not_forgotten() -> None:
    disk = Hook()
    log, _ = open_at(disk, segment_bytes=10_000)
    fill(log, 4)
    stop(log)
    disk.path = log.segments[-1].path(".log")
    log, _ = open_at(disk, segment_bytes=10_000)
    # The first append comes between reading the index file and believing it, the second while it is rebuilt.
    disk.on_note = lambda: fill(log, 1)
    disk.on_read = lambda: fill(log, 1)
    assert look(log, 0) == value_at(0)
    fill(log, 6 - log.end_offset)
    active = log.segments[-1]
    assert (active.length, active.next_offset) == (disk.size(disk.path), log.end_offset)
    assert survey(log) == [value_at(number) for number in range(6)]


def test_a_reader_keeps_the_file_it_holds_while_the_segment_is_dropped() -> None:
    disk = stopped()
    log = verified(disk)
    first = log.segments[0]
    before = read_batches(first, 0, 9_999, 4, True)
    log.begin_drop_head(log.segments[1].base_offset).run()
    assert read_batches(first, 0, 9_999, 4, True) == before


def test_an_append_beside_a_sync_waits_for_the_next_one() -> None:
    log, _ = open_at(SimDisk())
    fill(log, 2)
    job = log.begin_sync()
    assert job is not None and not is_dirty(log)
    fill(log, 2)
    job.run()
    log.finish_sync(job)
    assert log.synced_offset == 2 and is_dirty(log)
    sync(log)
    assert log.synced_offset == 4 and not is_dirty(log)


def test_a_roll_beside_a_seal_is_sealed_next() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=600)
    fill(log, 5)
    job = log.begin_seal()
    assert job is not None
    fill(log, 5)
    job.run()
    log.finish_seal(job)
    assert [segment.seal is not None for segment in log.segments] == [True, False, False]
    seal(log)
    assert [segment.seal is not None for segment in log.segments] == [True, True, False]
    assert survey(log) == [value_at(number) for number in range(10)]
