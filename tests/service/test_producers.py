"""Idempotent producers over restarts, and producer ids that are never given twice."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from goqueue.base.commands import PublishBatch
from goqueue.base.errors import OutOfOrderSequence
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.format.batch import HEADER_BYTES, assemble, read_header, stamp
from goqueue.format.records import NewRecord, build
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings

AT = TopicPartition("t", 0)


def numbered(sequence: int, producer: int = 3) -> bytes:
    batch = build([NewRecord(None, f"{sequence}".encode() * 30, (), 1_000)])
    header = msgspec.structs.replace(read_header(batch), producer_id=producer, producer_epoch=0, base_sequence=sequence)
    return assemble(header, batch[HEADER_BYTES:])


async def send(broker: Broker, sequence: int) -> int:
    return (await broker.publish.batch(PublishBatch(AT, numbered(sequence)))).base_offset


@pytest.mark.parametrize("end", ["clean stop", "crash"])
def test_a_producer_goes_on_after_a_restart_without_a_double(end: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(fsync="always")) as broker:
            await broker.topics.create("t", 1, {"segment.bytes": 1024})
            for sequence in range(40):
                assert await send(broker, sequence) == sequence
            await asyncio.sleep(1)
            crashed = disk.crash("dropped")
        async with broker_on(disk if end == "clean stop" else crashed, loop, settings(fsync="always")) as broker:
            assert await send(broker, 39) == 39, "a retry of the last one is recognised"
            assert await send(broker, 36) == 36
            with pytest.raises(OutOfOrderSequence):
                await send(broker, 41)
            assert await send(broker, 40) == 40
            assert broker.topics.describe("t").messages == 41

    run_virtually(scenario)


@pytest.mark.parametrize("cut_at", [36, 0])
def test_a_snapshot_of_what_was_cut_off_is_not_believed_when_the_log_is_as_long_again(cut_at: int) -> None:
    """A replica noted its producers with a tail that the next leader does not have. That is cut off, the log grows
    beyond the place of the note by batches of another producer, and the node crashes."""

    async def scenario(loop: VirtualLoop) -> None:
        disk, chosen = SimDisk(), settings(fsync="always")
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            for sequence in range(40):
                await send(broker, sequence)
            partition, now = broker.topics.require("t").partition(0), broker.clock.now_ms()
            partition.log.roll()
            await broker.flusher.seal(partition)
            partition.cut(cut_at, now) if cut_at else partition.begin_anew(0, now)
            for offset in range(cut_at, 60):
                partition.take(b"".join(stamp(numbered(offset, producer=4), offset, 9)), now)
            await partition.wait_written()
            crashed = disk.crash("dropped")
        async with broker_on(crashed, loop, chosen) as broker:
            assert await send(broker, 36) == 60, "what was cut off is not taken for stored"
            if cut_at:
                assert await send(broker, 35) == 35, "what was not cut off is"

    run_virtually(scenario)


def test_a_producer_that_is_silent_for_a_day_is_forgotten_by_a_running_broker() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        chosen = settings(cleanup_interval_ms=3_600_000, fsync_interval_ms=3_600_000)
        async with broker_on(SimDisk(), loop, chosen) as broker:
            await broker.topics.create("t", 1, {"retention.ms": -1})
            await send(broker, 0)
            (partition,) = (broker.table.get("t") or pytest.fail()).partitions
            await asyncio.sleep(23 * 3600)
            assert len(partition.dedupe) == 1
            await asyncio.sleep(3 * 3600)
            assert len(partition.dedupe) == 0

    run_virtually(scenario)


def test_producer_ids_are_never_given_twice() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        given: list[int] = []
        for _ in range(3):
            async with broker_on(disk, loop) as broker:
                given += [await broker.producer_ids.next_id() for _ in range(1500)]
                disk = disk.crash("dropped")
        assert len(set(given)) == len(given) == 4500

    run_virtually(scenario)
