"""Quotas through the doors: set in three ways, kept, and told as each world expects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages import alter_client_quotas as altering
from goqueue.wire.messages import describe_client_quotas as describing
from goqueue.wire.messages import produce
from tests.cli.running import goqueue
from tests.door.kafka.raw import Line
from tests.format.by_hand import plain
from tests.waiting import let_pass

SQS = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("quotas") / "data") as running:
        yield running


@pytest.fixture
def rest(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url) as client:
        yield client


def test_quotas_are_set_seen_and_deleted_through_kafka_rest_and_the_command_line(
    node: NodeProcess, rest: httpx.Client
) -> None:
    entity = [altering.EntityData("user", "alice"), altering.EntityData("client-id", None)]
    ops = [altering.OpData("producer_byte_rate", 1e6), altering.OpData("consumer_byte_rate", 2e6)]
    with Line(node.kafka) as line:
        checked = line.ask(altering.AlterClientQuotasRequest([altering.EntryData(entity, ops)], True))
        assert [one.error_code for one in checked.entries] == [0]
        assert rest.get("/admin/quotas").json() == {"quotas": []}
        line.ask(altering.AlterClientQuotasRequest([altering.EntryData(entity, ops)]))
        wrong = altering.EntryData(entity, [altering.OpData("request_percentage", 5)])
        assert line.ask(altering.AlterClientQuotasRequest([wrong])).entries[0].error_code != 0
        answer = line.ask(describing.DescribeClientQuotasRequest([describing.ComponentData("user", 0, "alice")]))
        [found] = answer.entries
        assert {(one.key, one.value) for one in found.values} == {(op.key, op.value) for op in ops}
        assert [(one.entity_type, one.entity_name) for one in found.entity] == [("user", "alice"), ("client-id", None)]
        strict = describing.DescribeClientQuotasRequest([describing.ComponentData("user", 0, "alice")], True)
        assert list(line.ask(strict).entries) == []
    changed = {"user": "alice", "client_id": "", "limits": {"consumer_byte_rate": None, "request_rate": 5}}
    assert rest.post("/admin/quotas", json=changed).json()["limits"] == {"producer_byte_rate": 1e6, "request_rate": 5}
    assert "user alice, client-id <default>" in goqueue("quota", "list", server=node.url).stdout
    assert goqueue("quota", "set", "request_rate=7", "--user", "bob", server=node.url).exit_code == 0
    for whose in (("--user", "alice", "--client-id", ""), ("--user", "bob")):
        assert goqueue("quota", "delete", *whose, server=node.url).exit_code == 0
    assert rest.get("/admin/quotas").json() == {"quotas": []}
    assert goqueue("quota", "set", "speed=7", "--user", "bob", server=node.url).exit_code == 2
    assert goqueue("quota", "set", "request_rate=7", server=node.url).exit_code == 2


def test_a_producer_is_told_its_throttle_time_and_not_served_before_it_is_over(
    node: NodeProcess, rest: httpx.Client
) -> None:
    rest.post("/topics", json={"name": "orders", "num_partitions": 1})
    limits = {"client_id": "raw", "limits": {"producer_byte_rate": 10_000}}
    rest.post("/admin/quotas", json=limits).raise_for_status()
    data = produce.PartitionProduceData(0, plain(b"x" * 12_000))
    request = produce.ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[produce.TopicProduceData("orders", partition_data=[data])]
    )
    with Line(node.kafka) as line:
        answer = line.ask(request, version=9)
        assert 500 < answer.throttle_time_ms < 1500
        began = time.monotonic()
        line.ask(describing.DescribeClientQuotasRequest())
        assert time.monotonic() - began > answer.throttle_time_ms / 1000 - 0.1
    rest.delete("/admin/quotas", params={"client_id": "raw"}).raise_for_status()
    rest.post("/admin/quotas", json={**limits, "client_id": "other"}).raise_for_status()
    with Line(node.kafka) as line:
        assert line.ask(request, version=9).throttle_time_ms == 0, "of another client"
    rest.delete("/admin/quotas", params={"client_id": "other"}).raise_for_status()
    told = rest.get("/metrics").text
    assert 'goqueue_throttled_total{door="kafka",limit="producer_byte_rate"} 1.0' in told


def test_rest_and_sqs_refuse_who_owes_and_serve_it_again_afterwards(node: NodeProcess, rest: httpx.Client) -> None:
    limits = {"user": "anonymous", "limits": {"producer_byte_rate": 40_000}}
    rest.post("/admin/quotas", json=limits).raise_for_status()
    rest.post("/topics", json={"name": "paid"})
    body = {"messages": [{"value": "x" * 80_000}]}
    assert rest.post("/topics/paid/messages", json=body).status_code == 200, "a request that is large is taken whole"
    refused = rest.get("/topics")
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert 1 <= int(refused.headers["Retry-After"]) <= 3
    assert rest.get("/livez").status_code == 200
    sqs = httpx.post(f"{node.sqs}", json={}, headers=SQS)
    assert "RequestThrottled" in sqs.text
    let_pass(refused.json()["retry_ms"] / 1000 + 0.1)
    assert rest.get("/topics").status_code == 200
    assert httpx.post(f"{node.sqs}", json={}, headers=SQS).status_code == 200
    rest.delete("/admin/quotas", params={"user": "anonymous"}).raise_for_status()


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        httpx.post(f"{node.url}/admin/quotas", json={"user": "u", "limits": {"request_rate": 3}}).raise_for_status()
    with NodeProcess(tmp_path) as node:
        assert httpx.get(f"{node.url}/admin/quotas").json()["quotas"] == [
            {"user": "u", "client_id": None, "limits": {"request_rate": 3.0}, "tenant": None}
        ]
