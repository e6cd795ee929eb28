"""The power goes at every write and sync of short redrives: every letter is in one place, and in one only."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.dead_letter import DeadLetterFilter, letter_of
from goqueue.drive import delivery_runner
from goqueue.service import dead_letters
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, first_cut, run_until_cut, tears
from tests.service.brokers import broker_on, fetch_all, settings
from tests.service.dead import bury, letters, over


class Ledger:
    """What was answered."""

    def __init__(self) -> None:
        self.buried = 0
        self.started = False
        self.finished = 0  # moved, as a redrive that was over told
        self.deleted: set[int] = set()
        self.steps = 0  # of the disk when the redrive began

    async def check(self, broker: Broker) -> None:
        if broker.topics.find("t.dlq") is None:
            assert not self.buried
            return
        dead = [letter_of("t.dlq", 0, record) for record in await fetch_all(broker, "t.dlq", 0)]
        origins = Counter(one.origin_offset for one in dead)
        assert all(count == 1 for count in origins.values()), f"buried twice: {origins}"
        assert len(dead) >= self.buried
        there = {one.offset for one in await letters(broker)}
        moved: Counter[int] = Counter()
        for record in await fetch_all(broker, "u", 0):
            _, _, offset = dict(record.headers)["goqueue-redriven-from"].decode().split(":")  # type: ignore[union-attr]
            moved[int(offset)] += 1
            assert record.value == dead[int(offset)].value
        assert all(count == 1 for count in moved.values()), f"redriven twice: {moved}"
        assert not there & moved.keys(), "both here and there"
        assert not (there | moved.keys()) & self.deleted
        assert there | moved.keys() | self.deleted >= {one.offset for one in dead[: self.buried]} - self.deleting, (
            "lost"
        )
        tasks = broker.redrives.tasks("t.dlq")
        assert sum(task.moved for task in tasks) == len(moved), "the count is wrong"
        assert all(task.state == "completed" for task in tasks)
        if self.started:
            assert not [one for one in await letters(broker, DeadLetterFilter(reason="REJECTED")) if one.offset < 6]

    @property
    def deleting(self) -> set[int]:
        return {6}


def disk_of(broker: Broker) -> SimDisk:
    disk = broker.node.disk
    assert isinstance(disk, SimDisk)
    return disk


async def a_short_life(broker: Broker, ledger: Ledger) -> None:
    if broker.topics.find("t") is None:
        await broker.topics.create("t", 1, {})
    if broker.topics.find("u") is None:
        await broker.topics.create("u", 1, {})
    for n in (0, 3):
        await bury(broker, [InputMessage(None, f"{n + m}".encode()) for m in range(3)])
        ledger.buried += 3
    ledger.steps = disk_of(broker).steps
    task = await broker.redrives.start("t.dlq", "u", 100)
    ledger.started = True
    await asyncio.sleep(0.02)
    await bury(broker, [InputMessage(None, b"late")])
    ledger.buried += 1
    await broker.letters.delete("t", 0, 6)
    ledger.deleted.add(6)
    ledger.finished = (await over(broker, task)).moved
    await bury(broker, [InputMessage(None, b"last")])
    ledger.buried += 1
    await over(broker, await broker.redrives.start("t.dlq", "u"))


Script = Callable[[Broker, Ledger], Awaitable[None]]


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 60.0
        for _ in range(2):
            async with broker_on(disk, loop, chosen) as broker:
                if broker.topics.find("u") is None:
                    assert not ledger.buried
                    return
                await asyncio.sleep(3)
                await ledger.check(broker)

    run_virtually(scenario)


CASES = [("always", "kept"), ("always", "dropped"), ("always", "torn"), ("interval", "kept")]


@pytest.mark.parametrize(("fsync", "mode"), CASES)
def test_a_cut_at_every_write_of_a_redrive(fsync: str, mode: CrashMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_NOTE_MS", 20)
    chosen = settings(fsync=fsync, fsync_interval_ms=100)
    cut_everywhere(chosen, mode, begin=steps_before_the_redrive(chosen))


@pytest.mark.slow
@pytest.mark.parametrize(("fsync", "mode"), CASES)
def test_a_cut_at_every_write_with_checkpoints(fsync: str, mode: CrashMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_runner, "CHECKPOINT_BYTES", 400)
    monkeypatch.setattr(dead_letters, "_NOTE_MS", 20)
    cut_everywhere(settings(fsync=fsync, fsync_interval_ms=100), mode, begin=0)


def steps_before_the_redrive(chosen: Settings) -> int:
    disk, ledger = SimDisk(), Ledger()
    assert not run_until_cut(disk, chosen, a_short_life, ledger)
    return ledger.steps


def cut_everywhere(chosen: Settings, mode: CrashMode, begin: int) -> None:
    crash_at = begin + first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, a_short_life, ledger):
            break
        for seed in tears(mode, crash_at):
            try:
                check_after(disk.crash(mode, seed), chosen, ledger)
            except BaseException:
                print(f"crash_at={crash_at} mode={mode} seed={seed}")
                raise
        crash_at += CUT_STEP
    assert crash_at - begin > 30
