"""One message through everything that can happen to it: one trace, and every place that tells it tells the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.cli.running import goqueue
from tests.door.members import members
from tests.traces.collector import Collector, collecting
from tests.traces.lives import answer, lines, make_topic, publish, show, take, traces
from tests.waiting import let_pass, wait_until

LIFE = [
    "publish.received",
    "publish.validated",
    "publish.partitioned",
    "delay.scheduled",
    "delay.ready",
    "publish.persisted",
    "consume.fetched",
    "consume.nacked",
    "consume.fetched",
    "consume.nacked",
    "dlq.routed",
    "dlq.redriven",
    "consume.fetched",
    "consume.acked",
]


def live(http: httpx.Client, url: str) -> None:
    """Published with a delay, failed twice, dead, redriven, done."""
    make_topic(http, "orders", trace="on", queue_max_failures=2, queue_retry_ms=20)
    publish(http, "orders", key="user-1", delay="60ms")
    with members(url) as join:
        member = join("workers", "orders")
        for _ in range(2):
            answer(http, "nack", take(member), reason="no stock")
        wait_until(lambda: http.get("/topics/orders/dlq").json()["messages"])
        http.post("/topics/orders/dlq/redrive", json={}).raise_for_status()
        answer(http, "ack", take(member))


@pytest.fixture
def otlp() -> Collector:  # type: ignore[misc]
    with collecting() as collector:
        yield collector


def test_one_message_is_one_trace_wherever_it_is_told(tmp_path: Path, otlp: Collector) -> None:
    settings = {"GOQUEUE_TRACES_OTLP_ENDPOINT": otlp.url, "GOQUEUE_TRACES_OTLP_HEADERS": "x-team=shop"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        live(http, node.url)
        (trace,) = traces(http)
        told = show(http, trace["trace_id"])
        exported = otlp.wait_for(len(LIFE))
        printed = goqueue("trace", "show", trace["trace_id"], server=node.url)
        as_json = goqueue("trace", "show", trace["trace_id"], "--output", "json", server=node.url)
        listed = goqueue("trace", "list", server=node.url)

    # REST
    assert [one["name"] for one in told["spans"]] == LIFE
    assert trace["status"] == "completed" and trace["key"] == "user-1" and trace["groups"] == ["workers"]
    at = [one["at_us"] for one in told["spans"]]
    assert at == sorted(at) and at[0] == 0 and trace["took_us"] == at[-1]
    by_name = {one["name"]: one for one in told["spans"]}
    assert by_name["delay.ready"]["took_us"] >= 50_000
    assert by_name["dlq.routed"]["topic"] == "orders.dlq"
    assert by_name["dlq.routed"]["attributes"] == {"from": "orders/0/0", "reason": "MAX_FAILURES", "error": "no stock"}
    assert (by_name["dlq.redriven"]["topic"], by_name["dlq.redriven"]["offset"]) == ("orders", 1)
    assert [one["attributes"]["attempt"] for one in told["spans"] if one["name"] == "consume.fetched"] == [1, 2, 1]
    root = told["spans"][0]
    assert "parent_id" not in root and all(one["parent_id"] == root["span_id"] for one in told["spans"][1:])

    # the command line
    assert printed.exit_code == 0, printed.output
    shown = [line for line in printed.output.splitlines() if "orders" in line and "message" not in line]
    assert [next(name for name in LIFE if name in line) for line in shown] == LIFE
    assert [one["span_id"] for one in json.loads(as_json.output)["spans"]] == [one["span_id"] for one in told["spans"]]
    assert trace["trace_id"] in listed.output

    # files
    stored = lines(tmp_path / "data")
    assert [one["name"] for one in stored] == LIFE
    assert [one["span_id"] for one in stored] == [one["span_id"] for one in told["spans"]]
    assert {one["trace_id"] for one in stored} == {trace["trace_id"]}

    # OpenTelemetry
    exported.sort(key=lambda span: span.end_time_unix_nano)
    assert [span.name for span in exported] == LIFE
    assert [span.span_id.hex() for span in exported] == [one["span_id"] for one in told["spans"]]
    assert {span.trace_id.hex() for span in exported} == {trace["trace_id"]}
    assert [span.parent_span_id.hex() for span in exported] == ["", *[root["span_id"]] * (len(LIFE) - 1)]
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in exported)
    failed = [span.name for span in exported if span.status.code == span.status.STATUS_CODE_ERROR]
    assert failed == ["consume.nacked", "consume.nacked", "dlq.routed"]
    about = {one.key: one.value.string_value for one in exported[-1].attributes}
    assert about["messaging.destination.name"] == "orders" and about["messaging.consumer.group.name"] == "workers"
    resource = otlp.requests[0].resource_spans[0].resource
    assert {one.key for one in resource.attributes} >= {"service.name", "service.version"}
    assert otlp.paths[0] == "/v1/traces" and otlp.headers[0]["x-team"] == "shop"


def test_a_lease_that_runs_out_and_one_that_is_extended_are_told(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url) as http, members(node.url) as join:
        make_topic(http, "t", trace="on")
        publish(http, "t")
        member = join("g", "t")
        (first,) = member.ask_poll("5s", visibility_timeout="200ms").json()["messages"]
        answer(http, "visibility", first, timeout="300ms")
        second = take(member)
        assert second["attempt"] == 2
        answer(http, "visibility", second, timeout=0)
        answer(http, "reject", take(member), reason="broken")
        (trace,) = wait_until(lambda: traces(http, topic="t.dlq"))
        found = [one["name"] for one in show(http, trace["trace_id"])["spans"]]
        assert found[4:] == [
            "consume.fetched",
            "visibility.extended",
            "visibility.timeout",
            "consume.fetched",
            "visibility.released",
            "consume.fetched",
            "consume.rejected",
            "dlq.routed",
        ]
        assert trace["status"] == "error"


def test_delayed_messages_that_never_come_are_told(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url) as http, members(node.url) as join:
        make_topic(http, "t", trace="on", queue_expired_dead_letter="true")
        waits = publish(http, "t", key="cancelled", delay="1h")
        http.delete(f"/topics/t/delayed/0/{waits['scheduled']}").raise_for_status()
        (trace,) = traces(http, key="cancelled")
        assert trace["last"] == "delay.cancelled" and trace["status"] == "completed"

        publish(http, "t", key="late", ttl="1ms")
        member = join("g", "t")
        assert member.ask_poll("300ms").json()["messages"] == []
        (trace,) = wait_until(lambda: traces(http, topic="t.dlq"))
        found = [one["name"] for one in show(http, trace["trace_id"])["spans"]]
        assert found[4:] == ["consume.expired", "dlq.routed"]


def test_search_finds_by_everything_that_can_be_asked(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url) as http, members(node.url) as join:
        make_topic(http, "a", partitions=2, trace="on")
        make_topic(http, "b", trace="on")
        publish(http, "a", key="k0", partition=0)
        let_pass(0.005)
        middle = datetime.now(UTC).isoformat(timespec="milliseconds")
        let_pass(0.005)
        publish(http, "a", key="k1", partition=1)
        publish(http, "b", key="k0")
        member = join("g", "b")
        taken = take(member)
        ids = {(one["topic"], one["partition"]): one["trace_id"] for one in traces(http)}

        def found(**query: object) -> set[str]:
            return {one["trace_id"] for one in traces(http, **query)}

        assert found(topic="a") == {ids["a", 0], ids["a", 1]}
        assert found(topic="a", partition=1) == {ids["a", 1]}
        assert found(key="k0") == {ids["a", 0], ids["b", 0]}
        assert found(key="k0", group="g") == {ids["b", 0]}
        assert found(group="nobody") == set()
        assert found(status="pending") == set(ids.values())
        answer(http, "ack", taken)
        assert found(status="completed") == {ids["b", 0]}
        assert found(status="error") == set()
        assert found(to=middle, topic="a") == {ids["a", 0]}
        assert found(topic="a", **{"from": middle}) == {ids["a", 1]}
        assert found(**{"from": "2100-01-01T00:00:00Z"}) == set()
        assert len(traces(http, limit=1, topic="a")) == 1
        assert len(http.get("/traces", params={"limit": 2}).json()["traces"]) == 2


def test_what_cannot_be_asked_is_refused(server_url: str) -> None:
    with httpx.Client(base_url=server_url) as http:
        for path in ("/traces?limit=0", "/traces/search?status=fine", "/traces/search?colour=red"):
            answer = http.get(path)
            assert answer.status_code == 400, path
        assert http.get("/traces/search?from=yesterday").status_code == 400
        for trace_id in ("0" * 31 + "1", "xyz"):
            unknown = http.get(f"/traces/{trace_id}")
            assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-trace")
        refused = http.post("/topics", json={"name": "x", "config": {"trace": "1.5"}})
        assert refused.status_code == 400 and "trace" in refused.text
