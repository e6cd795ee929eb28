"""Rounds that go through the journal: which writes do, and what becomes of them when something fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import StorageFailed
from goqueue.base.limits import JOURNALED_BYTES_MAX, KIB, MIB
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.drive.partition import Partition
from goqueue.log.journal_entries import FILES
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.log.logs import values
from tests.service.brokers import broker_on, publish, settings

HOUR = settings(fsync="always", fsync_interval_ms=3_600_000, journal_bytes=2 * MIB)  # the logs are synced by the stop


def tell(scenario: Callable[[Broker, SimDisk], Awaitable[None]], chosen: Settings = HOUR) -> None:
    disk = SimDisk()

    async def run(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "first")  # makes the file
            await scenario(broker, disk)

    run_virtually(run)


async def found_after(disk: SimDisk, chosen: Settings = HOUR) -> list[str]:
    """By the next start on that disk."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with broker_on(disk, loop, chosen) as broker:
        return values(partition_of(broker).log)


def partition_of(broker: Broker) -> Partition:
    return broker.topics.require("t").partition(0)


def entries(broker: Broker) -> int:
    return broker.storage_stats.journal_entries


def test_a_small_write_is_one_entry_and_its_log_is_synced_later() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        before = entries(broker)
        await publish(broker, "t", "small")
        log = partition_of(broker).log
        assert entries(broker) == before + 1 and log.is_dirty and log.synced_offset == 2
        assert await found_after(disk.crash("dropped")) == ["first", "small"]

    tell(scenario)


def test_a_large_write_is_synced_in_its_log() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        before, large = entries(broker), "x" * JOURNALED_BYTES_MAX
        await publish(broker, "t", large)
        assert entries(broker) == before and not partition_of(broker).log.is_dirty
        await publish(broker, "t", "small")
        assert entries(broker) == before + 1
        assert await found_after(disk.crash("dropped")) == ["first", large, "small"]

    tell(scenario)


def test_a_small_write_does_not_wait_for_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await broker.topics.create("u", 1, {})
        await publish(broker, "u", "first")
        partition = broker.topics.require("u").partition(0)
        held = asyncio.get_running_loop().create_future()
        monkeypatch.setitem(broker.flusher._syncs._running, partition, held)
        large = asyncio.ensure_future(publish(broker, "u", "x" * JOURNALED_BYTES_MAX))
        await asyncio.sleep(1)
        await publish(broker, "t", "small")
        assert not large.done()
        del broker.flusher._syncs._running[partition]
        held.set_result(None)
        await large
        assert partition.log.synced_offset == 2

    tell(scenario)


def test_logs_are_synced_at_leisure_and_the_files_take_turns() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        for number in range(200):
            await publish(broker, "t", f"{number}")
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert not partition_of(broker).log.is_dirty
        assert broker.storage_stats.journal_bytes > 400 * KIB and disk.size(FILES[0]) == 32 * KIB
        assert len(await found_after(disk.crash("dropped"), chosen)) == 201

    chosen = settings(fsync="always", fsync_interval_ms=50)
    tell(scenario, chosen)


def test_what_a_log_could_not_be_synced_with_comes_back_from_the_journal() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        for number in range(30):
            await publish(broker, "t", f"{number}")
        disk.fails_sync = True
        await asyncio.sleep(1)
        assert partition_of(broker).failure is not None
        disk.fails_sync = False
        await broker.topics.create("u", 1, {})
        for number in range(200):
            await publish(broker, "u", f"{number}")
            await asyncio.sleep(0.01)
        assert await found_after(disk.crash("dropped"), chosen) == ["first", *(str(number) for number in range(30))]

    chosen = settings(fsync="always", fsync_interval_ms=500, journal_bytes=512 * KIB)
    tell(scenario, chosen)


def test_a_journal_that_cannot_be_synced_costs_no_message_that_was_promised() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "safe")
        disk.fails_sync = True
        with pytest.raises(StorageFailed):
            await publish(broker, "t", "not safe")
        assert broker.storage_stats.journal_failures == 1
        assert await found_after(disk.crash("dropped")) == ["first", "safe"]

    tell(scenario)


def test_a_node_of_another_policy_replays_it_and_removes_it() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "small")
        after = disk.crash("dropped")
        assert await found_after(after, settings(fsync="interval")) == ["first", "small"]
        assert not any(file in after.names("") for file in FILES)

    tell(scenario)


def test_what_a_deleted_topic_left_is_nobodys() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        await publish(broker, "t", "small")
        await broker.topics.delete("t")
        await broker.topics.create("t", 1, {})
        assert await found_after(disk.crash("dropped")) == []

    tell(scenario)


def test_many_messages_are_one_entry() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        before = entries(broker)
        command = PublishMessages("t", [InputMessage(None, b"v")])
        await asyncio.gather(*(broker.publish.messages(command) for _ in range(64)))
        assert entries(broker) - before <= 2

    tell(scenario)
