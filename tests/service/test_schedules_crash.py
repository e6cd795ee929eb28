"""The power goes at every write of short lives of several shards, with delayed messages and transactions that hold some
for partitions of different shards: nothing early, nothing lost, nothing twice, all of a transaction or nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.txn.effects import ScheduleDelayed
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, at_leisure, first_cut, run_until_cut, steps_of
from tests.service.brokers import broker_on, fetch
from tests.service.test_schedules import with_shards
from tests.txn.test_effects import Courier

SHARDS = 3
TIMEOUT_MS = 5_000
PARTITIONS = 4  # so that two of them share a schedule


class Ledger:
    """What was promised of values that are sent to every partition."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}  # must come to all partitions, not before
        self.never: set[str] = set()
        self.whole: set[str] = set()  # to all partitions or to none

    async def delay(self, broker: Broker, value: str, delay_ms: int) -> list[ScheduledAt]:
        told = await broker.publish.messages(PublishMessages("t", _messages(value, delay_ms)))
        scheduled = [one for one in told if isinstance(one, ScheduledAt)]
        if len(scheduled) == PARTITIONS:
            self.due[value] = scheduled[0].deliver_at_ms
        return scheduled

    async def transact(self, broker: Broker, value: str, delay_ms: int, commit: bool) -> None:
        self.whole.add(value)
        state = await broker.transactions.init("p", TIMEOUT_MS)
        who = ("p", state.producer_id, state.epoch)
        await broker.transactions.begin(*who)
        due = broker.clock.now_ms() + delay_ms
        part = TopicMessages("t", _messages(value, delay_ms))
        await broker.txn_publish.publish(PublishInTransaction(*who, [part]))
        if not commit:
            self.never.add(value)
        await broker.transactions.end(*who, commit=commit)
        if commit:
            self.due[value] = due

    async def check(self, broker: Broker) -> None:
        seen: Counter[tuple[str, int]] = Counter()
        for partition in range(PARTITIONS):
            for record in await fetch(broker, "t", 0, partition=partition):
                value = (record.value or b"").decode()
                seen[value, partition] += 1
                assert record.timestamp_ms >= self.due.get(value, 0), f"{value} came early"
        assert all(count == 1 for count in seen.values()), f"twice: {seen}"
        places = {value: {at for one, at in seen if one == value} for value, _ in seen}
        assert not places.keys() & self.never
        for value in self.whole & places.keys() | self.due.keys():
            assert places.get(value, set()) == set(range(PARTITIONS)), f"{value}: {places.get(value)}"


def _messages(value: str, delay_ms: int) -> list[InputMessage]:
    return [InputMessage(None, value.encode(), partition=at, delay_ms=delay_ms) for at in range(PARTITIONS)]


Script = Callable[[Broker, Ledger], Awaitable[None]]


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 60.0
        async with broker_on(disk, loop, at_leisure(chosen)) as broker:
            if broker.topics.find("t") is None:
                assert not ledger.due
                return
            await asyncio.sleep(8)  # also an open transaction is over then
            await ledger.check(broker)
            assert (await broker.scheduling.stats()).pending == 0

    run_virtually(scenario)


async def nothing(broker: Broker) -> None:
    """What an empty node writes when it starts is cut by others."""


def cut_everywhere(script: Script, fsync: str, mode: CrashMode) -> int:
    chosen = with_shards(SHARDS, fsync=fsync, fsync_interval_ms=100)
    first = steps_of(chosen, nothing)
    crash_at = first + first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, script, ledger):
            return crash_at - first
        try:
            check_after(disk.crash(mode, crash_at), chosen, ledger)
        except BaseException:
            print(f"crash_at={crash_at} mode={mode}")
            raise
        crash_at += CUT_STEP


async def a_short_life(broker: Broker, ledger: Ledger) -> None:
    await broker.topics.create("t", PARTITIONS, {})
    await ledger.delay(broker, "a", 40)
    await ledger.delay(broker, "b", 5_000)
    await asyncio.sleep(0.06)
    ledger.due.pop("b", None)
    await broker.scheduling.cancel_all("t")
    ledger.never.add("b")
    await ledger.delay(broker, "c", 500)


async def transactions(broker: Broker, ledger: Ledger) -> None:
    await broker.topics.create("t", PARTITIONS, {})
    await ledger.transact(broker, "dropped", 50, commit=False)
    await ledger.transact(broker, "kept", 50, commit=True)


@pytest.mark.parametrize(("fsync", "mode"), [("always", "dropped"), ("interval", "kept")])
def test_a_cut_at_every_write(fsync: str, mode: CrashMode) -> None:
    assert cut_everywhere(a_short_life, fsync, mode) > 30


@pytest.mark.parametrize(("fsync", "mode"), [("always", "dropped"), ("always", "torn"), ("interval", "kept")])
def test_a_cut_at_every_write_with_transactions(fsync: str, mode: CrashMode) -> None:
    assert cut_everywhere(transactions, fsync, mode) > 50


# --- the end of a transaction, carried out twice and torn between any two steps -----------------------------------


def die_everywhere() -> int:
    chosen = with_shards(SHARDS, fsync="interval", fsync_interval_ms=1_000)
    dies_at = 0
    while True:
        disk, ledger = SimDisk(), Ledger()
        courier = Courier(disk, dies_at)

        async def script(broker: Broker, ledger: Ledger, courier: Courier = courier) -> None:
            await broker.topics.create("t", PARTITIONS, {})
            await ledger.delay(broker, "before", 30)
            courier.join(broker)
            await ledger.transact(broker, "delayed", 50, commit=True)

        was_cut = run_until_cut(disk, chosen, script, ledger)
        check_after(disk.crash("kept", dies_at), chosen, ledger)
        if not was_cut:
            return dies_at
        dies_at += 1


def test_an_end_that_is_carried_out_twice_is_recognised_in_every_schedule() -> None:
    assert die_everywhere() >= 2


def test_a_start_that_looks_behind_what_is_there_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScheduleDelayed, "start", lambda self, schedule: self.schedules_from[schedule] + 1_000)
    with pytest.raises(AssertionError, match="twice"):
        die_everywhere()
