"""The shared group commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages
from goqueue.base.errors import StorageFailed
from goqueue.broker import Broker
from goqueue.drive.flusher import Flusher
from goqueue.drive.partition import Partition
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish, settings


def partitions(broker: Broker, topic: str) -> list[Partition]:
    found = broker.table.get(topic)
    assert found is not None
    return found.partitions


def is_dirty(partition: Partition) -> bool:
    return partition.log.is_dirty


def rounds(broker: Broker) -> float:
    value = broker.metrics.registry.get_sample_value("goqueue_storage_sync_seconds_count")
    assert value is not None
    return value


def test_one_round_serves_many_publishes_and_partitions() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync="always")) as broker:
            await broker.topics.create("t", 5, {})
            before = rounds(broker)
            messages = [InputMessage(None, b"v", partition=number % 5) for number in range(100)]
            commands = [PublishMessages("t", messages[at : at + 2]) for at in range(0, 100, 2)]
            await asyncio.gather(*(broker.publish.messages(command) for command in commands))
            assert rounds(broker) - before <= 3
            assert all(one.log.synced_offset == one.log.end_offset == 20 for one in partitions(broker, "t"))

    run_virtually(scenario)


async def _publish_to(broker: Broker, partition: int, acks: Acks = Acks.ALL) -> None:
    await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"v", partition=partition)], acks))


def test_what_nobody_waits_for_is_synced_as_well() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync="always", fsync_interval_ms=1000)) as broker:
            await broker.topics.create("t", 1, {})
            await _publish_to(broker, 0, Acks.NONE)
            (partition,) = partitions(broker, "t")
            await asyncio.sleep(1.5)
            assert not is_dirty(partition)

    run_virtually(scenario)


def test_an_idle_tail_is_synced_too() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(fsync_interval_ms=1000)) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "the last one for a long time")
            (partition,) = partitions(broker, "t")
            assert is_dirty(partition)
            await asyncio.sleep(1.5)
            assert not is_dirty(partition) and partition.log.synced_offset == 1
            async with broker_on(disk.crash("dropped"), loop) as after:
                assert after.topics.describe("t").messages == 1

    run_virtually(scenario)


@pytest.mark.parametrize("policy", ["always", "interval"])
def test_a_round_that_fails_in_an_unforeseen_way_is_done_again(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync=policy, fsync_interval_ms=1000)) as broker:
            await broker.topics.create("t", 1, {})
            with monkeypatch.context() as patched:
                patched.setattr(Partition, "synced", _fails)
                published = asyncio.create_task(_publish_to(broker, 0))
                await asyncio.sleep(1.5)
                assert published.done(), "who waits is answered"
            await asyncio.sleep(1.5)
            (partition,) = partitions(broker, "t")
            assert not is_dirty(partition) and partition.log.synced_offset == 1
            await _publish_to(broker, 0)

    run_virtually(scenario)


def test_who_waits_for_a_round_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided next must not rest on what may be lost."""

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync="interval", fsync_interval_ms=60_000)) as broker:
            await broker.topics.create("t", 1, {})
            await _publish_to(broker, 0)
            with monkeypatch.context() as patched:
                patched.setattr(Flusher, "_make_safe", _fails)
                with pytest.raises(StorageFailed):
                    await broker.flusher.force()
            await broker.flusher.force()
            (partition,) = partitions(broker, "t")
            assert partition.log.synced_offset == 1

    run_virtually(scenario)


def _fails(*_: object) -> None:
    raise RuntimeError("simulated")


def test_without_a_policy_only_the_stop_syncs() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(fsync="never")) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "v")
            await asyncio.sleep(100)
            assert partitions(broker, "t")[0].log.is_dirty
        async with broker_on(disk.crash("dropped"), loop) as after:
            assert after.topics.describe("t").messages == 1

    run_virtually(scenario)


@pytest.mark.parametrize("policy", ["always", "interval", "never"])
def test_full_segments_are_sealed_under_every_policy(policy: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync=policy)) as broker:
            await broker.topics.create("t", 1, {"segment.bytes": 1024})
            for _ in range(20):
                await publish(broker, "t", "v" * 200)
            await asyncio.sleep(1)
            segments = partitions(broker, "t")[0].log.segments
            assert len(segments) > 4 and all(segment.seal is not None for segment in segments[:-1])

    run_virtually(scenario)


def test_a_log_that_is_cut_short_while_it_is_sealed_stays_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slowly(work: Callable[[], object]) -> object:
        await asyncio.sleep(1)
        return work()

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync_interval_ms=1000)) as broker:
            await broker.topics.create("t", 1, {})
            (partition,) = partitions(broker, "t")
            monkeypatch.setattr(broker.flusher, "_offload", slowly)
            for _ in range(3):
                await publish(broker, "t", "v")
                partition.log.roll()
            sealing = asyncio.create_task(broker.flusher.seal(partition))
            await asyncio.sleep(0.5)
            for segment in partition.log.segments:
                segment.let_go()  # as with many files open
            await broker.cleaner.drop_head(partition, 3)
            await sealing
            assert partition.log.failure is None
            await publish(broker, "t", "another")
            assert (partition.log.start_offset, partition.end_offset) == (3, 4)

    run_virtually(scenario)
