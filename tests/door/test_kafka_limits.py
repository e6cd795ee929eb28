"""Kafka connections that hold too much: requests that never end, answers that nobody reads."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from goqueue.wire.api import APIS, RequestHeader, encode_request_frame
from goqueue.wire.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH = APIS[1]


def connect(node: NodeProcess) -> socket.socket:
    host, _, port = node.kafka.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def is_closed(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def fetch_request(bytes_max: int, correlation_id: int) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=bytes_max)
    request = FetchRequest(max_wait_ms=0, max_bytes=bytes_max, topics=[FetchTopic(topic="t", partitions=[part])])
    return b"".join(encode_request_frame(FETCH, RequestHeader(1, 12, correlation_id, "slow"), request))


def fill(node: NodeProcess, megabytes: int) -> None:
    with httpx.Client(base_url=node.url, timeout=30) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        for _ in range(megabytes):
            body = {"messages": [{"value": "x" * 1_000_000}]}
            client.post("/topics/t/messages", json=body).raise_for_status()


def test_unfinished_requests_beyond_the_total_cost_their_connection(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_BUFFERED_BYTES_MAX": "8MiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        first, second = connect(node), connect(node)
        for line in (first, second):
            line.sendall((50_000_000).to_bytes(4, "big"))
        first.sendall(bytes(6_000_000))
        with contextlib.suppress(ConnectionError):
            for _ in range(60):
                second.sendall(bytes(100_000))
        assert is_closed(second)
        first.sendall(bytes(1000))
        first.close()
        second.close()
        assert httpx.get(f"{node.url}/healthz").status_code == 200


def test_a_reader_that_does_not_read_holds_one_answer_at_most(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        fill(node, 20)
        before = node.rss_bytes()
        lines = [connect(node) for _ in range(8)]
        for line in lines:
            line.sendall(b"".join(fetch_request(10_000_000, number) for number in range(50)))
        deadline = time.monotonic() + 5
        highest = 0
        while time.monotonic() < deadline:
            highest = max(highest, node.rss_bytes())
            httpx.get(f"{node.url}/healthz").raise_for_status()
        # One answer of 10 MB each, not fifty.
        assert highest - before < 8 * 2 * 10_000_000 + 50_000_000
        for line in lines:
            line.close()


def test_unread_answers_beyond_the_total_cost_their_connection(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_BUFFERED_BYTES_MAX": "16MiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        fill(node, 20)
        lines = [connect(node) for _ in range(6)]
        for line in lines:
            line.sendall(fetch_request(15_000_000, 1))
        deadline = time.monotonic() + 10
        while "hold too many bytes" not in node.stderr and time.monotonic() < deadline:
            httpx.get(f"{node.url}/healthz").raise_for_status()
        assert node.stderr.count("hold too many bytes") >= 3
        for line in lines:
            line.close()
