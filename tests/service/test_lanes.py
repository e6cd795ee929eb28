"""Priorities of a whole broker in virtual time: who is served how often, how long the lowest waits, and restarts."""

from __future__ import annotations

import asyncio
from collections import Counter

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.priority import HEADER, NAMES, priority_of
from goqueue.broker import Broker
from goqueue.core.lanes import WEIGHTS
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on

PARTITIONS = 3
EACH = 6_000  # of every lane: more than the highest gets of the messages served


async def fill(broker: Broker, lane: int, count: int) -> None:
    header = ((HEADER, str(lane).encode()),)
    for begin in range(0, count, 1_000):
        messages = [
            InputMessage(None, b"%d" % lane, header, n % PARTITIONS) for n in range(begin, min(count, begin + 1_000))
        ]
        await broker.publish.messages(PublishMessages("t", messages))


async def serve(broker: Broker, count: int, size: int, strict: bool = False) -> list[int]:
    """Takes and acks; answers with the lanes in the order in which they were served."""
    partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
    served: list[int] = []
    while len(served) < count:
        got = await broker.leasing.take(Take("g", partitions, "me", min(size, count - len(served)), strict=strict))
        assert got, "there is more"
        assert await broker.leasing.ack([one.receipt for one in got]) == [None] * len(got)
        served += [priority_of(one.stored.headers) for one in got]
    return served


def test_full_lanes_are_served_by_weight_also_over_a_restart() -> None:
    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        shares: Counter[int] = Counter()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", PARTITIONS, {})
            for lane in reversed(range(len(NAMES))):
                await fill(broker, lane, EACH)
            shares.update(await serve(broker, 5_000, 7))
        async with broker_on(disk, loop) as broker:
            shares.update(await serve(broker, 5_000, 100))
        points = [100 * shares[lane] / 10_000 for lane in range(len(NAMES))]
        print(f"\nshares of 10,000: {dict(zip(NAMES, points, strict=True))}")
        assert all(abs(got - weight) <= 2 for got, weight in zip(points, WEIGHTS, strict=True)), points

    run_virtually(run)


def test_the_lowest_lane_waits_a_bounded_time_while_the_highest_never_ends() -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", PARTITIONS, {})
            await fill(broker, 4, 100)
            served: list[int] = []
            for _ in range(30):
                await fill(broker, 0, 200)
                served += await serve(broker, 100, 10)
            places = [at for at, lane in enumerate(served) if lane == 4]
            longest = max(after - before for before, after in zip([0, *places], places, strict=False))
            print(f"\nlongest wait of the lowest lane: {longest} messages of the highest")
            assert longest <= sum(WEIGHTS)

    run_virtually(run)


def test_a_lane_that_was_not_served_for_half_a_minute_is_next() -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", PARTITIONS, {})
            await fill(broker, 0, 100)
            await fill(broker, 4, 1)
            served: list[int] = []
            while 4 not in served:
                served += await serve(broker, 1, 1)
                await asyncio.sleep(1)
            assert 29 <= len(served) <= 32, "a slow consumer does not make it wait for a whole round"

    run_virtually(run)


def test_strict_order_serves_the_higher_first() -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", PARTITIONS, {})
            for lane in (4, 2, 0, 3, 1):
                await fill(broker, lane, 120)
            served = await serve(broker, 600, 50, strict=True)
            assert served == sorted(served)

    run_virtually(run)


def test_a_group_that_acked_everything_has_no_lag_whatever_the_lanes() -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            at = TopicPartition("t", 0)
            for done, lane in enumerate((0, 2, 2, 2, 4, 2, 2, 1, 2, 2), start=1):
                message = InputMessage(None, b"%d" % lane, ((HEADER, b"%d" % lane),), 0)
                await broker.publish.messages(PublishMessages("t", [message]))
                (got,) = await broker.leasing.take(Take("g", [at], "me", 1))
                await broker.leasing.ack([got.receipt])
                await asyncio.sleep(1)
                assert broker.groups.offsets("g")[at].offset == done

    run_virtually(run)


def test_the_lag_of_a_group_ends_at_the_first_message_that_is_left() -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            at = TopicPartition("t", 0)
            for lane in (0, 2, 0, 2, 2, 0, 4):
                message = InputMessage(None, b"%d" % lane, ((HEADER, b"%d" % lane),), 0)
                await broker.publish.messages(PublishMessages("t", [message]))
            left = {0, 1, 2, 3, 4, 5, 6}
            while left:
                (got,) = await broker.leasing.take(Take("g", [at], "me", 1, strict=True))
                await broker.leasing.ack([got.receipt])
                left.remove(got.stored.offset)
                await asyncio.sleep(1)
                assert broker.groups.offsets("g")[at].offset == min(left, default=7)

    run_virtually(run)
