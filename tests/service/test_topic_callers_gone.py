"""Whoever asks for a change of topics may go away at any moment: memory and disk still say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from goqueue.base.metadata import Commit
from goqueue.broker import Broker
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.node_services import NodeServices, Ports
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import SeededEntropy, broker_on, publish, settings

T = TypeVar("T")
STEPS = 40  # of the loop; a change takes fewer


async def like_a_thread(work: Callable[[], T]) -> T:
    """It takes a while, and goes on when nobody waits for it any more."""

    async def later() -> T:
        await asyncio.sleep(0.001)
        return work()

    return await asyncio.shield(asyncio.ensure_future(later()))


async def give_up_after(steps: int, work: asyncio.Future[Any]) -> None:
    for _ in range(steps):
        await asyncio.sleep(0.0002)
    work.cancel()
    await asyncio.wait([work])


async def contents(store: EmbeddedMetadata) -> dict[str, str]:
    return {key: entry.value for key, entry in (await store.read()).entries.items()}


def test_a_commit_whose_caller_went_away_is_whole_before_the_next() -> None:
    for steps in range(STEPS):

        async def scenario(loop: VirtualLoop, steps: int = steps) -> None:
            disk = SimDisk()
            store = EmbeddedMetadata(disk, like_a_thread)
            await store.open()
            first = asyncio.ensure_future(store.commit(Commit({"topics/a": "1", "topics/b": "1"})))
            await give_up_after(steps, first)
            await store.commit(Commit({"topics/a": "2", "topics/c": "2"}))
            again = EmbeddedMetadata(disk.crash("kept"), like_a_thread)
            await again.open()
            here, there = await contents(store), await contents(again)
            assert here == there
            assert here["topics/a"] == "2"

        run_virtually(scenario)


def test_a_topic_is_made_changed_and_deleted_whole_though_nobody_waits() -> None:
    for steps in range(STEPS):

        async def scenario(loop: VirtualLoop, steps: int = steps) -> None:
            disk = SimDisk()
            ports = Ports(disk, like_a_thread, VirtualClock(loop), SeededEntropy())
            broker = Broker(NodeServices(settings(), ports), ":memory:")
            await broker.start()
            await broker.topics.create("old", 1, {})
            for work in (
                broker.topics.create("new", 3, {}),
                broker.topics.alter("old", {"retention.ms": "5000"}, 2),
            ):
                await give_up_after(steps, asyncio.ensure_future(work))
            await asyncio.sleep(1)
            if broker.topics.find("new") is not None:
                await publish(broker, "new", "a", "b")
            known = {topic.name: (topic.record.partitions, topic.record.overrides) for topic in broker.topics.all()}
            await give_up_after(steps, asyncio.ensure_future(broker.topics.delete("old")))
            await asyncio.sleep(1)
            if broker.topics.find("old") is None:
                known.pop("old")
            async with broker_on(disk.crash("kept"), loop) as again:
                found = {one.name: (one.record.partitions, one.record.overrides) for one in again.topics.all()}
            assert found == known, steps
            await broker.stop()

        run_virtually(scenario)
