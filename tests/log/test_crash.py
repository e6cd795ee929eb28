"""The power goes at every single write and sync of a scripted life, and three ways of losing what was pending."""

from __future__ import annotations

import pytest

from goqueue.format.records import Record
from goqueue.log.compaction import Swap, compact
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import Flaw, walk
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from tests.cuts import tears
from tests.log.logs import append, batch, compacted, open_at, read_all, seal, sync, values


class Script:
    """A life with rolls, syncs, seals, a dropped head and a second start; it notes what was promised."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.written: list[str] = []  # everything handed to the log, by offset
        self.safe_to = 0
        self.start_max = 0

    def run(self) -> None:
        log, _ = open_at(self.disk, segment_bytes=600)
        self._write(log, range(12))
        self.start_max = 6
        job = log.begin_drop_head(6)
        job.run()
        self._write(log, range(12, 20))
        log.close()
        log, _ = open_at(self.disk, segment_bytes=600)
        self._write(log, range(20, 26))

    def _write(self, log: PartitionLog, numbers: range) -> None:
        for number in numbers:
            value = f"{number:03d}-" + "x" * (40 + 37 * number % 300)
            self.written.append(value)
            append(log, batch(value))
            if number % 3 == 2:
                sync(log)
                self.safe_to = log.end_offset
            if number % 5 == 4:
                seal(log)


def steps_of(script: type[Script]) -> int:
    disk = SimDisk()
    script(disk).run()
    return disk.steps


def check_recovered(log: PartitionLog, script: Script) -> None:
    assert log.start_offset in (0, script.start_max)
    assert log.end_offset >= script.safe_to, "a batch acknowledged as synced is gone"
    records = read_all(log)
    assert [record.offset for record in records] == list(range(log.start_offset, log.end_offset))
    assert values(log) == script.written[log.start_offset : log.end_offset]
    assert all(not segment.damage for segment in log.segments)
    check_indexes(log, records)


def check_indexes(log: PartitionLog, records: list[Record]) -> None:
    """Every offset and every time is found through the indexes, and every index entry is a batch boundary."""
    for record in records:
        first = log.read(record.offset, 1, log.end_offset, wait=True)
        assert record.value is not None and record.value in first
    for segment in log.segments:
        boundaries = {0}
        for found in walk(segment.file(), 0, segment.length, segment.base_offset):
            assert not isinstance(found, Flaw)
            boundaries.add(found.end)
        for position in range(0, segment.length, 64):
            assert segment.indexes().offsets.floor_position(position) in boundaries
    assert log.offset_at_time(1_000) == ((log.start_offset, 1_000) if records else None)


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_crash_at_every_write_and_sync_loses_nothing_safe(mode: CrashMode) -> None:
    total = steps_of(Script)
    assert total > 150
    for crash_at in range(total):
        for seed in tears(mode, crash_at, most=4):
            disk = SimDisk(crash_at)
            script = Script(disk)
            with pytest.raises(PowerCut):
                script.run()
            after = disk.crash(mode, seed)
            log, _ = open_at(after, segment_bytes=600)
            check_recovered(log, script)
            append(log, batch("afterwards"))
            assert values(log)[-1] == "afterwards"


def test_a_crash_during_recovery_is_recovered_from() -> None:
    for crash_at in range(0, steps_of(Script), 7):
        disk = SimDisk(crash_at)
        script = Script(disk)
        with pytest.raises(PowerCut):
            script.run()
        torn = disk.crash("torn", crash_at)
        probe = torn.crash("kept")
        open_at(probe, segment_bytes=600)
        for second in range(probe.steps):
            again = torn.crash("kept")
            again.crash_at = second
            with pytest.raises(PowerCut):
                open_at(again, segment_bytes=600)
            log, _ = open_at(again.crash("torn", second), segment_bytes=600)
            check_recovered(log, script)


class CompactionScript(Script):
    """Many versions of five keys, then a compaction with merges, then more."""

    def run(self) -> None:
        log, _ = open_at(self.disk, segment_bytes=600)
        for number in range(30):
            self.written.append(f"{number:03d}" + "y" * 50)
            append(log, batch(self.written[-1], key=f"k{number % 5}"))
        sync(log)
        seal(log)
        self.safe_to = log.end_offset
        self.compact(log)
        self.written.append("tail")
        append(log, batch("tail", key="k0"))
        sync(log)
        self.safe_to = log.end_offset

    def compact(self, log: PartitionLog) -> None:
        log.begin_gaps().run()
        for step in compact(log, compacted(), now=5_000):
            if isinstance(step, Swap):
                step.run()
                log.swap(step.old, step.new)
                step.clean_up()


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_crash_in_a_compaction_keeps_the_last_value_of_every_key(mode: CrashMode) -> None:
    for crash_at in range(steps_of(CompactionScript)):
        disk = SimDisk(crash_at)
        script = CompactionScript(disk)
        with pytest.raises(PowerCut):
            script.run()
        log, _ = open_at(disk.crash(mode, crash_at), segment_bytes=600)
        assert log.end_offset >= script.safe_to
        records = read_all(log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        found = {record.offset: (record.value or b"").decode() for record in records}
        assert all(script.written[offset] == value for offset, value in found.items())
        for offset in range(max(0, script.safe_to - 5), script.safe_to):
            assert offset in found, "the last value of a key is gone"
        assert all(not segment.damage for segment in log.segments)
