"""The power goes at every write and sync of short lives with delays: nothing early, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, Repeat, ScheduledAt
from goqueue.base.errors import AlreadyDelivered
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, at_leisure, first_cut, run_until_cut, tears
from tests.service.brokers import broker_on, fetch_all, settings


class Ledger:
    """What was promised, and what was seen."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}  # answered: must come, not before
        self.sent: set[str] = set()
        self.cancelled: set[str] = set()
        self.cancelling: set[str] = set()

    async def delay(self, broker: Broker, value: str, delay_ms: int) -> ScheduledAt | None:
        self.sent.add(value)
        message = InputMessage(None, value.encode(), delay_ms=delay_ms)
        (result,) = await broker.publish.messages(PublishMessages("t", [message]))
        if not isinstance(result, ScheduledAt):
            return None
        self.due[value] = result.deliver_at_ms
        return result

    async def cancel(self, broker: Broker, value: str, told: ScheduledAt | None) -> None:
        if told is not None:
            self.cancelling.add(value)
            try:
                await broker.scheduling.cancel("t", 0, told.offset)
                self.cancelled.add(value)
            except AlreadyDelivered:
                self.cancelling.discard(value)

    async def check(self, broker: Broker) -> None:
        seen: Counter[str] = Counter()
        for record in await fetch_all(broker, "t", 0):
            value = (record.value or b"").decode()
            seen[value] += 1
            if value in self.due:
                assert record.timestamp_ms >= self.due[value], f"{value} came early"
        assert all(count == 1 for count in seen.values()), f"twice: {seen}"
        assert not seen.keys() & self.cancelled, "a cancelled message was seen"
        assert seen.keys() <= self.sent
        assert self.due.keys() - self.cancelling <= seen.keys(), "lost"


Script = Callable[[Broker, Ledger], Awaitable[None]]


async def a_short_life(broker: Broker, ledger: Ledger) -> None:
    if broker.topics.find("t") is None:
        await broker.topics.create("t", 1, {})
    first = await ledger.delay(broker, "a", 40)
    second = await ledger.delay(broker, "b", 45)
    third = await ledger.delay(broker, "c", 5_000)
    await ledger.delay(broker, "d", 41)
    await ledger.cancel(broker, "b", second)
    await asyncio.sleep(0.05)
    await ledger.cancel(broker, "a", first)
    await ledger.delay(broker, "e", 30)
    await asyncio.sleep(2)
    await ledger.cancel(broker, "c", third)
    await ledger.delay(broker, "f", 2_500)
    await asyncio.sleep(4)


async def crowds(broker: Broker, ledger: Ledger) -> None:
    if broker.topics.find("t") is None:
        await broker.topics.create("t", 1, {"segment.bytes": 2_000})
    told = [await ledger.delay(broker, f"{n}", 10 + n % 7 * 9) for n in range(24)]
    await asyncio.sleep(0.03)
    for n in range(0, 24, 3):
        await ledger.cancel(broker, f"{n}", told[n])
    await asyncio.sleep(1.5)


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 60.0
        async with broker_on(disk, loop, at_leisure(chosen)) as broker:
            if broker.topics.find("t") is None:
                assert not ledger.due
                return
            await asyncio.sleep(10)
            await ledger.check(broker)
            assert (await broker.scheduling.stats()).pending == 0
        async with broker_on(disk, loop, at_leisure(chosen)) as broker:
            await asyncio.sleep(10)
            await ledger.check(broker)

    run_virtually(scenario)


@pytest.mark.parametrize("script", [a_short_life, crowds], ids=lambda script: script.__name__)
@pytest.mark.parametrize(
    ("fsync", "mode"), [("always", "kept"), ("always", "dropped"), ("always", "torn"), ("interval", "kept")]
)
def test_a_cut_at_every_write(script: Script, fsync: str, mode: CrashMode) -> None:
    chosen = settings(fsync=fsync, fsync_interval_ms=100)
    crash_at = first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, script, ledger):
            break
        for seed in tears(mode, crash_at):
            try:
                check_after(disk.crash(mode, seed), chosen, ledger)
            except BaseException:
                print(f"crash_at={crash_at} mode={mode} seed={seed}")
                raise
        crash_at += CUT_STEP
    assert crash_at > 60


@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_messages_that_waited_long_survive_a_power_cut_without_fsync_always(mode: CrashMode) -> None:
    """What was safe before it fired is seen once, whatever of the firing is lost."""

    async def script(broker: Broker, ledger: Ledger) -> None:
        await broker.topics.create("t", 1, {})
        promised = Ledger()
        promised.sent = ledger.sent
        for n in range(6):
            await promised.delay(broker, f"{n}", 4_000 + 250 * n)
        await asyncio.sleep(3)
        ledger.due |= promised.due  # the background sync has passed
        await asyncio.sleep(4)

    chosen = settings(fsync="interval", fsync_interval_ms=400)
    crash_at = first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, script, ledger):
            break
        for seed in tears(mode, crash_at, most=6):
            try:
                check_after(disk.crash(mode, seed), chosen, ledger)
            except BaseException:
                print(f"crash_at={crash_at} mode={mode} seed={seed}")
                raise
        crash_at += CUT_STEP
    assert crash_at > 60


def test_repeating_messages_over_cuts() -> None:
    """Each time comes once."""
    crash_at = first_cut()
    chosen = settings(fsync="always")

    async def script(broker: Broker, ledger: Ledger) -> None:
        await broker.topics.create("t", 1, {})
        message = InputMessage(None, b"x", repeat=Repeat(every_ms=100, times=4))
        await broker.publish.messages(PublishMessages("t", [message]))
        ledger.sent.add("scheduled")
        await asyncio.sleep(2)

    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, script, ledger):
            break
        after = disk.crash("dropped")

        async def check(loop: VirtualLoop, after: SimDisk = after, ledger: Ledger = ledger) -> None:
            async with broker_on(after, loop, chosen) as broker:
                await asyncio.sleep(20)
                if broker.topics.find("t") is None:
                    return
                records = await fetch_all(broker, "t", 0)
                marks = [dict(record.headers)["goqueue-scheduled"] for record in records]
                assert len(set(marks)) == len(marks)
                assert not ledger.sent or len(marks) == 4
                assert (await broker.scheduling.stats()).pending == 0

        try:
            run_virtually(check)
        except BaseException:
            print(f"crash_at={crash_at}")
            raise
        crash_at += CUT_STEP
    assert crash_at > 40
