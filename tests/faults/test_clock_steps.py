"""Somebody sets the machine's clock while a node runs, by a second to ten days, for five seconds or for good.

What lasts thirty seconds lasts thirty seconds; what waits for a time of day waits for it; nothing is thrown away
because the clock was wrong for a moment. All in virtual time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from goqueue.base.commands import (
    DeduplicationScope,
    InputMessage,
    OnceMessage,
    PublishMessages,
    PublishOnce,
    ScheduledAt,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.sqs_envelope import Envelope
from goqueue.broker import Broker
from goqueue.core.delivery.records import ViewId
from goqueue.core.traces.span import ACKED
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, fetch_all, publish, settings
from tests.service.dead import bury, over, take
from tests.service.members import Member

SECOND = 1_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
SIZES = (SECOND, 60 * SECOND, HOUR, 10 * DAY)
STEPS = [sign * size for size in SIZES for sign in (1, -1)]
WRONG_S = 5

Story = Callable[[Broker, VirtualClock, VirtualLoop], Awaitable[None]]


@asynccontextmanager
async def running(disk: SimDisk, loop: VirtualLoop, clock: VirtualClock) -> AsyncIterator[Broker]:
    broker = broker_alone(settings(), disk, clock)
    await broker.start()
    yield broker
    await broker.stop()


def tell(story: Story) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        async with running(SimDisk(), loop, clock) as broker:
            await broker.topics.create("t", 1, {})
            await story(broker, clock, loop)

    run_virtually(scenario)


def set_clock(clock: VirtualClock, loop: VirtualLoop, step_ms: int, is_lasting: bool, after_s: float = 1.3) -> None:
    """Soon; and for five seconds only, or for good."""
    loop.call_later(after_s, clock.step, step_ms)
    if not is_lasting:
        loop.call_later(after_s + WRONG_S, clock.step, -step_ms)


def at(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in partitions]


async def until(loop: VirtualLoop, holds: Callable[[], Awaitable[bool]], within_s: float = 120) -> float:
    """When it began to hold, to the quarter of a second."""
    end = loop.time() + within_s
    while not await holds():
        assert loop.time() < end, "it never came"
        await asyncio.sleep(0.25)
    return loop.time()


every_step = pytest.mark.parametrize("step_ms", STEPS)
for_moments_or_good = pytest.mark.parametrize("is_lasting", [False, True], ids=["for moments", "for good"])


@every_step
@for_moments_or_good
def test_a_lease_lasts_as_long_as_it_was_given_for(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        await publish(broker, "t", "a", "b")
        began = loop.time()
        first = await broker.leasing.take(Take("g", at(0), "me", 1, lease_ms=30_000))
        set_clock(clock, loop, step_ms, is_lasting)

        async def is_back() -> bool:
            taken = await broker.leasing.take(Take("g", at(0), "you", 2, lease_ms=300_000))
            return any(one.stored.offset == first[0].stored.offset for one in taken)

        assert 29.9 <= await until(loop, is_back) - began <= 31.3

    tell(story)


@every_step
@for_moments_or_good
def test_a_message_that_failed_comes_again_after_its_wait(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        await publish(broker, "t", "a")
        (one,) = await broker.leasing.take(Take("g", at(0), "me", 1))
        began = loop.time()
        assert await broker.leasing.nack([one.receipt], delay_ms=20_000) == [None]
        set_clock(clock, loop, step_ms, is_lasting)

        async def is_back() -> bool:
            return bool(await broker.leasing.take(Take("g", at(0), "you", 1)))

        assert 19.9 <= await until(loop, is_back) - began <= 21.2

    tell(story)


@every_step
@for_moments_or_good
def test_a_member_lives_while_it_is_heard_and_no_longer(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        alive, silent = Member(broker, "alive"), Member(broker, "silent")
        alive.session_ms = silent.session_ms = 10_000
        await alive.join()
        began = loop.time()
        await silent.join()
        set_clock(clock, loop, step_ms, is_lasting)
        seen_with_both = 0.0
        while loop.time() - began < 40:
            await alive.beat()
            members = {one.member_id for one in broker.groups.describe("g").members}
            assert "alive" in members
            if "silent" in members:
                seen_with_both = loop.time() - began
            await asyncio.sleep(0.5)
        assert 9.4 <= seen_with_both <= 11.6

    tell(story)


@every_step
@for_moments_or_good
def test_a_transaction_has_the_time_it_was_given(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        state = await broker.transactions.init("p", 20_000)
        began = loop.time()
        await broker.transactions.begin(state.transactional_id, state.producer_id, state.epoch)
        set_clock(clock, loop, step_ms, is_lasting)

        async def is_over() -> bool:
            return not broker.transactions.open()

        assert 19.9 <= await until(loop, is_over) - began <= 21.2

    tell(story)


@every_step
def test_a_clock_that_is_wrong_for_moments_delays_and_hurries_no_message(step_ms: int) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        began = loop.time()
        for n in range(10):
            message = InputMessage(None, f"{n}".encode(), delay_ms=1_000 * n + 500)
            await broker.publish.messages(PublishMessages("t", [message]))
        set_clock(clock, loop, step_ms, is_lasting=False)
        came: dict[str, float] = {}
        while len(came) < 10 and loop.time() - began < 60:
            for record in await fetch_all(broker, "t", 0):
                came.setdefault((record.value or b"").decode(), loop.time() - began)
            await asyncio.sleep(0.1)
        for n in range(10):
            due_s = n + 0.5
            wrong_s = WRONG_S + 1.3 if step_ms < 0 else 0.0  # while the clock is behind nothing is due by it
            assert due_s - 0.01 <= came[f"{n}"] <= max(due_s, wrong_s) + 1.3, n

    tell(story)


@every_step
def test_a_delayed_message_comes_when_a_clock_that_was_set_says_so(step_ms: int) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        message = InputMessage(None, b"x", delay_ms=60_000)
        (told,) = await broker.publish.messages(PublishMessages("t", [message]))
        assert isinstance(told, ScheduledAt)
        set_clock(clock, loop, step_ms, is_lasting=True)
        await asyncio.sleep(1.4)
        if step_ms < -HOUR:
            await asyncio.sleep(300)
            assert not await fetch_all(broker, "t", 0)
            clock.step(-HOUR - step_ms)  # a week would be long to wait
        left_s = max(0.0, (told.deliver_at_ms - clock.now_ms()) / 1000)
        began = loop.time()
        while not (found := await fetch_all(broker, "t", 0)):
            assert loop.time() - began < left_s + 13
            await asyncio.sleep(1)
        assert clock.now_ms() >= told.deliver_at_ms and loop.time() - began >= left_s - 0.01
        assert found[0].timestamp_ms >= told.deliver_at_ms

    tell(story)


@pytest.mark.parametrize("step_ms", [10 * DAY, -10 * DAY])
@for_moments_or_good
def test_what_is_tried_again_in_a_second_is_tried_again(step_ms: int, is_lasting: bool) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        clock, disk = VirtualClock(loop), SimDisk()
        async with running(disk, loop, clock) as broker:
            await broker.topics.create("t", 1, {})
            (told,) = await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"x", delay_ms=2_000)]))
            assert isinstance(told, ScheduledAt)
            disk.full_at = 0
            await asyncio.sleep(4)
            set_clock(clock, loop, step_ms, is_lasting)
            await asyncio.sleep(20)
            disk.free_space()
            if is_lasting and step_ms < 0:
                clock.step(-step_ms)
                await asyncio.sleep(12)
            await asyncio.sleep(4)
            assert len(await fetch_all(broker, "t", 0)) == 1

    run_virtually(scenario)


@for_moments_or_good
def test_retention_waits_until_the_clock_has_settled(is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        await broker.topics.create("r", 1, {"retention.ms": DAY, "segment.ms": HOUR})
        await publish(broker, "r", "a", "b")
        set_clock(clock, loop, 10 * DAY, is_lasting)
        await asyncio.sleep(500)
        assert len(await fetch_all(broker, "r", 0)) == 2
        await asyncio.sleep(300)
        start = broker.topics.require("r").partitions[0].log.start_offset
        assert start == (2 if is_lasting else 0), "a clock that stays is believed in the end"

    tell(story)


def test_offsets_and_producers_are_not_forgotten_for_a_clock_that_was_wrong() -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        member = await Member(broker, "m").join()
        await publish(broker, "t", "a")
        await member.poll()
        await member.poll()
        await member.leave()
        before = broker.groups.offsets("g")
        partition = broker.topics.require("t").partitions[0]
        assert before
        set_clock(clock, loop, 10 * DAY, is_lasting=False)
        await asyncio.sleep(2_000)
        assert broker.groups.offsets("g") == before
        assert partition.log.end_offset == 1

    tell(story)


@every_step
@for_moments_or_good
def test_a_redrive_keeps_its_rate(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        await broker.topics.create("u", 1, {})
        await bury(broker, [InputMessage(None, f"{n}".encode()) for n in range(200)])
        began = loop.time()
        task = await broker.redrives.start("t.dlq", "u", 10)
        set_clock(clock, loop, step_ms, is_lasting)
        done = await over(broker, task)
        assert done.state == "completed" and done.moved == 200
        assert 18 <= loop.time() - began <= 24
        assert 8 <= done.moved_per_s <= 11

    tell(story)


@every_step
@for_moments_or_good
def test_a_deduplication_id_counts_for_five_minutes(step_ms: int, is_lasting: bool) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        partition = broker.topics.require("t").partitions[0]
        one = OnceMessage(InputMessage(b"g", b"v"), Envelope(id="m", deduplication_id="same"))

        async def send() -> None:
            await broker.publish_once.messages(PublishOnce(DeduplicationScope("t"), [one]))

        await send()
        set_clock(clock, loop, step_ms, is_lasting)
        await asyncio.sleep(295)
        await send()
        assert partition.log.end_offset == 1
        await asyncio.sleep(6)
        await send()
        assert partition.log.end_offset == 2

    tell(story)


@every_step
def test_a_trace_says_how_long_a_lease_lasted(step_ms: int) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        await broker.topics.alter("t", {"trace": "on"}, None)
        await publish(broker, "t", "a")
        (one,) = await take(broker)
        set_clock(clock, loop, step_ms, is_lasting=True)
        await asyncio.sleep(20)
        await broker.leasing.ack([one.receipt])
        await asyncio.sleep(2)
        spans = [span for trace in broker.node.recording.recorder.ring.all() for span in trace]
        (acked,) = [span for span in spans if span.name == ACKED]
        assert 19.9e9 <= acked.end_ns - acked.start_ns <= 20.1e9

    tell(story)


@pytest.mark.parametrize("step_ms", [-HOUR, -10 * DAY])
def test_a_clock_that_is_set_back_while_the_node_is_down_holds_no_lease_back(step_ms: int) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        clock, disk = VirtualClock(loop), SimDisk()
        async with running(disk, loop, clock) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "a")
            assert await broker.leasing.take(Take("g", at(0), "me", 1, lease_ms=30_000))
            state = await broker.transactions.init("p", 20_000)
            await broker.transactions.begin(state.transactional_id, state.producer_id, state.epoch)
        clock.step(step_ms)
        async with running(disk, loop, clock) as broker:
            await asyncio.sleep(15)
            assert not await broker.leasing.take(Take("g", at(0), "you", 1))
            await asyncio.sleep(17)
            assert await broker.leasing.take(Take("g", at(0), "you", 1))
            assert not broker.transactions.open()

    run_virtually(scenario)


def test_deadlines_by_the_new_time_are_what_a_start_finds() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        clock, disk = VirtualClock(loop), SimDisk()
        async with running(disk, loop, clock) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "a")
            assert await broker.leasing.take(Take("g", at(0), "me", 1, lease_ms=60_000))
            set_clock(clock, loop, 10 * DAY, is_lasting=True)
            await asyncio.sleep(20)
        async with running(disk, loop, clock) as broker:
            await asyncio.sleep(35)
            assert not await broker.leasing.take(Take("g", at(0), "you", 1)), "the lease was cut short"
            await asyncio.sleep(8)
            assert await broker.leasing.take(Take("g", at(0), "you", 1))

    run_virtually(scenario)


@every_step
@for_moments_or_good
def test_a_step_is_logged_and_counted(step_ms: int, is_lasting: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def story(broker: Broker, clock: VirtualClock, loop: VirtualLoop) -> None:
        with caplog.at_level(logging.WARNING):
            set_clock(clock, loop, step_ms, is_lasting)
            await asyncio.sleep(30)
        assert "the clock was set; waiting whether it stays" in caplog.text
        assert ("the node follows the clock" if is_lasting else "the clock is right again") in caplog.text
        direction = "forward" if step_ms > 0 else "back"
        assert broker.metrics.clock_steps.labels(direction)._value.get() == 1
        assert broker.clock.lag_ms() == 0
        assert broker.deliveries.find(ViewId("g", "t", 0)) is None

    tell(story)
