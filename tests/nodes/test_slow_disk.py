"""A leader that is deposed while it waits for its disk, and a disk that fails for one topic."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages
from goqueue.base.errors import LeaderChanged
from goqueue.base.ids import TopicPartition
from goqueue.drive.partition import Partition
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
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


def test_a_topic_that_a_node_cannot_open_does_not_keep_it_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        opener = nodes.brokers[1].table._opener
        opened = opener.open

        def fail_at_a(at: TopicPartition, *rest: Any) -> Any:
            if at.topic == "a":
                raise OSError(errno.EIO, "Input/output error")
            return opened(at, *rest)

        monkeypatch.setattr(opener, "open", fail_at_a)
        for topic in ("a", "b"):
            await nodes.brokers[0].topics.create(topic, 6, {})
        await until(lambda: nodes.brokers[1].topics.find("b") is not None)
        at = nodes.place_at(1, "b")
        command = PublishMessages("b", [InputMessage(None, b"x", partition=at.partition)], Acks.ALL)
        await patiently(lambda: nodes.brokers[1].publish.messages(command))

    run_nodes(story, monkeypatch)
