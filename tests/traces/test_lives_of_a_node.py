"""Traces over crashes, floods and collectors that are not there."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path

import httpx
from confluent_kafka import Producer

from bench.node_process import NodeProcess
from tests.door.members import members
from tests.traces.collector import Collector, collecting
from tests.traces.lives import answer, lines, make_topic, names, publish, show, take, traces
from tests.waiting import stretched, wait_until


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def stats(http: httpx.Client, exporter: str) -> dict[str, int]:
    told = http.get("/traces/stats").json()
    found: dict[str, int] = next(one for one in told["exporters"] if one["name"] == exporter)
    return found


def test_a_killed_node_finds_its_traces_and_goes_on_with_them(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data").start()
    with httpx.Client(base_url=node.url) as http:
        make_topic(http, "t", trace="on", queue_retry_ms=10)
        for key in ("held", "again"):
            publish(http, "t", key=key)
        with members(node.url) as join:
            member = join("g", "t", mode="shared")
            held, again = take(member), take(member)
            answer(http, "nack", again)
            before = {one["key"]: one["trace_id"] for one in traces(http)}
            wait_until(lambda: len(lines(tmp_path / "data")) == 2 * 4 + 3)
            node.kill()
    (path,) = (tmp_path / "data" / "traces").glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"trace_id":"' + before["held"].encode() + b'","span_id":"00')  # torn by the crash
    node.start()
    try:
        with httpx.Client(base_url=node.url) as http, members(node.url) as join:
            assert {one["key"]: one["trace_id"] for one in traces(http)} == before
            assert [one["trace_id"] for one in traces(http, key="held")] == [before["held"]]
            answer(http, "ack", held)  # a lease of the life before
            answer(http, "ack", take(join("g", "t", mode="shared")))
            assert names(http, before["held"])[4:] == ["consume.fetched", "consume.acked"]
            assert names(http, before["again"])[4:] == [
                "consume.fetched",
                "consume.nacked",
                "consume.fetched",
                "consume.acked",
            ]
            assert {one["status"] for one in traces(http)} == {"completed"}
    finally:
        node.stop()
    assert len(list((tmp_path / "data" / "traces").glob("*.jsonl"))) == 2


def test_old_traces_are_found_on_disk_when_memory_has_forgotten_them(tmp_path: Path) -> None:
    settings = {"GOQUEUE_TRACES_RING_MAX": "1", "GOQUEUE_TRACES_SAMPLE_RATE": "1"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        make_topic(http, "t")
        for number in range(20):
            publish(http, "t", key=f"k{number}")
        wait_until(lambda: len(lines(tmp_path / "data")) == 80)
        assert len(traces(http)) == 1
        assert len(traces(http, topic="t")) == 20
        assert len(traces(http, topic="t", limit=7)) == 7
        (old,) = traces(http, key="k3")
        assert len(show(http, old["trace_id"])["spans"]) == 4


def test_files_are_closed_by_size_and_kept_by_count(tmp_path: Path) -> None:
    settings = {
        "GOQUEUE_TRACES_FILE_BYTES": "4096",
        "GOQUEUE_TRACES_FILES_MAX": "3",
        "GOQUEUE_TRACES_SAMPLE_RATE": "1",
        "GOQUEUE_TRACES_RING_MAX": "5",
    }
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        make_topic(http, "t")
        for _ in range(60):
            publish(http, "t", key="k")
            http.get("/traces")  # hands over what was gathered, so that no write is large
        wait_until(lambda: stats(http, "file")["exported"] == 240)
        files = sorted((tmp_path / "data" / "traces").glob("*.jsonl"))
        assert len(files) == 3 and all(path.stat().st_size <= 4096 for path in files)
        assert 8 <= len(traces(http, topic="t", limit=1000)) < 60


def test_a_dead_collector_harms_nothing_and_gets_everything_once_it_is_there(tmp_path: Path) -> None:
    port = free_port()
    settings = {"GOQUEUE_TRACES_OTLP_ENDPOINT": f"http://127.0.0.1:{port}/v1/traces"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        make_topic(http, "t", trace="on")
        publish(http, "t")
        wait_until(lambda: stats(http, "otlp")["failure"])
        slowest = 0.0
        for _ in range(50):
            began = time.perf_counter()
            publish(http, "t")
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < stretched(1), "nobody waits for the collector"
        wait_until(lambda: stats(http, "otlp")["waiting"] == 4 * 51)
        with collecting(port=port) as late:
            assert len(late.wait_for(4 * 51)) == 4 * 51
            wait_until(lambda: stats(http, "otlp")["exported"] == 4 * 51)
            assert stats(http, "otlp")["dropped"] == 0 and not stats(http, "otlp")["failure"]
    assert node.stderr.count("traces cannot be exported") == 1


def test_a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not(tmp_path: Path) -> None:
    def wait_for(collector: Collector, requests: int) -> None:
        wait_until(lambda: len(collector.paths) >= requests)

    with collecting(status=503) as collector:
        settings = {"GOQUEUE_TRACES_OTLP_ENDPOINT": collector.url}
        with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
            make_topic(http, "t", trace="on")
            publish(http, "t")
            wait_for(collector, 2)
            collector.status = 200
            assert len(collector.wait_for(4)) == 4
            collector.status = 400
            publish(http, "t")
            wait_until(lambda: stats(http, "otlp")["dropped"] == 4)
            collector.status, collector.answer = 200, b'{"partialSuccess": {"rejectedSpans": "3"}}'
            publish(http, "t")
            wait_until(lambda: stats(http, "otlp")["dropped"] == 7)
            assert stats(http, "otlp")["exported"] == 5


def test_a_flood_is_bounded_and_counted(tmp_path: Path) -> None:
    """Everything traced, and a collector that never answers: the node stays up, and every event is kept or counted."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {"GOQUEUE_TRACES_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
            make_topic(http, "t", trace="on")
            producer = Producer({"bootstrap.servers": node.kafka, "queue.buffering.max.messages": 500_000})
            sent, before = 0, node.rss_bytes()
            while sent < 300_000 or not stats(http, "otlp")["dropped"]:
                for _ in range(100_000):
                    producer.produce("t", b"x" * 50, partition=0)
                assert producer.flush(60) == 0
                sent += 100_000
            told = http.get("/traces/stats").json()
            assert told["recorded"] + told["dropped"] == sent and told["dropped"] > 0
            otlp = stats(http, "otlp")
            assert otlp["dropped"] > 0 and otlp["waiting"] <= 20_000
            wait_until(lambda: stats(http, "file")["dropped"] + stats(http, "file")["exported"] == told["recorded"])
            assert told["traces"] <= 10_000 and told["spans"] <= 50_000
            assert node.rss_bytes() - before < 150 * 2**20
            shown = re.findall(r'goqueue_traces_spans_dropped_total{exporter="(\w+)"} (\S+)', http.get("/metrics").text)
            lost = {name: float(value) for name, value in shown}
            assert lost["recorder"] == told["dropped"] and lost["otlp"] > 0
            assert http.get("/topics/t").json()["messages"] == sent


def test_standard_output_gets_every_event_as_a_line(tmp_path: Path) -> None:
    settings = {"GOQUEUE_TRACES_STDOUT": "on", "GOQUEUE_TRACES_FILES_MAX": "0"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        make_topic(http, "t", trace="on")
        publish(http, "t")
        (trace,) = traces(http)
        assert node._process is not None and node._process.stdout is not None
        found = [json.loads(node._process.stdout.readline()) for _ in range(4)]
        assert [one["name"] for one in found] == names(http, trace["trace_id"])
        assert not (tmp_path / "data" / "traces").exists()


def test_a_reader_of_standard_output_that_stops_reading_harms_nothing(tmp_path: Path) -> None:
    settings = {"GOQUEUE_TRACES_STDOUT": "on", "GOQUEUE_TRACES_SAMPLE_RATE": "1"}
    node = NodeProcess(tmp_path / "data", settings=settings).start()
    try:
        with httpx.Client(base_url=node.url) as http:
            make_topic(http, "t")
            for _ in range(20):
                http.post("/topics/t/messages", json={"messages": [{"value": "v"}] * 100}).raise_for_status()
            wait_until(lambda: stats(http, "file")["exported"] == 8_000)
            assert len(traces(http, topic="t")) == 100
    finally:
        node.kill()


def test_tracing_can_be_switched_off_altogether(tmp_path: Path) -> None:
    settings = {"GOQUEUE_TRACES_RECORD": "off", "GOQUEUE_TRACES_SAMPLE_RATE": "1"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        make_topic(http, "t", trace="on")
        publish(http, "t")
        assert traces(http) == [] and http.get("/traces/stats").json()["enabled"] is False
        (message,) = http.get("/topics/t/messages").json()["messages"]
        assert message["headers"] == {}
