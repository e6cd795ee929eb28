"""Kafka connections that hold too much: requests that never end, answers that nobody reads."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from goqueue.wire.api import RequestHeader
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.waiting import let_pass, wait_until
from tests.wire.client import APIS, encode_request_frame

FETCH = APIS[1]


def connect(node: NodeProcess) -> socket.socket:
    host, _, port = node.kafka.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def is_closed(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def metric(node: NodeProcess, name: str) -> float:
    text = httpx.get(f"{node.url}/metrics").text
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name + " ")), 0.0)


def refused(node: NodeProcess, why: str) -> float:
    return metric(node, f'goqueue_kafka_connections_refused_total{{why="{why}"}}')


def fetch_request(bytes_max: int, correlation_id: int, offset: int = 0, wait_ms: int = 0) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=bytes_max, topics=[FetchTopic(topic="t", partitions=[part])]
    )
    return b"".join(encode_request_frame(FETCH, RequestHeader(1, 12, correlation_id, "slow"), request))


def fill(node: NodeProcess, megabytes: int) -> None:
    with httpx.Client(base_url=node.url, timeout=30) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        for _ in range(megabytes):
            body = {"messages": [{"value": "x" * 1_000_000}]}
            client.post("/topics/t/messages", json=body).raise_for_status()


def test_unfinished_requests_beyond_the_total_cost_the_connection_that_holds_most(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_BUFFERED_BYTES_MAX": "8MiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        first, second = connect(node), connect(node)
        for line in (first, second):
            line.sendall((50_000_000).to_bytes(4, "big"))
        first.sendall(bytes(3_000_000))
        with contextlib.suppress(ConnectionError):
            for _ in range(60):
                second.sendall(bytes(100_000))
        assert is_closed(second)
        first.sendall(bytes(1000))
        assert refused(node, "memory") == 1
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


def test_who_does_not_read_goes_when_others_need_the_room(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_BUFFERED_BYTES_MAX": "16MiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        fill(node, 20)
        lines = [connect(node) for _ in range(20)]
        before = node.rss_bytes()
        for line in lines:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(b"".join(fetch_request(15_000_000, number) for number in range(4)))
        wait_until(lambda: metric(node, "goqueue_kafka_buffered_bytes") > 12 * 1024 * 1024)
        # They hold what may be held; a client that reads is served all the same, and soon.
        with connect(node) as reader:
            reader.sendall(fetch_request(3_000_000, 2))
            size = int.from_bytes(reader.recv(4, socket.MSG_WAITALL), "big")
            taken = len(reader.recv(size, socket.MSG_WAITALL))
            while taken < 2_000_000:  # an answer without messages means: ask again
                reader.sendall(fetch_request(3_000_000, 3))
                size = int.from_bytes(reader.recv(4, socket.MSG_WAITALL), "big")
                taken = len(reader.recv(size, socket.MSG_WAITALL))
        assert refused(node, "memory") >= 1
        assert node.rss_bytes() - before < 3 * 16 * 1024 * 1024
        for line in lines:
            line.close()


def test_answers_behind_a_long_poll_are_bounded(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        fill(node, 10)
        before = node.rss_bytes()
        lines = [connect(node) for _ in range(12)]
        for line in lines:
            line.sendall(fetch_request(1, 0, offset=10, wait_ms=60_000))  # behind the end: waits
            line.sendall(b"".join(fetch_request(8_000_000, number) for number in range(1, 64)))
        # A request of a bystander that comes later is answered: the node has worked on all of the above.
        for _ in range(20):
            with connect(node) as other:
                other.sendall(fetch_request(1_000, 1))
                assert len(other.recv(4, socket.MSG_WAITALL)) == 4
        assert node.rss_bytes() - before < 12 * 3 * 8_000_000
        for line in lines:
            line.close()


def test_connections_of_one_address_have_a_limit(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_CONNECTIONS_PER_ADDRESS_MAX": "3"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        lines = [connect(node) for _ in range(3)]
        with connect(node) as fourth:
            assert is_closed(fourth)
        assert refused(node, "address") == 1
        lines.pop().close()
        wait_until(lambda: metric(node, "goqueue_kafka_connections") == 2)
        with connect(node) as again:
            again.sendall(fetch_request(1_000, 1))
            assert len(again.recv(4, socket.MSG_WAITALL)) == 4
        for line in lines:
            line.close()


def test_a_frame_that_does_not_come_and_an_idle_connection_are_closed(tmp_path: Path) -> None:
    settings = {"GOQUEUE_KAFKA_FRAME_MS": "1500", "GOQUEUE_KAFKA_IDLE_MS": "4000"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, connect(node) as slow, connect(node) as idle:
        with connect(node) as polling:
            fill(node, 1)
            polling.sendall(fetch_request(1_000, 1, offset=1, wait_ms=7_000))
            slow.sendall((1000).to_bytes(4, "big"))
            with contextlib.suppress(ConnectionError):
                while refused(node, "frame") == 0:
                    slow.sendall(b"x")  # a byte now and then does not help
                    let_pass(0.05)
            assert is_closed(slow)
            assert is_closed(idle)
            assert len(polling.recv(4, socket.MSG_WAITALL)) == 4, "who waits for an answer is not idle"
        assert refused(node, "idle") == 1
