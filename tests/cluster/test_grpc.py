"""Three real nodes: gRPC clients ask any of them for anything, whoever leads it."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest

from bench.cluster_process import ClusterProcess
from goqueue.client import AsyncClient
from goqueue.format.batch import split
from goqueue.format.records import NewRecord, build, decode
from tests.cluster.clients import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
NODES = range(3)
PARTITIONS = 6


def batch(*values: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return build([NewRecord(None, value.encode(), (), now_ms) for value in values])


async def fetched(client: AsyncClient, topic: str, partition: int, count: int) -> list[str]:
    found: list[str] = []
    offset = 0
    while len(found) < count:
        batches, offset = await client.fetch_batches(topic, partition, offset, wait=20)
        found += [(record.value or b"").decode() for one in split(batches) for record in decode(one)]
    return found


@pytest.mark.asyncio
async def test_every_node_takes_and_gives_the_batches_of_every_partition(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster, PARTITIONS)
    for node in NODES:
        async with AsyncClient(f"grpc://{cluster.nodes[node].grpc}") as client:
            for partition in range(PARTITIONS):
                await client.publish_batch(topic, partition, batch(f"{node}-{partition}"))
    for node in NODES:
        async with AsyncClient(f"grpc://{cluster.nodes[node].grpc}") as client:
            for partition in range(PARTITIONS):
                assert await fetched(client, topic, partition, 3) == [f"{one}-{partition}" for one in NODES]


@pytest.mark.asyncio
async def test_a_group_is_served_by_streams_of_all_nodes(cluster: ClusterProcess) -> None:
    topic, group = make_topic(cluster, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    sent = [str(number).encode() for number in range(300)]
    seen: list[bytes | None] = []

    async def member(node: int) -> None:
        async with AsyncClient(f"grpc://{cluster.nodes[node].grpc}") as client:
            await client.publish_many(topic, sent[node::3])
            async with client.consumer(group, [topic], mode="shared") as consumer:
                while len(seen) < len(sent):
                    taken = await consumer.poll(20, timeout=1)
                    await consumer.ack(*taken)
                    seen.extend(one.value for one in taken)

    await asyncio.gather(*map(member, NODES))
    assert sorted(map(bytes, filter(None, seen))) == sorted(sent)
