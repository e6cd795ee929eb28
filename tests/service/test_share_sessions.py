"""A member of a share group holds its records while it is heard of, also over a power cut; what a silent one held goes
to others as soon as its session is over, before the records' locks are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.service.sharing import ACCEPT, AnswerRange, ShareTake
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, settings
from tests.service.test_share_invariants import BEAT_MS, GROUP, SHARE_SESSION_MS, Sharer

AT = TopicPartition("t", 0)
LOCK_MS = 60_000


def on(disk: SimDisk, story: Callable[[Broker], Awaitable[None]], began_s: float = 0) -> None:
    """A life of the broker; the power goes when the story ends."""

    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = began_s
        broker = broker_alone(settings(fsync="always"), disk, VirtualClock(loop))
        await broker.start()
        await story(broker)

    run_virtually(scenario)


async def begin(broker: Broker, *sharers: Sharer) -> None:
    """Everybody is a member, and ten messages are there."""
    await broker.topics.create("t", 1, {})
    rules = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
    await broker.groups.configure(GROUP, rules)
    for one in sharers:
        await one.join(broker)
    await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"x", ()) for _ in range(10)]))


async def acquired(broker: Broker, sharer: Sharer) -> int:
    """How many records it gets."""
    found = await broker.sharing.acquire(ShareTake(GROUP, sharer.name, [AT], 100, 1 << 20, 0))
    return sum(one.last - one.first + 1 for part in found for one in part.ranges)


async def accepts(broker: Broker, sharer: Sharer) -> bool:
    outcome = (await broker.sharing.acknowledge(GROUP, sharer.name, {AT: [AnswerRange(0, 9, (ACCEPT,))]}))[AT]
    assert outcome is None or isinstance(outcome, StaleReceipt), outcome
    return outcome is None


async def let_pass(broker: Broker, heard: Sharer) -> None:
    """A session and a heartbeat, of which one member is heard."""
    for _ in range(SHARE_SESSION_MS // BEAT_MS + 1):
        await asyncio.sleep(BEAT_MS / 1000)
        await heard.beat(broker)


def test_what_a_silent_member_held_goes_to_others_before_its_locks_are_over() -> None:
    silent, heard = Sharer("silent"), Sharer("heard")

    async def story(broker: Broker) -> None:
        await begin(broker, silent, heard)
        assert await acquired(broker, silent) == 10
        assert await acquired(broker, heard) == 0
        await let_pass(broker, heard)
        assert await acquired(broker, heard) == 10
        assert not await accepts(broker, silent)
        await silent.beat(broker)
        assert not silent.epoch, "it is no member any more"
        assert await accepts(broker, heard)

    on(SimDisk(), story)


def test_a_member_that_is_heard_of_keeps_its_records_beyond_a_session() -> None:
    silent, heard = Sharer("silent"), Sharer("heard")

    async def story(broker: Broker) -> None:
        await begin(broker, silent, heard)
        assert await acquired(broker, heard) == 10
        await let_pass(broker, heard)
        assert await acquired(broker, silent) == 0
        assert await accepts(broker, heard)

    on(SimDisk(), story)


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_takes_records_from_nobody(mode: CrashMode) -> None:
    holder, other = Sharer("holder"), Sharer("other")
    disk = SimDisk()

    async def before(broker: Broker) -> None:
        await begin(broker, holder, other)
        assert await acquired(broker, holder) == 10

    async def after(broker: Broker) -> None:
        for one in (holder, other):
            await one.beat(broker)
            assert one.epoch, "it is a member as before"
        assert await acquired(broker, other) == 0
        assert await accepts(broker, holder)

    on(disk, before)
    on(disk.crash(mode, 1), after, began_s=10)
