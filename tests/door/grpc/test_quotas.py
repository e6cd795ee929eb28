"""Quotas over gRPC: calls are refused and told when to come again, streams are slowed down."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.node_process import NodeProcess
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, refused, stubs

RATE = 100_000


async def limited(node: NodeProcess, goqueue: Stubs, **limits: float) -> None:
    await goqueue.topics.CreateTopic(pb.CreateTopicRequest(name="paid"))
    async with httpx.AsyncClient(base_url=node.url) as rest:
        answer = await rest.post("/admin/quotas", json={"user": "anonymous", "limits": limits})
    assert answer.status_code == 200, answer.text


def of_bytes(size: int) -> pb.PublishRequest:
    return pb.PublishRequest(topic="paid", messages=[pb.Message(value=bytes(size))])


@pytest.mark.asyncio
async def test_who_is_over_a_quota_is_told_when_to_come_again(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        async with stubs(node.grpc) as goqueue:
            await limited(node, goqueue, producer_byte_rate=RATE)
            await goqueue.publisher.Publish(of_bytes(5 * RATE))
            status, word, whole = await refused(goqueue.publisher.Publish(of_bytes(1)))
            assert (status, word) == ("RESOURCE_EXHAUSTED", "throttled")
            retry = error_details_pb2.RetryInfo()
            assert any(one.Unpack(retry) for one in whole.details)
            assert 3 <= retry.retry_delay.seconds <= 5
            health = await health_pb2_grpc.HealthStub(goqueue.channel).Check(health_pb2.HealthCheckRequest())
            assert health.status == health_pb2.HealthCheckResponse.SERVING, "whoever watches is never told to wait"


@pytest.mark.asyncio
async def test_a_stream_that_is_over_a_quota_is_slowed_down(tmp_path: Path) -> None:
    async def requests() -> AsyncIterator[pb.PublishRequest]:
        for _ in range(6):
            yield of_bytes(RATE // 2)

    with NodeProcess(tmp_path) as node:
        async with stubs(node.grpc) as goqueue:
            await limited(node, goqueue, producer_byte_rate=RATE)
            began = time.monotonic()
            answer = await goqueue.publisher.PublishMany(requests())
            assert (answer.published, list(answer.failures)) == (6, [])
            assert time.monotonic() - began > 1.5, "three hundred thousand bytes, of which a quarter second's are free"
