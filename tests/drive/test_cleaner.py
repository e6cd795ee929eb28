"""Logs that begin later than they did: on request, and because their messages are old."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from goqueue.base.errors import DiskFull, NotLoaded
from goqueue.broker import Broker
from goqueue.drive import cleaner
from goqueue.drive.partition import Partition
from goqueue.log.compaction import Swap
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, fetch_all, publish


async def _rolled(broker: Broker, config: dict[str, object]) -> Partition:
    """With four messages, each in a segment of its own."""
    topic = await broker.topics.create("t", 1, config)
    assert topic is not None
    (partition,) = broker.topics.require("t").partitions
    for number in range(4):
        await publish(broker, "t", f"v{number}")
        partition.log.roll()
    return partition


def test_a_full_disk_is_an_answer_to_who_asks_for_a_later_start() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            partition = await _rolled(broker, {})
            await broker.flusher.seal(partition)
            disk.full_at = disk.space_calls
            with pytest.raises(DiskFull):
                await broker.cleaner.drop_head(partition, 0)
            disk.free_space()
            await broker.cleaner.drop_head(partition, 2)
            assert partition.start_offset == 2

    run_virtually(scenario)


def test_retention_takes_nothing_that_is_not_acknowledged() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            partition = await _rolled(broker, {"retention.ms": 1_000})
            await asyncio.sleep(5)
            partition.state.high_watermark = 2
            await broker.cleaner.clean_all()
            assert partition.start_offset == 2
            partition.state.high_watermark = 4
            await broker.cleaner.clean_all()
            assert partition.start_offset == 4

    run_virtually(scenario)


def test_a_head_that_waits_to_be_dropped_stays_if_the_log_is_cut_meanwhile() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            partition = await _rolled(broker, {})
            async with broker.cleaner.quiet():
                dropping = asyncio.create_task(broker.cleaner.delete_head(partition, 3))
                await asyncio.sleep(0)
                partition.cut(1, 0)  # another leads, who has less
                for number in range(3):
                    await publish(broker, "t", f"new {number}")
            await dropping
            assert (partition.start_offset, partition.end_offset) == (0, 4)
            assert partition.log.notes.meta.deleted_to == 1, "the rest was said of what is gone"

    run_virtually(scenario)


async def _made_anew(broker: Broker) -> None:
    await broker.topics.delete("t")
    await broker.topics.create("t", 1, {})
    for number in range(3):
        await publish(broker, "t", f"new {number}")


async def _check_made_anew(disk: SimDisk, loop: VirtualLoop) -> None:
    """After a restart, when only files can tell."""
    async with broker_on(disk, loop) as broker:
        values = [record.value for record in await fetch(broker, "t", 0)]
        assert values == [b"new 0", b"new 1", b"new 2"]


def test_cleaning_a_deleted_topic_leaves_the_next_one_of_its_name_alone() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await _rolled(broker, {"retention.ms": 1_000})
            await asyncio.sleep(5)
            async with broker.cleaner.quiet():
                cleaning = asyncio.create_task(broker.cleaner.clean_all())
                await asyncio.sleep(0)
                await _made_anew(broker)
            await cleaning
        await _check_made_anew(disk, loop)

    run_virtually(scenario)


def test_retention_under_way_spares_the_next_topic_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            partition = await _rolled(broker, {"retention.ms": 1_000})
            await asyncio.sleep(5)
            seal = broker.flusher.seal

            async def slow_seal(given: Partition) -> None:
                await seal(given)
                if given is partition:
                    await _made_anew(broker)

            monkeypatch.setattr(broker.flusher, "seal", slow_seal)
            await broker.cleaner.clean_all()
        await _check_made_anew(disk, loop)

    run_virtually(scenario)


def test_a_compaction_under_way_spares_the_next_topic_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01})
            (partition,) = broker.topics.require("t").partitions
            for number in range(4):
                await publish(broker, "t", f"old {number}", key="k")
                partition.log.roll()
            begun = asyncio.Event()

            def one_step(steps: Generator[Swap | None, None, int]) -> Swap | int | None:
                begun.set()
                try:
                    return next(steps)
                except StopIteration as end:
                    return int(end.value)

            monkeypatch.setattr(cleaner, "_work_a_little", one_step)
            cleaning = asyncio.create_task(broker.cleaner.clean_all())
            await begun.wait()
            await _made_anew(broker)
            await cleaning
        await _check_made_anew(disk, loop)

    run_virtually(scenario)


async def _compactable(broker: Broker) -> Partition:
    """Four segments that become one."""
    await broker.topics.create("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0})
    (partition,) = broker.topics.require("t").partitions
    for number in range(4):
        await publish(broker, "t", f"v{number}", key=f"k{number}")
        partition.log.roll()
    await broker.flusher.seal(partition)
    return partition


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_log_that_is_cut_while_it_is_compacted_does_not_get_back_what_is_gone(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk, work = SimDisk(), cleaner._work_a_little
        async with broker_on(disk, loop) as broker:
            partition = await _compactable(broker)
            is_cut = False

            def work_and_cut(steps: Generator[Swap | None, None, int]) -> Swap | int | None:
                nonlocal is_cut
                found = work(steps)
                if isinstance(found, Swap) and not is_cut:
                    is_cut = True
                    partition.begin_anew(0, 0) if is_whole else partition.cut(1, 0)
                return found

            monkeypatch.setattr(cleaner, "_work_a_little", work_and_cut)
            await broker.cleaner.clean_all()
            assert is_cut
            for number in range(3):
                await publish(broker, "t", f"new {number}", key=f"new {number}")
        async with broker_on(disk, loop) as broker:
            values = [record.value for record in await fetch_all(broker, "t", 0)]
            assert values == [*([] if is_whole else [b"v0"]), b"new 0", b"new 1", b"new 2"]

    run_virtually(scenario)


def test_nor_is_it_cut_while_a_file_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        run, refused = Swap.run, []
        async with broker_on(SimDisk(), loop) as broker:
            partition = await _compactable(broker)

            def run_beside_a_cut(self: Swap) -> None:
                for change in (lambda: partition.cut(1, 0), lambda: partition.begin_anew(0, 0)):
                    with pytest.raises(NotLoaded):
                        change()
                    refused.append(change)
                run(self)

            monkeypatch.setattr(Swap, "run", run_beside_a_cut)
            await broker.cleaner.clean_all()
            assert refused
            partition.cut(1, 0)
            assert partition.end_offset == 1

    run_virtually(scenario)
