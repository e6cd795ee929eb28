"""Very many delayed messages, from a second to sixty days, in virtual time: each comes once, at its time."""

from __future__ import annotations

import asyncio
import os
import random
import resource

import pytest

from goqueue.base.commands import Message, PublishMessages, Scheduled
from goqueue.broker import Broker
from goqueue.drive import schedule_pending
from goqueue.format.records import decode
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings

DAY_S = 86_400
COUNT = 1_000_000 if os.environ.get("GOQUEUE_LONG_TESTS") else 20_000


async def fill(broker: Broker, count: int) -> None:
    chance = random.Random(7)
    now = broker.clock.now_ms()
    dues = [now + 1_000 + round(chance.random() ** 3 * 60 * DAY_S * 1000) for _ in range(count)]
    for at in range(0, count, 1000):
        messages = [Message(None, b"%d" % due, deliver_at_ms=due) for due in dues[at : at + 1000]]
        results = await broker.publish.messages(PublishMessages("t", messages))
        assert all(isinstance(one, Scheduled) for one in results)


@pytest.mark.slow
def test_sixty_days_with_a_restart_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    near_max = 0
    monkeypatch.setattr(schedule_pending, "NEAR_ENTRIES_MAX", 100)
    chosen = settings(fsync="never", cleanup_interval_ms=12 * 3_600_000)

    async def watch(broker: Broker) -> None:
        nonlocal near_max
        while True:
            near_max = max(near_max, len(broker.schedule.entries.pending.near))
            await asyncio.sleep(100)

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        for days in (20, 41):
            async with broker_on(disk, loop, chosen) as broker:
                await broker._space_watch.stop()  # one look a second would be all that this test does
                watching = asyncio.ensure_future(watch(broker))
                if broker.topics.find("t") is None:
                    await broker.topics.create("t", 1, {"retention.ms": -1})
                    await fill(broker, COUNT)
                await asyncio.sleep(days * DAY_S)
                watching.cancel()
                stats = await broker.scheduling.stats()
                assert (days == 41) == (stats.pending == 0)
                if days == 41:
                    check(broker)

    run_virtually(scenario)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{COUNT:,} messages; at most {near_max:,} timers at once; {used} MiB of memory with the simulated disk")
    assert near_max <= 200


def check(broker: Broker) -> None:
    log = broker.topics.require("t").partitions[0].log
    count = 0
    for batch in log.batches(0):
        for record in decode(batch):
            late = record.timestamp_ms - int(record.value or b"0")
            assert 0 <= late <= 10, "early or late"
            count += 1
    assert count == COUNT
