"""A leader that is deposed while it waits for its disk."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import LeaderChanged
from goqueue.drive.partition import Partition
from tests.nodes.cluster import Nodes, run_nodes
from tests.nodes.test_queues import jobs


class SlowDisk:
    def __init__(self) -> None:
        self.is_done = asyncio.Event()

    async def wait_durable(self, partition: Partition) -> None:
        await self.is_done.wait()


def test_nothing_is_acknowledged_by_the_high_watermark_of_another_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 3)
        partition, disk = nodes.brokers[0].topics.require("jobs").partition(at.partition), SlowDisk()
        monkeypatch.setattr(partition, "_syncs", disk)
        waiting = asyncio.get_running_loop().create_task(partition.wait_durable())
        await asyncio.sleep(0)
        partition.lead(None)
        assert partition.high_watermark == partition.end_offset, "as it may be after a cut and other messages"
        disk.is_done.set()
        with pytest.raises(LeaderChanged):
            await waiting

    run_nodes(story, monkeypatch)
