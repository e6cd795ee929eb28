"""Doors hand over who calls, and every door is asked in the same words."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from goqueue.base.access import AclOperation, AclResource
from goqueue.base.commands import Caller
from goqueue.base.errors import InternalTopic
from goqueue.base.settings import load_settings
from goqueue.node import Node
from tests.access import AskedBy

TARGET = {"X-Amz-Target": "AmazonSQS.GetQueueUrl", "Content-Type": "application/x-amz-json-1.0"}


class Guard:
    """Notes who asked for what; refuses what is named."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str, str, str]] = set()
        self.refused: set[str] = set()

    def __call__(self, caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        self.asked.add((caller.door, caller.host, operation.name, resource.name))
        if resource.name in self.refused:
            raise InternalTopic("Not for you.")


@pytest.mark.asyncio
async def test_rest_kafka_and_sqs_hand_over_who_calls_from_where(tmp_path: Path) -> None:
    guard = Guard()
    flags = {"data.dir": str(tmp_path)} | {f"{door}.listen": "127.0.0.1:0" for door in ("rest", "kafka", "sqs", "grpc")}
    node = Node(load_settings(None, {}, flags), access=AskedBy(guard))
    started = await node.start()
    try:
        async with httpx.AsyncClient(base_url=started.addresses["REST"]) as client:
            assert (await client.post("/topics", json={"name": "orders"})).status_code == 201
            body = {"messages": [{"value": "a"}]}
            assert (await client.post("/topics/orders/messages", json=body)).status_code == 200
            guard.refused.add("orders")
            assert (await client.post("/topics/orders/messages", json=body)).status_code == 403
            assert (await client.get("/topics/orders")).status_code == 403
            guard.refused.clear()
        async with AIOKafkaProducer(bootstrap_servers=started.addresses["Kafka"]) as producer:
            assert (await producer.send_and_wait("orders", b"b")).topic == "orders"
        async with httpx.AsyncClient(base_url=started.addresses["SQS"]) as client:
            answer = await client.post("/", json={"QueueName": "orders"}, headers=TARGET)
            assert answer.status_code == 200
    finally:
        await node.stop()
    here = "127.0.0.1"
    assert guard.asked >= {
        ("rest", here, "CREATE", "orders"),
        ("rest", here, "WRITE", "orders"),
        ("kafka", here, "WRITE", "orders"),
        ("kafka", here, "DESCRIBE", "orders"),
        ("sqs", here, "DESCRIBE", "orders"),
    }
