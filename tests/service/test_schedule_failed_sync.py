"""The disk fails to sync while messages wait: nothing that was promised is lost, and the node goes on answering."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt
from goqueue.base.errors import GoQueueError
from goqueue.broker import Broker
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch_all, settings


async def delay(broker: Broker, value: bytes, delay_ms: int) -> object:
    (result,) = await broker.publish.messages(PublishMessages("t", [InputMessage(None, value, delay_ms=delay_ms)]))
    return result


@pytest.mark.parametrize("fires_while_it_fails", [False, True])
def test_messages_that_waited_before_a_sync_failed_are_delivered_once_by_the_next_start(
    fires_while_it_fails: bool,
) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        chosen = settings(fsync="always")
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            assert isinstance(await delay(broker, b"promised", 2_000), ScheduledAt)
            disk.fails_sync = True
            if not fires_while_it_fails:
                assert isinstance(await delay(broker, b"refused", 2_000), GoQueueError)
            await asyncio.sleep(10)
            stats = await broker.scheduling.stats()
            assert stats.delivered == 0, "a firing that is not durable delivers nothing"
            disk.fails_sync = False
        async with broker_on(disk.crash("dropped"), loop, chosen) as broker:
            await asyncio.sleep(10)
            seen = [record.value for record in await fetch_all(broker, "t", 0)]
            assert seen.count(b"promised") == 1 and seen.count(b"refused") <= 1
            assert (await broker.scheduling.stats()).pending == 0

    run_virtually(scenario)
