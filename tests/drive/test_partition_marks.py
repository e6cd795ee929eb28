"""What a partition says of itself."""

from __future__ import annotations

from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish


def test_a_replica_that_has_not_heard_what_is_acknowledged_has_no_messages_not_fewer() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            (partition,) = broker.topics.require("t").partitions
            await publish(broker, "t", "a", "b", "c")
            await broker.cleaner.drop_head(partition, 2)
            assert partition.message_count == 1
            partition.state.high_watermark = 0
            assert partition.message_count == 0
            assert broker.health.stats().messages == 0

    run_virtually(scenario)
