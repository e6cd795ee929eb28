"""Delayed messages in virtual time: when they come, what can be seen of them, how they end."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, Repeat, ScheduledAt, StoredAt
from goqueue.base.delays import EXPIRES_HEADER, SCHEDULED_HEADER
from goqueue.base.errors import (
    AlreadyDelivered,
    GoQueueError,
    InvalidField,
    KeyRequired,
    MessageTooLarge,
    UnknownDelayed,
)
from goqueue.broker import Broker
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, fetch_all, settings, shard_of

HOUR_MS = 3_600_000


async def delay(broker: Broker, value: str, delay_ms: int, topic: str = "t", **more: object) -> ScheduledAt:
    message = InputMessage(b"k", value.encode(), delay_ms=delay_ms, **more)  # type: ignore[arg-type]
    (result,) = await broker.publish.messages(PublishMessages(topic, [message]))
    if isinstance(result, GoQueueError):
        raise result
    assert isinstance(result, ScheduledAt)
    return result


async def values(broker: Broker, topic: str = "t") -> list[str]:
    return [(record.value or b"").decode() for record in await fetch_all(broker, topic, 0)]


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_delayed_message_comes_when_it_is_due_and_not_before(fsync: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync=fsync)) as broker:
            await broker.topics.create("t", 1, {})
            told = await delay(broker, "later", 90_000)
            assert told.deliver_at_ms == broker.clock.now_ms() + 90_000
            await delay(broker, "soon", 700)
            await asyncio.sleep(0.69)
            assert await values(broker) == []
            await asyncio.sleep(0.03)
            assert await values(broker) == ["soon"]
            await asyncio.sleep(89.2)
            assert await values(broker) == ["soon"]
            await asyncio.sleep(0.1)
            assert await values(broker) == ["soon", "later"]
            stats = await broker.scheduling.stats()
            assert (stats.pending, stats.delivered, stats.next_due_ms) == (0, 2, None)
            assert stats.late_ms_max is not None and stats.late_ms_max <= 10

    run_virtually(scenario)


def test_a_message_due_now_or_in_the_past_is_published_at_once() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            messages = [
                InputMessage(None, b"a", delay_ms=0),
                InputMessage(None, b"b", deliver_at_ms=5),
                InputMessage(None, b"c"),
            ]
            assert await broker.publish.messages(PublishMessages("t", messages)) == [
                StoredAt(0, 0),
                StoredAt(0, 1),
                StoredAt(0, 2),
            ]

    run_virtually(scenario)


def test_the_delivered_message_is_whole_and_says_where_it_waited() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 4, {})
            headers = (("a", b"1"), ("b", None), ("a", b"2"))
            told = await delay(broker, "v", 1_000, headers=headers, ttl_ms=500, partition=3)
            await asyncio.sleep(1.1)
            (record,) = await fetch(broker, "t", 0, partition=3)
            due = told.deliver_at_ms
            mark = b"%d:%d" % (shard_of(broker, "t", 3), told.offset)
            expected = (*headers, (EXPIRES_HEADER, b"%d" % (due + 500)), (SCHEDULED_HEADER, mark))
            assert (record.key, record.value, record.headers) == (b"k", b"v", expected)
            assert due <= record.timestamp_ms <= due + 10

    run_virtually(scenario)


def test_a_cancelled_delay_is_never_delivered() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            near, far, kept = [
                await delay(broker, name, ms) for name, ms in (("near", 500), ("far", HOUR_MS), ("kept", 600))
            ]
            await broker.scheduling.cancel("t", 0, near.offset)
            await broker.scheduling.cancel("t", 0, far.offset)
            await broker.scheduling.cancel("t", 0, far.offset)  # once more does no harm
            for wrong in [("t", 1, kept.offset), ("t", 0, 999)]:
                with pytest.raises(UnknownDelayed):
                    await broker.scheduling.cancel(*wrong)
            await asyncio.sleep(2)
            with pytest.raises(AlreadyDelivered):
                await broker.scheduling.cancel("t", 0, kept.offset)
            assert (await broker.scheduling.show("t", 0, near.offset)).state == "cancelled"
            assert (await broker.scheduling.show("t", 0, kept.offset)).state == "delivered"
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(2 * 3600)
            assert await values(broker) == ["kept"]
            states = [(await broker.scheduling.show("t", 0, one.offset)).state for one in (near, far, kept)]
            assert states == ["cancelled", "cancelled", "delivered"]

    run_virtually(scenario)


def test_cancels_that_race_with_the_firing_either_win_or_are_refused() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync="always")) as broker:
            await broker.topics.create("t", 1, {})
            told = [await delay(broker, f"{n}", 100 + n) for n in range(60)]
            cancelled: set[str] = set()

            async def cancel(n: int) -> None:
                await asyncio.sleep(max(0, (told[n].deliver_at_ms - broker.clock.now_ms() + n % 14 - 3) / 1000))
                try:
                    await broker.scheduling.cancel("t", 0, told[n].offset)
                    cancelled.add(f"{n}")
                except AlreadyDelivered:
                    pass

            await asyncio.gather(*map(cancel, range(60)))
            await asyncio.sleep(1)
            seen = await values(broker)
            assert 0 < len(cancelled) < 60
            assert sorted([*seen, *cancelled], key=int) == [f"{n}" for n in range(60)]

    run_virtually(scenario)


def test_what_waits_is_listed_by_time() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            await broker.topics.create("u", 1, {})
            for n in (5, 3, 9, 1, 7):
                await delay(broker, f"{n}", n * HOUR_MS)
                await delay(broker, "other", n * HOUR_MS, topic="u")
            page = await broker.scheduling.list("t", 3, 1)
            assert [one.message.value for one in page if one.message] == [b"3", b"5", b"7"]
            assert {one.state for one in page} == {"pending"}
            assert broker.scheduling.pending("t") == 5
            assert await broker.scheduling.cancel_all("t") == 5
            assert (await broker.scheduling.list("t", 10), broker.scheduling.pending("u")) == ([], 5)

    run_virtually(scenario)


@pytest.mark.parametrize("crash", [False, True])
def test_what_waits_survives_a_restart(crash: bool) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        chosen = settings(fsync="always")
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            for n in range(40):
                await delay(broker, f"{n}", 1_000 * (n + 1))
            await asyncio.sleep(10.5)
            if crash:
                disk = disk.crash("dropped")
        await asyncio.sleep(10)
        async with broker_on(disk, loop, chosen) as broker:
            await asyncio.sleep(0.1)
            assert await values(broker) == [f"{n}" for n in range(20)], "what fell due meanwhile comes at once"
            await asyncio.sleep(30)
            assert await values(broker) == [f"{n}" for n in range(40)]

    run_virtually(scenario)


def test_a_repeating_message_comes_again_and_keeps_its_address() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            every = InputMessage(None, b"tick", repeat=Repeat(every_ms=60_000, times=5))
            cron = InputMessage(None, b"cron", repeat=Repeat(cron="0 */2 * * *", timezone="Europe/Berlin"))
            told = await broker.publish.messages(PublishMessages("t", [every, cron]))
            assert all(isinstance(one, ScheduledAt) for one in told)
            await asyncio.sleep(150)
            assert await values(broker) == ["tick"] * 2
            shown = await broker.scheduling.show("t", 0, told[0].offset)  # type: ignore[union-attr]
            assert (shown.state, shown.fired) == ("pending", 2)
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(3 * 3600)
            assert await values(broker) == ["tick"] * 5 + ["cron"] * 2, "at 2 and at 4 in Berlin"
            assert (await broker.scheduling.show("t", 0, told[0].offset)).state == "delivered"  # type: ignore[union-attr]
            await broker.scheduling.cancel("t", 0, told[1].offset)  # type: ignore[union-attr]
            await asyncio.sleep(9 * 3600)
            assert (await values(broker)).count("cron") == 2

    run_virtually(scenario)


def test_times_missed_while_the_node_was_down_come_once() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await broker.publish.messages(
                PublishMessages("t", [InputMessage(None, b"x", repeat=Repeat(every_ms=1_000))])
            )
            await asyncio.sleep(2.5)
        await asyncio.sleep(100)
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(0.2)
            assert len(await values(broker)) == 3
            await asyncio.sleep(2)
            assert len(await values(broker)) == 5

    run_virtually(scenario)


def test_a_message_whose_time_to_live_passed_while_the_node_was_down_expires() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            told = await delay(broker, "old", 5_000, ttl_ms=1_000)
            await delay(broker, "lasting", 5_000, ttl_ms=60_000)
        await asyncio.sleep(10)
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(1)
            assert await values(broker) == ["lasting"]
            assert (await broker.scheduling.show("t", 0, told.offset)).state == "expired"
            assert (await broker.scheduling.stats()).expired == 1

    run_virtually(scenario)


def test_a_topic_takes_its_delayed_messages_with_it() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            for n in range(50):
                await delay(broker, f"{n}", 1_000 + n * 60_000)
            await broker.topics.delete("t")
            await broker.topics.create("t", 1, {})
            await asyncio.sleep(3600)
            assert await values(broker) == []
            assert (await broker.scheduling.stats()).pending == 0

    run_virtually(scenario)


def test_a_topic_can_delay_everything() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"queue.delay.ms": 5_000})
            messages = [InputMessage(None, b"slow"), InputMessage(None, b"fast", delay_ms=0)]
            slow, fast = await broker.publish.messages(PublishMessages("t", messages))
            assert isinstance(slow, ScheduledAt) and isinstance(fast, StoredAt)
            await asyncio.sleep(5.1)
            assert await values(broker) == ["fast", "slow"]

    run_virtually(scenario)


def test_what_could_not_be_stored_is_refused_before_it_waits() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"cleanup.policy": "compact", "max.message.bytes": 2000})
            wrong = [
                InputMessage(None, b"x", delay_ms=10_000),
                InputMessage(b"k", b"x" * 3000, delay_ms=10_000),
                InputMessage(b"k", b"x", delay_ms=11 * 366 * 24 * HOUR_MS),
                InputMessage(b"k", b"x", delay_ms=1, deliver_at_ms=1),
                InputMessage(b"k", b"x", ttl_ms=0),
                InputMessage(b"k", b"x", repeat=Repeat(cron="61 * * * *")),
                InputMessage(b"k", b"x", repeat=Repeat(cron="* * * * *", timezone="Mars/Olympus")),
                InputMessage(b"k", b"x", repeat=Repeat(every_ms=1)),
                InputMessage(b"k", b"x", repeat=Repeat()),
                InputMessage(b"k", b"x", repeat=Repeat(every_ms=1000, until_ms=5)),
            ]
            results = await broker.publish.messages(PublishMessages("t", wrong))
            kinds = [KeyRequired, MessageTooLarge, *[InvalidField] * 8]
            assert [type(one) for one in results] == kinds
            assert [one.field for one in results if isinstance(one, GoQueueError)] == [
                "messages[0].key",
                "messages[1].value",
                "messages[2].delay",
                "messages[3].deliverAt",
                "messages[4].ttl",
                "messages[5].repeat.cron",
                "messages[6].repeat.timezone",
                "messages[7].repeat.every",
                "messages[8].repeat",
                "messages[9].repeat",
            ]
            assert (await broker.scheduling.stats()).pending == 0

    run_virtually(scenario)


def test_a_full_disk_holds_messages_back_and_loses_none() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            for n in range(20):
                await delay(broker, f"{n}", 500 + n)
            disk.capacity_bytes = 1
            await asyncio.sleep(5)
            assert await values(broker) == []
            disk.capacity_bytes = 1 << 40
            await asyncio.sleep(5)
            assert await values(broker) == [f"{n}" for n in range(20)]

    run_virtually(scenario)
