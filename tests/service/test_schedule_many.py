"""Very many delayed messages, from a second to sixty days, in virtual time: each comes once, at its time."""

from __future__ import annotations

import asyncio
import random
import resource

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt
from goqueue.base.errors import AlreadyDelivered
from goqueue.broker import Broker
from goqueue.core.schedule import near
from goqueue.format.records import decode
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.long import LONG
from tests.service.brokers import broker_on, settings, sharded

DAY_S = 86_400
RACED = 40  # one in so many is cancelled at about its time
COUNT = 1_000_000 if LONG else 5_000


class Race:
    """Cancels that come about when their messages fall due: each wins or is refused."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        self._aims: list[tuple[float, ScheduledAt]] = []  # when, and what
        self.won = 0
        self.lost = 0

    def enter(self, results: list[ScheduledAt]) -> None:
        for one in results[::RACED]:
            self._aims.append((one.deliver_at_ms + self._chance.choice((-1_000, -1, 0, 1, 3, 5, 6)), one))

    async def run(self, broker: Broker) -> None:
        """Those whose time comes while this broker lives."""
        self._aims.sort(key=lambda aim: -aim[0])
        while self._aims:
            at_ms, one = self._aims[-1]
            await asyncio.sleep(max(0.0, (at_ms - broker.clock.now_ms()) / 1000))
            self._aims.pop()
            try:
                await broker.scheduling.cancel("t", 0, one.offset)
                self.won += 1
            except AlreadyDelivered:
                self.lost += 1


async def fill(broker: Broker, count: int, race: Race) -> None:
    chance = random.Random(7)
    now = broker.clock.now_ms()
    dues = [now + 1_000 + round(chance.random() ** 3 * 60 * DAY_S * 1000) for _ in range(count)]
    for at in range(0, count, 1000):
        messages = [InputMessage(None, b"%d" % due, deliver_at_ms=due) for due in dues[at : at + 1000]]
        results = await broker.publish.messages(PublishMessages("t", messages))
        stored = [one for one in results if isinstance(one, ScheduledAt)]
        assert len(stored) == len(messages)
        race.enter(stored)


@pytest.mark.slow
def test_sixty_days_with_a_restart_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    near_max = 0
    monkeypatch.setattr(near, "NEAR_ENTRIES_MAX", 100)
    chosen = sharded(1, settings(fsync="never", cleanup_interval_ms=12 * 3_600_000))  # others would only look and wait

    async def watch(broker: Broker) -> None:
        nonlocal near_max
        while True:
            await asyncio.sleep(100)  # what is due within seconds is always near, and at first that is much
            near_max = max(near_max, broker.schedules.near_count)

    race = Race()

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        for days in (20, 41):
            async with broker_on(disk, loop, chosen) as broker:
                for watch_ in (broker.node._space_watch, broker._clock_watch):
                    await watch_.stop()  # one look a second would be all that this test does
                if broker.topics.find("t") is None:
                    await broker.topics.create("t", 1, {"retention.ms": -1})
                    await fill(broker, COUNT, race)
                beside = [asyncio.ensure_future(one) for one in (watch(broker), race.run(broker))]
                await asyncio.sleep(days * DAY_S)
                for one in beside:
                    one.cancel()
                stats = await broker.scheduling.stats()
                assert (days == 41) == (stats.pending == 0)
                if days == 41:
                    check(broker, race)

    run_virtually(scenario)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{COUNT:,} messages; at most {near_max:,} timers at once; {used} MiB of memory with the simulated disk")
    assert near_max <= max(200, COUNT // 500)


def check(broker: Broker, race: Race) -> None:
    log = broker.topics.require("t").partitions[0].log
    count = 0
    for batch in log.batches(0):
        for record in decode(batch):
            due = int(record.value or b"0")
            assert 0 <= record.timestamp_ms - due <= 10, "early or late"
            count += 1
    print(f"{race.won:,} cancels won, {race.lost:,} came too late")
    assert race.won + race.lost == len(range(0, COUNT, RACED)), "a race has two ends"
    assert race.won and race.lost
    assert count + race.won == COUNT, "each is seen or cancelled"
