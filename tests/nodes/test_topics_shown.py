"""What a topic holds, told by any node: a reader stops where a partition ends, so an end is right or not given."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.api.topics import UNKNOWN, PartitionInfo, TopicInfo
from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.broker import Broker
from goqueue.service.front import answer_of
from tests.nodes.cluster import Nodes, run_nodes

PARTITIONS = 6


async def shown(broker: Broker) -> list[PartitionInfo]:
    found: TopicInfo = await answer_of(broker.routed(broker.topics).describe("t"))
    return found.partitions


async def filled(nodes: Nodes) -> None:
    """Ten messages in each partition."""
    await nodes.create("t", PARTITIONS)
    messages = [InputMessage(None, b"v", partition=number % PARTITIONS) for number in range(10 * PARTITIONS)]
    results = await nodes.any.routed(nodes.any.publish).messages(PublishMessages("t", messages))
    assert all(hasattr(one, "offset") for one in results)


def test_ends_are_right_while_another_node_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await filled(nodes)
        nodes.kill(2)
        for _ in range(100):
            assert [one.high_watermark for one in await shown(nodes.brokers[0])] == [10] * PARTITIONS
            await asyncio.sleep(0.01)

    run_nodes(story, monkeypatch)


def test_a_partition_that_nobody_leads_is_not_shown_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await filled(nodes)
        lost = {number for number in range(PARTITIONS) if nodes.any.topics.require("t").partitions[number].leader == 2}
        nodes.kill(2)
        found = {one.partition: one for one in await shown(nodes.brokers[0])}
        assert lost and {number for number, one in found.items() if one.high_watermark == UNKNOWN} == lost
        assert all(found[number].writable == (number not in lost) for number in found)
        await nodes.start(2)
        await nodes.until_led()
        assert [one.high_watermark for one in await shown(nodes.brokers[0])] == [10] * PARTITIONS

    run_nodes(story, monkeypatch, factor=1)
