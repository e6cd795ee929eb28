"""Queues in numbers, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.broker import Broker
from goqueue.drive import delivery_runner
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish
from tests.service.dead import buried, take


async def live(broker: Broker) -> None:
    await broker.topics.create("t", 1, {"queue.max.failures": 2})
    lanes = [b"0", b"2", b"4"]
    messages = [InputMessage(None, f"{n}".encode(), (("goqueue-priority", lanes[n % 3]),)) for n in range(9)]
    await broker.publish.messages(PublishMessages("t", messages))
    taken = {int(one.stored.value or b"-1"): one.receipt for one in await take(broker, limit=6)}
    chosen = list(taken)
    await broker.leasing.ack([taken[chosen[0]], taken[chosen[1]]])
    await broker.leasing.nack([taken[chosen[2]]], delay_ms=0)
    await broker.leasing.reject([taken[chosen[3]]])
    await asyncio.sleep(31)  # the other two leases run out
    await buried(broker, "t")


async def check(broker: Broker, about: int = 0) -> None:
    """What lies ahead is estimated until it is read."""
    await broker.queue_stats.look()
    (told,) = broker.queue_stats.reliability()
    assert (told.group, told.topic) == ("g", "t")
    assert (told.acked, told.nacked, told.rejected, told.expired_leases) == (2, 1, 1, 2)
    assert told.dead_letters == {"REJECTED": 1}
    assert 6 <= told.ready <= 6 + about and (told.in_flight, told.waiting) == (0, 0)
    lanes = await broker.queue_stats.lanes("g", "t")
    assert [one.lane for one in lanes] == ["critical", "normal", "background"]
    assert all(3 <= one.enqueued <= 3 + about for one in lanes)
    assert sum(one.dequeued for one in lanes) == 6
    assert 6 <= sum(one.ready for one in lanes) <= 6 + about
    assert all((one.last_served is None) == (one.dequeued == 0) for one in lanes)
    assert all(one.oldest_waiting is not None or not one.ready for one in lanes)
    assert broker.queue_stats.reliability("nobody") == [] == broker.queue_stats.reliability(None, "nothing")


@pytest.mark.parametrize("checkpoint_bytes", [delivery_runner.CHECKPOINT_BYTES, 100])
def test_the_numbers_are_right_and_survive_a_restart(checkpoint_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_runner, "CHECKPOINT_BYTES", checkpoint_bytes)
    disk = SimDisk()

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop) as broker:
            await live(broker)
            await check(broker)
        async with broker_on(disk, loop) as broker:
            await check(broker, about=2)

    run_virtually(scenario)


def test_the_oldest_message_that_waits_is_told() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "first")
            first_ms = broker.clock.now_ms()
            (one,) = await take(broker, limit=1)
            await asyncio.sleep(5)
            await publish(broker, "t", "second")
            (lane,) = await broker.queue_stats.lanes()
            assert (lane.ready, lane.in_flight, lane.oldest_waiting) == (1, 1, broker.clock.now_ms())
            await broker.leasing.extend([one.receipt], 0)
            (lane,) = await broker.queue_stats.lanes()
            assert (lane.ready, lane.in_flight, lane.oldest_waiting) == (2, 0, first_ms)

    run_virtually(scenario)


def test_a_shard_that_is_still_loaded_does_not_hide_the_queues_of_others() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            for name in "tuvw":
                await broker.topics.create(name, 1, {})
                await publish(broker, name, "one")
                await take(broker, name)
            by_topic = {view.topic: runner for runner in broker.delivery_runners for view in runner.views}
            assert len(set(by_topic.values())) > 1
            loading = by_topic["t"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(loading), "is_loaded", property(lambda one: one is not loading))
                told = {one.topic for one in broker.queue_stats.reliability()}
            assert told == {topic for topic, runner in by_topic.items() if runner is not loading}

    run_virtually(scenario)
