"""The power goes at every single write and sync of a scripted life, and three ways of losing what was pending.

Each life is lived twice: by a log that is synced itself, and by one whose small writes are entrusted to the journal.
"""

from __future__ import annotations

import pytest

from goqueue.format.records import Record
from goqueue.log.compaction import Swap, compact
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import Flaw, walk
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from tests.cuts import CUT_STEP, first_cut, tears
from tests.log.keepers import Alone, Journaled
from tests.log.logs import append, batch, compacted, read_all, seal, values

with_and_without_journal = pytest.mark.parametrize("keeper", [Alone, Journaled])
each_way_to_lose = pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])


class Script:
    """A life with rolls, syncs, seals, a dropped head and a second start; it notes what was promised."""

    def __init__(self, disk: SimDisk, keeper: type[Alone]) -> None:
        self.disk = disk
        self.keeper = keeper
        self.written: list[str] = []  # everything handed to the log, by offset
        self.safe_to = 0
        self.start_max = 0
        self.entrusted = 0  # entries of the journal

    def run(self) -> None:
        kept = self.keeper(self.disk)
        self._write(kept, range(12))
        self.start_max = 6
        job = kept.log.begin_drop_head(6)
        job.run()
        self._write(kept, range(12, 20))
        kept.close()
        self.entrusted = kept.entrusted
        kept = self.keeper(self.disk)
        self._write(kept, range(20, 26))
        self.entrusted += kept.entrusted

    def _write(self, kept: Alone, numbers: range) -> None:
        log = kept.log
        for number in numbers:
            value = f"{number:03d}-" + "x" * (40 + 37 * number % 300)
            self.written.append(value)
            append(log, batch(value))
            if number % kept.safe_every == kept.safe_every - 1:
                kept.make_safe()
                self.safe_to = log.end_offset
            if number % 5 == 4:
                seal(log)


def steps_of(script: type[Script], keeper: type[Alone]) -> int:
    disk = SimDisk()
    script(disk, keeper).run()
    return disk.steps


def cuts_of(script: type[Script], keeper: type[Alone], mode: CrashMode) -> range:
    """All of them; with the journal, which has many more, the short form takes some."""
    total = steps_of(script, keeper)
    return range(total) if keeper is Alone else range(first_cut(mode), total, CUT_STEP)


def lived_until(crash_at: int, script: type[Script], keeper: type[Alone]) -> Script:
    lived = script(SimDisk(crash_at), keeper)
    with pytest.raises(PowerCut):
        lived.run()
    return lived


def check_recovered(kept: Alone, script: Script) -> None:
    log = kept.log
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


@with_and_without_journal
@each_way_to_lose
def test_a_crash_at_every_write_and_sync_loses_nothing_safe(mode: CrashMode, keeper: type[Alone]) -> None:
    whole = Script(SimDisk(), keeper)
    whole.run()
    assert whole.disk.steps > 150 and (keeper is Alone or whole.entrusted > 10)
    for crash_at in cuts_of(Script, keeper, mode):
        for seed in tears(mode, crash_at, most=4):
            script = lived_until(crash_at, Script, keeper)
            after = script.disk.crash(mode, seed)
            kept = keeper(after)
            check_recovered(kept, script)
            append(kept.log, batch("afterwards"))
            kept.make_safe()
            assert values(keeper(after.crash("dropped")).log)[-1] == "afterwards"


@with_and_without_journal
def test_a_crash_during_recovery_is_recovered_from(keeper: type[Alone]) -> None:
    for crash_at in range(0, steps_of(Script, keeper), 7 if keeper is Alone else 7 * CUT_STEP):
        script = lived_until(crash_at, Script, keeper)
        torn = script.disk.crash("torn", crash_at)
        probe = torn.crash("kept")
        keeper(probe)
        for second in range(probe.steps):
            again = torn.crash("kept")
            again.crash_at = second
            with pytest.raises(PowerCut):
                keeper(again)
            check_recovered(keeper(again.crash("torn", second)), script)


class CompactionScript(Script):
    """Many versions of five keys, then a compaction with merges, then more."""

    def run(self) -> None:
        kept = self.keeper(self.disk)
        log = kept.log
        for number in range(30):
            self.written.append(f"{number:03d}" + "y" * 50)
            append(log, batch(self.written[-1], key=f"k{number % 5}"))
            if number % 9 == 8:
                kept.make_safe()
                self.safe_to = log.end_offset
        kept.make_safe()
        seal(log)
        self.safe_to = log.end_offset
        self.compact(log)
        self.written.append("tail")
        append(log, batch("tail", key="k0"))
        kept.make_safe()
        self.safe_to = log.end_offset

    def compact(self, log: PartitionLog) -> None:
        log.begin_gaps().run()
        for step in compact(log, compacted(), now=5_000):
            if isinstance(step, Swap):
                step.run()
                log.swap(step.old, step.new)
                step.clean_up()


@with_and_without_journal
@each_way_to_lose
def test_a_crash_in_a_compaction_keeps_the_last_value_of_every_key(mode: CrashMode, keeper: type[Alone]) -> None:
    for crash_at in cuts_of(CompactionScript, keeper, mode):
        script = lived_until(crash_at, CompactionScript, keeper)
        log = keeper(script.disk.crash(mode, crash_at)).log
        assert log.end_offset >= script.safe_to
        records = read_all(log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        found = {record.offset: (record.value or b"").decode() for record in records}
        assert all(script.written[offset] == value for offset, value in found.items())
        for offset in range(max(0, script.safe_to - 5), script.safe_to):
            assert offset in found, "the last value of a key is gone"
        assert all(not segment.damage for segment in log.segments)
