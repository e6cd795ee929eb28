"""Kafka's clients that say where they stand read from the node there, and go on when it dies."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer

from bench.cluster_process import ClusterProcess
from bench.node_process import NodeProcess
from tests.cluster.clients import make_topic
from tests.etcd import etcd_program
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
SIZE = 1_000


class RackedCluster(ClusterProcess):
    """Every node in a rack of its own."""

    def new_node(self, number: int, port: int, **settings: str) -> NodeProcess:
        return super().new_node(number, port, GOQUEUE_CLUSTER_RACK=f"rack-{number}", **settings)


@pytest.fixture(scope="module")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    etcd_program()
    with RackedCluster(tmp_path_factory.mktemp("racked")) as running:
        wait_until(lambda: running.state()["features"][0]["level"], "not every node knows it")
        yield running


def publish(cluster: ClusterProcess, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode().ljust(SIZE), partition=0)
    assert producer.flush(60) == 0


def bytes_read_at(cluster: ClusterProcess, node: int, topic: str) -> float:
    page = httpx.get(f"{cluster.nodes[node].url}/metrics", timeout=10).text
    found = re.search(rf'goqueue_broker_bytes_fetched_total{{topic="{topic}"}} (\S+)', page)
    return float(found[1]) if found else 0.0


def near(cluster: ClusterProcess, topic: str) -> tuple[int, int]:
    """Who leads, and another one."""
    leader = cluster.leader_of(topic)
    assert leader is not None
    return leader, (leader + 1) % 3


def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []

    def more() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(int((message.value() or b"").decode()))
        return len(found) >= count

    wait_until(more, lambda: f"{len(found)} of {count}", 60)
    return found


def test_the_c_client_reads_in_its_rack_and_goes_on_when_that_node_dies(racked: ClusterProcess) -> None:
    topic = make_topic(racked, 1)
    leader, follower = near(racked, topic)
    settings: dict[str, Any] = {
        "bootstrap.servers": racked.bootstrap,
        "group.id": uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "client.rack": f"rack-{follower}",
        "topic.metadata.refresh.interval.ms": 1_000,
    }
    publish(racked, topic, 0, 500)
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        assert read(consumer, 500) == list(range(500))
        assert bytes_read_at(racked, follower, topic) >= 500 * SIZE
        assert bytes_read_at(racked, leader, topic) == 0
        racked.kill(follower)
        publish(racked, topic, 500, 500)
        assert read(consumer, 500) == list(range(500, 1_000)), "nothing is missed or doubled"
    finally:
        consumer.close()
    racked.heal()


@pytest.mark.asyncio
async def test_aiokafka_reads_in_its_rack(racked: ClusterProcess) -> None:
    topic = make_topic(racked, 1)
    leader, follower = near(racked, topic)
    publish(racked, topic, 0, 500)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=racked.bootstrap,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        client_rack=f"rack-{follower}",
    )
    await consumer.start()
    try:
        found = [int((await consumer.getone()).value) for _ in range(500)]
    finally:
        await consumer.stop()
    assert found == list(range(500))
    assert bytes_read_at(racked, follower, topic) >= 500 * SIZE
    assert bytes_read_at(racked, leader, topic) == 0
