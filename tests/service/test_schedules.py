"""Delayed messages on a node of several shards: each waits in the schedule of its partition's shard."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from goqueue.base.commands import Browse, InputMessage, PublishBatch, PublishMessages, ScheduledAt
from goqueue.base.delays import SCHEDULED_HEADER
from goqueue.base.errors import AlreadyDelivered, UnknownDelayed
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import DELAYED_PAGES_MAX
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.schedule.due import Due
from goqueue.drive import schedule_pages
from goqueue.drive.schedule import Schedule
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, broker_on, fetch, settings, shard_of
from tests.service.test_delayed_batches import batch

HOUR_MS = 3_600_000


def with_shards(count: int, **log: object) -> Settings:
    return msgspec.structs.replace(settings(**log), node=NodeSettings(shards=count))


async def delay(broker: Broker, topic: str, partition: int, value: str, delay_ms: int) -> ScheduledAt:
    message = InputMessage(None, value.encode(), partition=partition, delay_ms=delay_ms)
    (told,) = await broker.publish.messages(PublishMessages(topic, [message]))
    assert isinstance(told, ScheduledAt), told
    return told


async def values(broker: Broker, topic: str, partition: int) -> list[str]:
    page = await broker.browsing.read(Browse(topic, {partition: 0}, 10_000))
    return [(one.value or b"").decode() for one in page.messages]


def waiting(broker: Broker) -> list[int]:
    """How many wait in each schedule."""
    return [sum(schedule.pending.values()) for schedule in broker.schedules]


@pytest.mark.parametrize("fsync", ["always", "interval"])
def test_one_request_for_partitions_of_all_shards(fsync: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, with_shards(8, fsync=fsync)) as broker:
            await broker.topics.create("t", 8, {})
            await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"now", partition=3)]))
            messages = [InputMessage(None, b"%d" % n, partition=n % 8, delay_ms=500 + n) for n in range(16)]
            told = await broker.publish.messages(PublishMessages("t", messages))
            places = [(one.partition, one.offset) for one in told if isinstance(one, ScheduledAt)]
            assert places == [(n % 8, n // 8) for n in range(16)], "each schedule counts for itself"
            assert waiting(broker) == [2] * 8
            assert broker.scheduling.pending("t") == 16
            await asyncio.sleep(0.49)
            assert await values(broker, "t", 0) == []
            await asyncio.sleep(2)
            for partition in range(8):
                records = [one for one in await fetch(broker, "t", 0, partition=partition) if one.value != b"now"]
                assert [one.value for one in records] == [b"%d" % partition, b"%d" % (partition + 8)]
                shard = shard_of(broker, "t", partition)
                assert [dict(one.headers)[SCHEDULED_HEADER] for one in records] == [b"%d:0" % shard, b"%d:1" % shard]
            stats = await broker.scheduling.stats()
            assert (stats.pending, stats.scheduled, stats.delivered, stats.next_due_ms) == (0, 16, 16, None)

    run_virtually(scenario)


def test_two_messages_at_the_same_offset_of_two_schedules_are_two() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, with_shards(3)) as broker:
            await broker.topics.create("t", 3, {})
            told = [await delay(broker, "t", n, f"{n}", HOUR_MS - n) for n in range(3)]
            assert {one.offset for one in told} == {0}
            assert (await broker.scheduling.stats()).next_due_ms == told[2].deliver_at_ms
            await broker.scheduling.cancel("t", 1, 0)
            assert [(await broker.scheduling.show("t", n, 0)).state for n in range(3)] == [
                "pending",
                "cancelled",
                "pending",
            ]
            shown = (await broker.scheduling.show("t", 2, 0)).message
            assert shown is not None and shown.value == b"2"
            with pytest.raises(UnknownDelayed):
                await broker.scheduling.cancel("t", 3, 0)
            await delay(broker, "t", 0, "soon", 20)
            await asyncio.sleep(1)
            with pytest.raises(AlreadyDelivered):
                await broker.scheduling.cancel("t", 0, 1)
            assert await broker.scheduling.cancel_all("t") == 2
            assert waiting(broker) == [0, 0, 0]
            assert (await broker.scheduling.stats()).cancelled == 3

    run_virtually(scenario)


def test_a_deleted_topic_takes_what_waits_in_every_schedule_with_it() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, with_shards(3)) as broker:
            for topic in ("t", "kept"):
                await broker.topics.create(topic, 3, {})
                for partition in range(3):
                    await delay(broker, topic, partition, topic, HOUR_MS)
            await broker.topics.delete("t")
            await asyncio.sleep(1)
            assert waiting(broker) == [1, 1, 1]
            assert broker.scheduling.pending("kept") == 3

    run_virtually(scenario)


def test_a_producers_batch_with_delays_goes_to_the_schedule_of_its_partition() -> None:
    disk = SimDisk()

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop, with_shards(3, fsync="always")) as broker:
            await broker.topics.create("t", 3, {"retention.ms": -1})
            for partition in range(3):
                given = batch((f"a{partition}", None), (f"b{partition}", "10s"), sequence=0)
                await broker.publish.batch(PublishBatch(TopicPartition("t", partition), given))
            assert waiting(broker) == [1, 1, 1]
        async with broker_on(disk, loop, with_shards(3, fsync="always")) as broker:
            assert waiting(broker) == [1, 1, 1]
            await asyncio.sleep(30)  # the records are old, so that the clock is not believed at once
            for partition in range(3):
                assert await values(broker, "t", partition) == [f"a{partition}", f"b{partition}"]

    run_virtually(scenario)


# --- the listing ---------------------------------------------------------------------------------------------------


async def listed(broker: Broker, limit: int, skip: int) -> list[tuple[int, str]]:
    page = await broker.scheduling.list("t", limit, skip)
    assert all(one.message is not None for one in page)
    return [(one.due_ms, (one.message.value or b"").decode()) for one in page if one.message]


async def many_delayed(broker: Broker, numbers: Sequence[int], seed: int) -> list[tuple[int, str]]:
    """Times and values, by time; several have the same time, and a few partitions have most."""
    chance = random.Random(seed)
    messages = [
        InputMessage(
            None,
            b"%d" % n,
            partition=min(chance.randrange(6), chance.randrange(6)),
            delay_ms=HOUR_MS + chance.randrange(60),
        )
        for n in numbers
    ]
    told = await broker.publish.messages(PublishMessages("t", messages))
    return sorted((one.deliver_at_ms, f"{n}") for n, one in zip(numbers, told, strict=True))  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("read_through", [1, 2_000])
def test_pages_of_the_listing_are_in_the_order_of_time_across_shards(
    monkeypatch: pytest.MonkeyPatch, seed: int, read_through: int
) -> None:
    monkeypatch.setattr(schedule_pages, "_READ_THROUGH", read_through)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, with_shards(4)) as broker:
            await broker.topics.create("other", 6, {})
            await broker.topics.create("t", 6, {})
            await delay(broker, "other", 2, "not listed", HOUR_MS)
            told = await many_delayed(broker, range(300), seed)
            whole = await listed(broker, 1_000, 0)
            assert sorted(whole) == told and [due for due, _ in whole] == [due for due, _ in told]
            for skip in (0, 1, 16, 17, 40, 99, 150, 233, 293, 299, 300, 301, 100_000, 2**63 - 1):
                assert await listed(broker, 7, skip) == whole[skip : skip + 7], skip
            paged: list[tuple[int, str]] = []
            while page := await listed(broker, 23, len(paged)):
                paged += page
            assert paged == whole

    run_virtually(scenario)


def test_a_page_of_the_listing_ends_after_some_bytes_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_pages, "READ_BYTES", 4_096)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, with_shards(4)) as broker:
            await broker.topics.create("t", 4, {})
            for n in range(40):
                await delay(broker, "t", n % 3, f"{n:03}" + "x" * 300, HOUR_MS + n)
            paged: list[str] = []
            while page := await listed(broker, 1_000, len(paged)):
                assert len(page) < 40
                paged += [value[:3] for _, value in page]
            assert paged == [f"{n:03}" for n in range(40)]

    run_virtually(scenario)


# --- growing -------------------------------------------------------------------------------------------------------


def test_a_data_directory_of_one_shard_gets_more_and_keeps_what_waits(tmp_path: Path) -> None:
    disk, index = SimDisk(), tmp_path / "schedule.sqlite"

    async def scenario(loop: VirtualLoop) -> None:
        async def started(shards: int) -> Broker:
            broker = broker_alone(with_shards(shards), disk, VirtualClock(loop), index=str(index))
            await broker.start()
            return broker

        broker = await started(1)
        await broker.topics.create("old", 3, {})
        for partition in range(3):
            await delay(broker, "old", partition, f"old {partition}", 60_000)
        await broker.stop()
        assert [path.name for path in tmp_path.iterdir()] == ["schedule.sqlite"]

        broker = await started(3)
        assert waiting(broker) == [3, 0, 0]
        assert not (tmp_path / "schedule-1.sqlite").exists(), "there is nothing to learn yet"
        await broker.topics.create("new", 3, {})
        assert {shard_of(broker, "new", partition) for partition in range(3)} >= {1, 2}
        for topic in ("old", "new"):
            for partition in range(3):
                await delay(broker, topic, partition, f"{topic} {partition} again", 90_000)
        assert waiting(broker) == [6, *waiting(broker)[1:]] and sum(waiting(broker)) == 9
        await broker.stop()
        assert {path.name for path in tmp_path.iterdir()} == {
            "schedule.sqlite",
            "schedule-1.sqlite",
            "schedule-2.sqlite",
        }
        broker = await started(0)
        assert sum(waiting(broker)) == 9
        await asyncio.sleep(100)
        for partition in range(3):
            assert await values(broker, "old", partition) == [f"old {partition}", f"old {partition} again"]
            assert await values(broker, "new", partition) == [f"new {partition} again"]
        await broker.stop()

    run_virtually(scenario)


def test_an_index_that_belongs_to_another_schedule_is_made_anew(tmp_path: Path) -> None:
    """As after a restore that mixed files up."""
    disk, index = SimDisk(), tmp_path / "schedule.sqlite"

    async def scenario(loop: VirtualLoop) -> None:
        broker = broker_alone(with_shards(2), disk, VirtualClock(loop), index=str(index))
        await broker.start()
        await broker.topics.create("t", 2, {})
        for partition, count in ((0, 3), (1, 1)):
            for n in range(count):
                await delay(broker, "t", partition, f"{n}", 1_000 + n)
        before = waiting(broker)
        await broker.stop()
        first, second = index.read_bytes(), (tmp_path / "schedule-1.sqlite").read_bytes()
        index.write_bytes(second)
        (tmp_path / "schedule-1.sqlite").write_bytes(first)
        broker = broker_alone(with_shards(2), disk, VirtualClock(loop), index=str(index))
        await broker.start()
        assert waiting(broker) == before
        await asyncio.sleep(3)
        assert await values(broker, "t", 0) == ["0", "1", "2"]
        assert await values(broker, "t", 1) == ["0"]
        await broker.stop()

    run_virtually(scenario)


def test_many_listings_do_not_hold_up_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks the index again and again; what is due asks it too, and stands behind two of them at most."""
    look, asked, most = Schedule.of_topic, 0, 0

    async def counted(*args: Any) -> list[Due]:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0.01)
        found = await look(*args)
        asked -= 1
        return found

    async def scenario(loop: VirtualLoop) -> None:
        monkeypatch.setattr(Schedule, "of_topic", counted)
        async with broker_on(SimDisk(), loop, with_shards(8)) as broker:
            await broker.topics.create("t", 1, {})
            for number in range(20):
                await delay(broker, "t", 0, str(number), HOUR_MS)
            pages = await asyncio.gather(*(broker.scheduling.list("t", 3, skip) for skip in range(50)))
            assert [len(page) for page in pages[:21]] == [3] * 18 + [2, 1, 0]
            assert most == DELAYED_PAGES_MAX

    run_virtually(scenario)
