"""The disk is full from every write of a life on, in turn. What was answered holds, what was refused was refused
clearly; after space is back the node goes on by itself, and the next start finds everything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt, StoredAt
from goqueue.base.errors import DiskFull, GoQueueError, Unavailable
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.long import LONG
from tests.service.brokers import broker_on, fetch_all, settings

T = TypeVar("T")
ENDS = ("space comes back", "the node stops on a full disk", "the node dies on a full disk")


class Ledger:
    """What was answered."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.deleted: set[str] = set()
        self.placed: list[str] = []
        self.tried: set[str] = set()
        self.delayed: set[str] = set()
        self.acked: set[int] = set()
        self.committed = 0
        self.committing = 0
        self.ids: list[int] = []
        self.overrides = "604800000"
        self.refused = 0

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """The answer; None if it was refused, for want of space or because others wait for space."""
        try:
            return await work
        except (DiskFull, Unavailable):
            self.refused += 1
            return None

    async def publish(self, broker: Broker, value: str, delay_ms: int | None = None) -> None:
        if broker.topics.find("t") is None:
            return
        self.tried.add(value)
        message = InputMessage(b"k", value.encode(), delay_ms=delay_ms)
        found = await self.attempt(broker.publish.messages(PublishMessages("t", [message])))
        if found is not None and isinstance(found[0], StoredAt):
            self.placed.append(value)
        elif found is not None and isinstance(found[0], ScheduledAt):
            self.delayed.add(value)
        elif found is not None:
            assert isinstance(found[0], DiskFull | Unavailable), found[0]
            self.refused += 1

    async def take(self, broker: Broker) -> None:
        if broker.topics.find("t") is None:
            return
        got = await self.attempt(broker.leasing.take(Take("q", [TopicPartition("t", 0)], "me", 1)))
        for one in got or ():
            results = await self.attempt(broker.leasing.ack([one.receipt]))
            if results and results[0] is None:
                self.acked.add(one.stored.offset)

    async def commit(self, broker: Broker, offset: int) -> None:
        if broker.topics.find("t") is None:
            return
        asked = CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, offset)])
        self.committing = offset
        answer = broker.groups.commit(asked)
        found = answer if not isinstance(answer, asyncio.Future) else await answer
        if isinstance(found, GoQueueError):
            assert isinstance(found, DiskFull | Unavailable), found
            self.refused += 1
        else:
            self.committed = offset


async def live(broker: Broker, ledger: Ledger) -> None:
    """A bit of everything that is written down."""
    if await ledger.attempt(broker.topics.create("t", 1, {"segment.bytes": 2_000})) is not None:
        ledger.topics.add("t")
    if await ledger.attempt(broker.topics.create("gone", 2, {})) is not None:
        ledger.topics.add("gone")
    for n in range(6):
        await ledger.publish(broker, f"{n}")
        await ledger.publish(broker, f"late {n}", 200 + n)
    if (given := await ledger.attempt(broker.producer_ids.next_id())) is not None:
        ledger.ids.append(given)
    await ledger.take(broker)
    await ledger.commit(broker, 1)
    await asyncio.sleep(1.5)
    if "t" in ledger.topics:
        altered = await ledger.attempt(broker.topics.alter("t", {"retention.ms": 1_000_000_000}, 2))
        if altered is not None:
            ledger.overrides = "1000000000"
    if "gone" in ledger.topics:
        await broker.topics.delete("gone")  # frees space, so it needs none
        ledger.deleted.add("gone")
    for n in range(6, 12):
        await ledger.publish(broker, f"{n}" + "x" * 200)
        await ledger.publish(broker, f"late {n}", 500)
    await ledger.take(broker)
    await ledger.commit(broker, 2)
    await asyncio.sleep(2)


async def check(broker: Broker, ledger: Ledger) -> None:
    names = {topic.name for topic in broker.topics.all()}
    assert ledger.topics - ledger.deleted <= names, "a topic was lost"
    assert not names & ledger.deleted, "a deleted topic came back"
    if "t" not in names:
        return
    assert broker.topics.describe("t").config["retention.ms"] == ledger.overrides
    assert all(partition.log.failure is None for partition in broker.topics.require("t").partitions), "read-only"
    seen = [(one.value or b"").decode() for one in await fetch_all(broker, "t", 0)]
    assert len(set(seen)) == len(seen), "twice"
    assert [value for value in seen if value in ledger.placed] == ledger.placed
    assert ledger.delayed <= set(seen), "a delayed message was lost"
    assert set(seen) <= ledger.tried
    assert (await broker.scheduling.stats()).pending == 0
    committed = broker.groups.offsets("g").get(TopicPartition("t", 0))
    assert (committed.offset if committed else 0) in (ledger.committed, ledger.committing)
    left = {one.stored.offset for one in await broker.leasing.take(Take("q", [TopicPartition("t", 0)], "you", 100))}
    assert not left & ledger.acked
    assert len(left | ledger.acked) == len(seen)
    ledger.ids.append(await broker.producer_ids.next_id())
    assert len(set(ledger.ids)) == len(ledger.ids), "a producer id was given twice"
    await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"goes on")]))


def whole_life(disk: SimDisk, chosen: Settings, full_at: int, is_killed: bool) -> Ledger:
    ledger = Ledger()

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop, chosen) as broker:
            disk.full_at = disk.space_calls + full_at
            await live(broker, ledger)
            if is_killed:
                return
            disk.free_space()
            await asyncio.sleep(40)
            assert all(one.log.failure is None for topic in broker.topics.everything() for one in topic.partitions)

    run_virtually(scenario)
    return ledger


def restarted(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 3_600.0
        async with broker_on(disk, loop, chosen) as broker:
            await asyncio.sleep(10)
            await check(broker, ledger)

    run_virtually(scenario)


@pytest.mark.parametrize("end", ENDS)
def test_a_disk_that_is_full_from_any_write_on_loses_nothing(end: str) -> None:
    chosen = settings(fsync="always", disk_used_percent_max=100)
    step = 1 if LONG else len(ENDS)  # the short form takes other writes for each end
    full_at, refused = ENDS.index(end) % step, 1
    while refused:
        disk = SimDisk()
        try:
            ledger = whole_life(disk, chosen, full_at, end != "space comes back")
            refused = ledger.refused
            after = disk.crash("kept") if "dies" in end else disk
            after.free_space()
            restarted(after, chosen, ledger)
        except BaseException:
            print(f"full_at={full_at}")
            raise
        full_at += step
    assert full_at > 60


def test_a_start_on_a_full_disk_is_refused_clearly_or_serves_and_loses_nothing() -> None:
    chosen = settings(disk_used_percent_max=100)
    full_at, is_refused = 0, True
    while is_refused:
        disk = SimDisk()
        ledger = whole_life(disk, chosen, 1 << 40, is_killed=False)
        assert not ledger.refused

        disk.full_at = disk.space_calls + full_at

        async def scenario(loop: VirtualLoop, disk: SimDisk = disk, ledger: Ledger = ledger) -> bool:
            loop._virtual.now_s = 3_600.0
            try:
                async with broker_on(disk, loop, chosen) as broker:
                    assert len(await fetch_all(broker, "t", 0)) == len(ledger.tried)
                    assert await ledger.attempt(broker.topics.create("more", 1, {})) is None
                return False
            except DiskFull:
                return True

        is_refused = run_virtually(scenario)
        after = disk.crash("kept")
        after.free_space()
        restarted(after, chosen, ledger)
        full_at += 1


def test_a_refused_topic_leaves_nothing_behind() -> None:
    """Whatever write finds no space, the name is free afterwards, and no part of a file takes up room."""

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(disk_used_percent_max=100)) as broker:
            for full_at in range(4):
                disk.full_at = disk.space_calls + full_at
                try:
                    await broker.topics.create("t", 3, {})
                except GoQueueError as error:
                    assert isinstance(error, DiskFull)
                    assert broker.topics.find("t") is None
                    assert not [name for name in disk.names("topics") if name.startswith("t.")]
                else:
                    assert full_at > 1
                    await broker.topics.delete("t")
                disk.free_space()

    run_virtually(scenario)
