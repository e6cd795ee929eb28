"""A trace that a producer began goes on in the broker and reaches the consumer, through every door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, get_current_span

from bench.node_process import NodeProcess
from goqueue.base.trace_context import parse_xray
from goqueue.format.batch import read_header
from tests.door.members import members
from tests.door.sqs.clients import client as sqs_client
from tests.kafka_messages import headers_of
from tests.traces.lives import (
    SAMPLED,
    SPAN_ID,
    TRACE_ID,
    UNSAMPLED,
    answer,
    make_topic,
    names,
    publish,
    show,
    take,
    traces,
)

PUBLISHED = ["publish.received", "publish.validated", "publish.partitioned", "publish.persisted"]


@pytest.fixture
def http(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url) as client:
        yield client


def produce(node: NodeProcess, topic: str, *headers: dict[str, Any], **options: Any) -> None:
    """All of them in one batch."""
    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 50, **options})
    for number, pairs in enumerate(headers):
        producer.produce(topic, b"v", f"k{number}".encode(), partition=0, headers=list(pairs.items()))
    assert producer.flush(20) == 0


def read(node: NodeProcess, topic: str, count: int) -> list[dict[str, str | bytes | None]]:
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [consumer.consume(1, 20)[0] for _ in range(count)]
    consumer.close()
    return [dict(headers_of(one)) for one in found]


def context_in(carrier: dict[str, str]) -> SpanContext:
    """As OpenTelemetry's own propagator reads it."""
    return get_current_span(extract(carrier)).get_span_context()


def test_kafka_headers_are_honoured_and_handed_on(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    produce(node, "t", {"traceparent": UNSAMPLED}, {"traceparent": SAMPLED, "more": b"x"}, {})
    (trace,) = traces(http)
    assert (trace["trace_id"], trace["offset"], trace["key"]) == (TRACE_ID, 1, "k1")
    assert names(http, TRACE_ID) == PUBLISHED
    spans = show(http, TRACE_ID)["spans"]
    assert {one["parent_id"] for one in spans} == {SPAN_ID}
    assert spans[0]["attributes"] == {"door": "kafka"}
    assert read(node, "t", 3)[1]["traceparent"] == SAMPLED.encode()
    with members(node.url) as join:
        member = join("g", "t")
        for _ in range(3):
            message = take(member)
            answer(http, "ack", message)
    assert names(http, TRACE_ID) == [*PUBLISHED, "consume.fetched", "consume.acked"]
    assert len(traces(http)) == 1


def test_what_the_opentelemetry_sdk_sends_is_honoured_and_what_it_reads_is_the_same(
    node: NodeProcess, http: httpx.Client
) -> None:
    make_topic(http, "t")
    carrier: dict[str, str] = {}
    with TracerProvider().get_tracer("test").start_as_current_span("order") as span:
        inject(carrier)
        ours = span.get_span_context()
    publish(http, "t", headers=carrier)
    produce(node, "t", carrier)
    trace_id = f"{ours.trace_id:032x}"
    assert names(http, trace_id) == [*PUBLISHED, *PUBLISHED]
    with members(node.url) as join:
        found = context_in(take(join("g", "t"))["headers"])
    assert (found.trace_id, found.span_id, found.trace_flags.sampled) == (ours.trace_id, ours.span_id, True)


def test_a_context_that_the_broker_made_is_read_by_the_sdk(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t", trace="on")
    publish(http, "t")
    (trace,) = traces(http)
    with members(node.url) as join:
        found = context_in(take(join("g", "t"))["headers"])
    assert found.is_valid and found.is_remote and found.trace_flags.sampled
    assert f"{found.trace_id:032x}" == trace["trace_id"]
    assert f"{found.span_id:016x}" == show(http, trace["trace_id"])["spans"][0]["span_id"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_searched_where_the_topic_asks_for_traces(
    node: NodeProcess, http: httpx.Client, codec: str
) -> None:
    make_topic(http, "asks", trace="0")
    make_topic(http, "plain")
    for topic in ("asks", "plain"):
        headers = {"traceparent": SAMPLED, "padding": b"x" * 500}
        produce(node, topic, headers, headers, **{"compression.type": codec})
    assert {one["topic"] for one in show(http, TRACE_ID)["spans"]} == {"asks"}
    with members(node.url) as join:  # elsewhere the trace goes on with the first that unfolds the batch
        take(join("g", "plain"))
    assert show(http, TRACE_ID)["spans"][-1]["name"] == "consume.fetched"


def test_rest_headers_are_honoured(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t")
    publish(http, "t", key="plain")
    publish(http, "t", headers={"traceparent": UNSAMPLED})
    publish(http, "t", headers={"traceparent": "00-not-a-trace-01"})
    assert traces(http) == []
    publish(http, "t", key="k", headers={"traceparent": SAMPLED})
    assert names(http, TRACE_ID) == PUBLISHED
    assert show(http, TRACE_ID)["key"] == "k"


def test_the_header_of_a_rest_request_counts_for_messages_that_say_nothing(
    node: NodeProcess, http: httpx.Client
) -> None:
    make_topic(http, "t")
    request = {"messages": [{"value": "v"}, {"value": "v", "headers": {"traceparent": UNSAMPLED}}]}
    http.post("/topics/t/messages", json=request, headers={"traceparent": UNSAMPLED}).raise_for_status()
    http.post("/topics/t/messages", json=request, headers={"traceparent": "nonsense"}).raise_for_status()
    assert traces(http) == []
    http.post("/topics/t/messages", json=request, headers={"traceparent": SAMPLED}).raise_for_status()
    assert names(http, TRACE_ID) == PUBLISHED and show(http, TRACE_ID)["spans"][0]["offset"] == 4
    assert read(node, "t", 6)[4]["traceparent"] == SAMPLED.encode()


def test_awss_own_trace_header_is_honoured_and_handed_on(node: NodeProcess, http: httpx.Client) -> None:
    xray = f"Root=1-{TRACE_ID[:8]}-{TRACE_ID[8:]};Parent={SPAN_ID};Sampled="
    with sqs_client(node.sqs) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        for text in (xray + "0", xray + "?", "Root=1-2-3", "self", xray + "1"):
            given = {"AWSTraceHeader": {"DataType": "String", "StringValue": text}}
            sqs.send_message(QueueUrl=url, MessageBody="hello", MessageSystemAttributes=given)
        got = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["AWSTraceHeader"],
            WaitTimeSeconds=5,
        )["Messages"]
    by_header = {one["Attributes"]["AWSTraceHeader"]: one for one in got}
    assert len(by_header) == 5 and all("MessageAttributes" not in one for one in got)
    assert [one["trace_id"] for one in traces(http)] == [TRACE_ID]
    assert names(http, TRACE_ID) == [*PUBLISHED, "consume.fetched"]


def test_sqs_attributes_are_honoured(node: NodeProcess, http: httpx.Client) -> None:
    with sqs_client(node.sqs) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(
            QueueUrl=url,
            MessageBody="hello",
            MessageAttributes={"traceparent": {"DataType": "String", "StringValue": SAMPLED}},
        )
        got = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)["Messages"][0]
        assert got["MessageAttributes"]["traceparent"]["StringValue"] == SAMPLED
        sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    assert names(http, TRACE_ID) == [*PUBLISHED, "consume.fetched", "consume.acked"]
    assert show(http, TRACE_ID)["spans"][0]["attributes"] == {"door": "sqs"}


def test_sqs_consumers_get_the_trace_that_the_broker_began(node: NodeProcess, http: httpx.Client) -> None:
    with sqs_client(node.sqs) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        http.patch("/topics/q", json={"config": {"trace": "on"}}).raise_for_status()
        sqs.send_message(QueueUrl=url, MessageBody="hello")
        wanted = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["AWSTraceHeader"]}
        got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, **wanted)["Messages"][0]
    assert "MessageAttributes" not in got, "the sender had none"
    context = parse_xray(got["Attributes"]["AWSTraceHeader"])
    assert context is not None and context.is_sampled
    assert context.trace_id == traces(http)[0]["trace_id"]


def test_a_topic_that_is_off_is_not_looked_at(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t", trace="off")
    produce(node, "t", {"traceparent": SAMPLED})
    publish(http, "t", headers={"traceparent": SAMPLED}, delay="10ms")
    with members(node.url) as join:
        member = join("g", "t")
        answer(http, "ack", take(member))
        answer(http, "ack", take(member))
    assert traces(http) == []


def test_a_rate_takes_its_share_of_kafka_batches_as_they_are(node: NodeProcess, http: httpx.Client) -> None:
    """Nothing is written into them; their consumers get the header from the queue, and dead letters carry it on."""
    make_topic(http, "t", trace="0.1")
    produce(node, "t", *({} for _ in range(200)), **{"compression.type": "zstd"})
    found = traces(http)
    assert len(found) == 20 and len({one["offset"] % 10 for one in found}) == 1
    assert all("traceparent" not in headers for headers in read(node, "t", 200))
    offset = min(one["offset"] for one in found)
    with members(node.url) as join:
        member = join("g", "t")
        taken = member.ask_poll("5s", limit=200).json()["messages"]
        message = next(one for one in taken if one["offset"] == offset)
        assert [one["offset"] for one in taken if "traceparent" in one["headers"]] == sorted(
            one["offset"] for one in found
        )
        answer(http, "reject", message)
    trace_id = f"{context_in(message['headers']).trace_id:032x}"
    assert trace_id in {one["trace_id"] for one in found}
    (dead,) = traces(http, topic="t.dlq")
    assert dead["trace_id"] == trace_id
    assert names(http, trace_id) == [*PUBLISHED, "consume.fetched", "consume.rejected", "dlq.routed"]


def test_a_priority_that_a_kafka_producer_sets_does_not_end_the_trace(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t", trace="on")
    produce(node, "t", {"goqueue-priority": b"0"})
    with members(node.url) as join:
        message = take(join("g", "t"))
        answer(http, "ack", message)
    (trace,) = traces(http)
    assert names(http, trace["trace_id"]) == [*PUBLISHED, "consume.fetched", "consume.acked"]


@pytest.mark.usefixtures("watched")
def test_the_messages_of_a_transaction_tell_of_its_end(node: NodeProcess, http: httpx.Client) -> None:
    make_topic(http, "t", trace="on")
    producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": "tx"})
    producer.init_transactions(20)
    for outcome, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("t", outcome.encode(), headers={"traceparent": SAMPLED.replace("0af7", f"{len(outcome):04x}")})
        assert producer.flush(20) == 0
        end(20)
        trace_id = TRACE_ID.replace("0af7", f"{len(outcome):04x}")
        assert names(http, trace_id) == [*PUBLISHED, "txn.added", "txn.prepared", f"txn.{outcome}"]
    assert {one["status"] for one in traces(http)} == {"pending", "error"}


def test_a_batch_is_stored_to_the_byte_as_it_was_sent(node: NodeProcess, http: httpx.Client) -> None:
    for trace in ("on", "off"):
        make_topic(http, trace, trace=trace)
        produce(node, trace, {"traceparent": SAMPLED}, {})
    bodies = []
    for topic in ("on", "off"):
        (path,) = (node.data_dir / "logs" / topic / "0").glob("*.log")
        header = read_header(path.read_bytes())
        bodies.append((header.size, header.record_count, header.attributes))
    assert bodies[0] == bodies[1]
