"""A client that vanishes without a word: the system asks on every accepted connection, and closes it in the end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from tests.door.kafka.raw import host_and_port, request_bytes

TABLE = Path("/proc/net/tcp")
ESTABLISHED, KEEPALIVE = "01", "02"
HERTZ = 100  # of times in the table
IDLE_S_MAX = 60


def timer_of(port: int, peer_port: int) -> tuple[str, float]:
    """Which timer runs for the node's end of a connection, and for how many seconds yet."""
    for line in TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(fields[place].rpartition(":")[2], 16) for place in (1, 2)]
        if ends == [port, peer_port] and fields[3] == ESTABLISHED:
            kind, _, left = fields[5].partition(":")
            return kind, int(left, 16) / HERTZ
    raise AssertionError("no such connection")


@pytest.mark.skipif(not TABLE.exists(), reason="this system has no table of connections to read")
@pytest.mark.parametrize("door", ["kafka", "rest", "sqs"])
def test_an_idle_connection_is_asked_whether_it_is_still_there_within_a_minute(node: NodeProcess, door: str) -> None:
    address = {"kafka": node.kafka, "rest": node.url, "sqs": node.sqs}[door].removeprefix("http://")
    hello = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    if door == "kafka":
        hello = request_bytes(ApiVersionsRequest("a", "1"), 3, 1)
    with socket.create_connection(host_and_port(address), timeout=20) as client:
        client.sendall(hello)
        assert client.recv(65_536)  # the node has accepted it
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # nothing that is sent waits for an answer
        kind, left_s = settled_timer(host_and_port(address)[1], client.getsockname()[1])
        assert kind == KEEPALIVE
        assert left_s <= IDLE_S_MAX  # the system's own default is two hours


def settled_timer(port: int, peer_port: int) -> tuple[str, float]:
    """The timer once the answer is acknowledged; until then the one for sending it again runs."""
    for _ in range(1_000_000):
        kind, left_s = timer_of(port, peer_port)
        if kind != "01":
            break
    return kind, left_s
