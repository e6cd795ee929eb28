"""Rounds that go through the journal: which writes do, and what becomes of them when something fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import GoQueueError, StorageFailed
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.limits import JOURNALED_BYTES_MAX, KIB, MIB
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.drive.log_syncs import LogSyncs
from goqueue.drive.partition import Partition
from goqueue.log.jobs import SyncJob
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


# --- a message and the lease of the poll that it wakes ---------------------------------------------------------


async def take(broker: Broker, wait_ms: int = 60_000) -> list[bytes]:
    """Under leases, acknowledged at once."""
    found = await broker.leasing.take(Take("g", (TopicPartition("t", 0),), "me", 10, 600_000, wait_ms))
    await broker.leasing.ack([one.receipt for one in found])
    return [one.stored.value or b"" for one in found]


async def poll_that_waits(broker: Broker) -> asyncio.Task[list[bytes]]:
    """Everything before was taken, and the files of the group's books are there."""
    assert await take(broker)
    waiting = asyncio.create_task(take(broker))
    await asyncio.sleep(1)
    return waiting


def test_a_message_and_the_lease_that_it_wakes_are_one_entry() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        waiting = await poll_that_waits(broker)
        before = entries(broker)
        await publish(broker, "t", "small")
        assert entries(broker) == before + 1
        assert await waiting == [b"small"]
        assert entries(broker) == before + 2, "the ack's"

    tell(scenario)


def test_nobody_is_handed_a_message_that_could_not_be_made_safe() -> None:
    async def scenario(broker: Broker, disk: SimDisk) -> None:
        waiting = await poll_that_waits(broker)
        disk.fails_sync = True
        with pytest.raises(StorageFailed):
            await publish(broker, "t", "not safe")
        with pytest.raises(GoQueueError):
            await waiting
        with pytest.raises(GoQueueError):
            await take(broker, wait_ms=0)
        assert await found_after(disk.crash("dropped")) == ["first"]

    tell(scenario)


def test_a_lease_waits_for_its_message_and_is_gone_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is large, and synced by itself, while its lease is in the journal already."""

    async def scenario(broker: Broker, disk: SimDisk) -> None:
        waiting = await poll_that_waits(broker)
        log, may_go = partition_of(broker).log, asyncio.Event()
        run = LogSyncs._run

        async def slow(syncs: LogSyncs, partition: Partition, job: SyncJob) -> bool:
            if partition.log is log:
                await may_go.wait()
            return await run(syncs, partition, job)

        monkeypatch.setattr(LogSyncs, "_run", slow)
        publishing = asyncio.create_task(publish(broker, "t", "x" * 2 * JOURNALED_BYTES_MAX))
        await asyncio.sleep(1)
        assert not waiting.done() and not publishing.done()
        after = disk.crash("dropped")
        may_go.set()
        assert len((await waiting)[0]) == 2 * JOURNALED_BYTES_MAX
        await publishing
        monkeypatch.undo()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with broker_on(after, loop, HOUR) as again:
            assert values(partition_of(again).log) == ["first"]
            await publish(again, "t", "another in its place")
            assert await take(again, wait_ms=1_000) == [b"another in its place"]

    tell(scenario)
