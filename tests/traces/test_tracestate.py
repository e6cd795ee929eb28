"""What vendors say beside a trace (`tracestate`) goes with its `traceparent`; two of those start a new trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from bench.node_process import NodeProcess
from tests.door.members import members
from tests.door.sqs.clients import client as sqs_client
from tests.traces.lives import SAMPLED, TRACE_ID, answer, make_topic, publish, take, traces
from tests.waiting import wait_until

STATE = "vendor=opaque,other@here=1"
BOTH = {"traceparent": SAMPLED, "tracestate": STATE}


@pytest.fixture
def http(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url, timeout=60) as client:
        yield client


def of(message: dict[str, Any]) -> dict[str, Any]:
    headers = message["headers"]
    return {name: headers.get(name) for name in ("traceparent", "tracestate")}


def letters(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/topics/t/dlq").json()["messages"]
    return found


def test_it_lives_through_redelivery_dead_letters_and_redrive(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    producer = Producer({"bootstrap.servers": node.kafka})
    producer.produce("t", b"v", headers=list(BOTH.items()))
    assert producer.flush(20) == 0
    with members(node.url) as join:
        member = join("g", "t")
        first = take(member)
        assert of(first) == BOTH
        answer(http, "nack", first, delay=0)
        again = take(member)
        assert of(again) == BOTH
        answer(http, "reject", again)
        (letter,) = wait_until(lambda: letters(http))
        assert of(letter) == BOTH
        http.post("/topics/t/dlq/redrive", json={}).raise_for_status()
        assert of(take(member)) == BOTH


def test_it_waits_with_a_delayed_message(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    publish(http, "t", headers=BOTH, delay="10ms")
    with members(node.url) as join:
        assert of(take(join("g", "t"))) == BOTH


def test_it_passes_through_sqs(node: NodeProcess) -> None:
    given = {name: {"DataType": "String", "StringValue": value} for name, value in BOTH.items()}
    with sqs_client(node.sqs) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="hello", MessageAttributes=given)
        (got,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)["Messages"]
    assert got["MessageAttributes"] == given


def test_a_requests_own_goes_with_its_traceparent_and_not_without(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    body = {"messages": [{"value": "v", "headers": {"tracestate": "stale=1"}}]}
    own = [("traceparent", SAMPLED), ("tracestate", "vendor=opaque"), ("tracestate", "other@here=1")]
    http.post("/topics/t/messages", json=body, headers=own).raise_for_status()
    http.post("/topics/t/messages", json={"messages": [{"value": "v"}]}, headers={"tracestate": STATE})
    with members(node.url) as join:
        member = join("g", "t")
        assert of(take(member)) == BOTH
        assert of(take(member)) == {"traceparent": None, "tracestate": None}


def test_a_state_that_is_too_long_is_cut_for_each_message(node: NodeProcess, http: httpx.Client) -> None:
    """Else one header of a request would be stored with each of its thousands of messages."""
    make_topic(http, "t")
    long = ",".join(f"k{number}={'v' * 100}" for number in range(30))
    http.post("/topics/t/messages", json={"messages": [{"value": "v"}]}, headers={**BOTH, "tracestate": long})
    with members(node.url) as join:
        assert of(take(join("g", "t")))["tracestate"] == ",".join(long.split(",")[:4])


def test_two_traceparents_of_a_request_are_none(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    doubled = [("traceparent", SAMPLED), ("traceparent", SAMPLED), ("tracestate", STATE)]
    http.post("/topics/t/messages", json={"messages": [{"value": "v"}]}, headers=doubled).raise_for_status()
    assert traces(http) == []
    with members(node.url) as join:
        assert of(take(join("g", "t"))) == {"traceparent": None, "tracestate": None}


@pytest.mark.parametrize("door", ["kafka", "rest", "delayed"])
def test_two_traceparents_of_a_message_start_a_new_trace(node: NodeProcess, http: httpx.Client, door: str) -> None:
    make_topic(http, "t", trace="on")
    if door == "kafka":
        producer = Producer({"bootstrap.servers": node.kafka})
        producer.produce("t", b"v", headers=[("traceparent", SAMPLED), *BOTH.items()])
        assert producer.flush(20) == 0
    else:
        more = {"delay": "10ms"} if door == "delayed" else {}
        publish(http, "t", headers={"traceparent": [SAMPLED, SAMPLED], "tracestate": STATE}, **more)
    with members(node.url) as join:
        found = of(take(join("g", "t")))
    (trace,) = traces(http)
    assert trace["trace_id"] != TRACE_ID
    assert found["tracestate"] is None
    assert found["traceparent"].startswith(f"00-{trace['trace_id']}-")
