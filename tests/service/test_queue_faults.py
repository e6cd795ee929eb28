"""Queues on a disk that is full for a while, or fails to sync: memory is never ahead of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.errors import GoQueueError, NotLoaded, StorageFailed
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.broker import Broker
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish, settings

AT = (TopicPartition("t", 0),)
VIEW = ViewId("g", "t", 0)


def run(scenario: Callable[[Broker, SimDisk], Awaitable[None]], fsync: str = "interval") -> None:
    async def main(loop: VirtualLoop) -> None:
        disk = SimDisk()
        chosen = settings(fsync=fsync, disk_used_percent_max=100)
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            await scenario(broker, disk)
            before = known(broker).snapshot().lanes
        async with broker_on(disk, loop, chosen) as broker:
            assert known(broker).snapshot().lanes == before, "a start finds what was in memory"

    run_virtually(main)


async def take(broker: Broker, limit: int = 1, wait_ms: int = 0, group: str = "g") -> list[Delivered]:
    return await broker.leasing.take(Take(group, AT, "me", limit, lease_ms=30_000, wait_ms_max=wait_ms))


def known(broker: Broker) -> Delivery:
    delivery = broker.deliveries.find(VIEW)
    assert delivery is not None
    return delivery


def fill(disk: SimDisk) -> None:
    disk.full_at = disk.space_calls


def test_what_could_not_be_written_did_not_happen() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "a", "b", "c")
        first, second = await take(broker, 2)
        delivery = known(broker)
        before = delivery.snapshot()
        fill(disk)
        for answer in (broker.leasing.ack, broker.leasing.nack, broker.leasing.reject):
            assert isinstance((await answer([first.receipt]))[0], GoQueueError)
        assert isinstance((await broker.leasing.extend([first.receipt], 60_000))[0], GoQueueError)
        with pytest.raises(GoQueueError):
            await take(broker)
        with pytest.raises(GoQueueError):
            await take(broker, group="new")
        assert broker.deliveries.find(VIEW) is delivery, "nothing is read again"
        assert delivery.snapshot() == before and [one.view for one in broker.deliveries.all()] == [VIEW]
        disk.free_space()
        assert await broker.leasing.ack([first.receipt, second.receipt]) == [None, None]
        (third,) = await take(broker)
        assert third.stored.value == b"c" and third.attempt == 1

    run(scenario)


def test_a_lease_that_runs_out_on_a_full_disk_ends_when_there_is_room() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "a")
        await take(broker)
        fill(disk)
        await asyncio.sleep(60)
        assert known(broker).count(MessageState.LEASED) == 1
        waiting = asyncio.ensure_future(take(broker, wait_ms=60_000))
        await asyncio.sleep(1)
        disk.free_space()
        (again,) = await waiting
        assert again.attempt == 2 and again.failures == 1

    run(scenario)


def test_a_lease_that_outlives_a_restart_ends_at_its_time() -> None:
    async def main(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "a")
            await take(broker)
            ends = loop.time() + 30
        async with broker_on(disk, loop) as broker:
            (again,) = await take(broker, wait_ms=60_000)
            assert again.attempt == 2 and 0 <= loop.time() - ends < 0.05

    run_virtually(main)


def test_a_group_that_goes_while_the_disk_is_full_is_gone_before_anything_else_is_written() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "a", "b")
        await take(broker)
        fill(disk)
        broker.deliveries.forget(lambda view: view.group == "g")
        disk.free_space()
        await take(broker, group="h")
        assert broker.deliveries.find(VIEW) is None
        (first,) = await take(broker)
        assert first.stored.value == b"a" and first.attempt == 1

    run(scenario)


def test_after_a_sync_that_failed_views_are_read_again_and_nothing_is_promised() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "a")
        (first,) = await take(broker)
        before = known(broker)
        waiting = asyncio.ensure_future(take(broker, wait_ms=60_000))
        await asyncio.sleep(0.1)
        disk.fails_sync = True
        with pytest.raises(GoQueueError) as failed:
            await broker.leasing.ack([first.receipt])
        assert isinstance(failed.value, StorageFailed | NotLoaded)
        disk.fails_sync = False
        await asyncio.sleep(5)
        assert broker.deliveries.find(VIEW) is not before, "memory may have been ahead of the disk"
        with pytest.raises(NotLoaded):
            broker.deliveries.write(before, before.pass_to(1))
        await publish(broker, "t", "b")
        assert broker.leasing.counts("g", "t").ready == 1, "what is stored can be asked"
        with pytest.raises(StorageFailed):
            await waiting
        again = known(broker)
        with pytest.raises(StorageFailed):
            await broker.leasing.ack([first.receipt])
        await asyncio.sleep(5)
        assert broker.deliveries.find(VIEW) is again, "it is not ahead: nothing is read once more"

    run(scenario, fsync="always")
