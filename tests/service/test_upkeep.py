"""Retention and compaction on a live topic, with readers and writers going on, in virtual time."""

from __future__ import annotations

import asyncio

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import OffsetOutOfRange
from goqueue.broker import Broker
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, fetch_all, publish

HOUR_S = 3600.0
HOURLY = 360


async def write_for(broker: Broker, hours: int, log: dict[int, str]) -> None:
    """A message every ten seconds, each noted under its offset."""
    for number in range(hours * HOURLY):
        value = f"{number:06d}" + "v" * 60
        (offset,) = await publish(broker, "live", value, key=f"k{number % 10}")
        log[offset] = value
        await asyncio.sleep(3600 / HOURLY)


async def follow(broker: Broker, seen: dict[int, str], done: asyncio.Event) -> None:
    """A reader that long-polls all the time."""
    offset = 0
    while not done.is_set():
        for record in await fetch(broker, "live", offset, wait_ms=30_000):
            seen[record.offset] = (record.value or b"").decode()
            offset = record.offset + 1


def test_retention_deletes_what_is_old_while_readers_and_writers_go_on() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            config = {"retention.ms": 3_600_000, "segment.bytes": 4_096}
            await broker.topics.create("live", 1, config)
            written: dict[int, str] = {}
            seen: dict[int, str] = {}
            done = asyncio.Event()
            reader = asyncio.create_task(follow(broker, seen, done))
            await write_for(broker, 3, written)
            done.set()
            await reader

            assert seen == written, "a live reader misses nothing"
            assert sorted(written) == list(range(3 * HOURLY)), "offsets go on without a gap"
            (partition,) = broker.topics.describe("live").partitions
            assert partition.end_offset == 3 * HOURLY
            # At least the last hour is there; at most two segments of about 30 messages more.
            assert 2 * HOURLY - 60 <= partition.start_offset <= 2 * HOURLY
            left = await fetch_all(broker, "live", partition.start_offset)
            assert {one.offset: (one.value or b"").decode() for one in left} == {
                offset: value for offset, value in written.items() if offset >= partition.start_offset
            }
            try:
                await fetch(broker, "live", partition.start_offset - 1)
            except OffsetOutOfRange as error:
                assert error.detail["start_offset"] == partition.start_offset
            else:
                raise AssertionError("a deleted offset must be refused")
            # With no more writes, the rest expires too.
            await asyncio.sleep(1.1 * HOUR_S)
            (partition,) = broker.topics.describe("live").partitions
            assert partition.messages == 0 and partition.end_offset == 3 * HOURLY

    run_virtually(scenario)


def test_retention_by_size_keeps_the_newest() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("live", 1, {"retention.bytes": 64_000, "segment.bytes": 8_192})
            await write_for(broker, 5, {})
            (partition,) = broker.topics.describe("live").partitions
            assert 64_000 <= partition.size_bytes <= 64_000 + 3 * 8_192
            assert partition.end_offset == 5 * HOURLY

    run_virtually(scenario)


def test_compaction_keeps_the_last_value_of_each_key_on_a_live_topic() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            config = {"cleanup.policy": "compact", "segment.bytes": 8_192}
            await broker.topics.create("live", 1, config)
            written: dict[int, str] = {}
            seen: dict[int, str] = {}
            done = asyncio.Event()
            reader = asyncio.create_task(follow(broker, seen, done))
            await write_for(broker, 3, written)
            done.set()
            await reader
            assert seen == written
            await check_compacted(broker, written)
        async with broker_on(disk, loop) as broker:
            await check_compacted(broker, written)

    run_virtually(scenario)


async def check_compacted(broker: Broker, written: dict[int, str]) -> None:
    (partition,) = broker.topics.describe("live").partitions
    assert partition.end_offset == len(written)
    assert partition.size_bytes < len(written) * 140 / 4, "superseded records are gone"
    left = await fetch_all(broker, "live", 0)
    offsets = [one.offset for one in left]
    assert offsets == sorted(offsets), "order stays"
    assert all(written[one.offset] == (one.value or b"").decode() for one in left), "offsets keep their records"
    assert set(range(len(written) - 10, len(written))) <= set(offsets), "the last value of every key is there"


def test_a_tombstone_is_seen_for_its_time_and_then_gone() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            config = {"cleanup.policy": "compact", "segment.ms": 3_600_000, "min.cleanable.dirty.ratio": 0}
            await broker.topics.create("live", 1, {**config, "delete.retention.ms": 3 * 3_600_000})
            await publish(broker, "live", "kept", key="a")
            await publish(broker, "live", "doomed", key="b")
            await broker.publish.messages(PublishMessages("live", [InputMessage(b"b", None)]))
            await publish(broker, "live", "kept", key="a")  # the last message of a log always stays
            await asyncio.sleep(3 * HOUR_S)
            kept = await fetch_all(broker, "live", 0)
            assert [(one.key, one.value) for one in kept] == [(b"b", None), (b"a", b"kept")]
            await asyncio.sleep(2 * HOUR_S)
            kept = await fetch_all(broker, "live", 0)
            assert [(one.key, one.value) for one in kept] == [(b"a", b"kept")]

    run_virtually(scenario)
