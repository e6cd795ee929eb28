"""Bytes that are not requests: they cost their connection and nothing else. And requests, many at a time."""

from __future__ import annotations

import os
import struct

import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.metadata import MetadataRequest
from tests.door.kafka import raw
from tests.door.kafka.raw import Line
from tests.wire.client import APIS

UNSUPPORTED_VERSION = 35


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


@pytest.mark.parametrize(
    "junk",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 101 * 1024 * 1024),
        framed(b""),
        framed(b"\0"),
        framed(header(999, 0)),
        framed(header(-1, 0)),
        framed(header(24, 0)),
        framed(header(3, 99)),
        framed(header(0, 2) + bytes(20)),
        framed(header(3, 1) + b"\x7f\xff\xff\xff"),
        framed(header(0, 9) + b"\0" + b"\xff" * 40),
        framed(header(11, 9) + os.urandom(100)),
        framed(struct.pack(">hhih", 3, 1, 7, 5000)),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
    ],
    ids=[
        "negative size",
        "largest size",
        "size over the limit",
        "empty",
        "one byte",
        "no such API",
        "negative API",
        "not advertised API",
        "version to come",
        "version long gone",
        "array without end",
        "lengths without end",
        "random body",
        "client id without end",
        "HTTP",
        "TLS",
    ],
)
def test_what_is_no_request_closes_its_connection_only(kafka: str, junk: bytes) -> None:
    with Line(kafka) as bystander, Line(kafka) as line:
        bystander.ask(ApiVersionsRequest("a", "1"))
        line.socket.sendall(junk)
        assert line.is_closed_by_the_node()
        assert bystander.ask(ApiVersionsRequest("a", "1")).error_code == 0


def test_random_bytes_never_end_the_node(shared_node: NodeProcess) -> None:
    for number in range(300):
        with Line(shared_node.kafka) as line:
            body = os.urandom(1 + number % 120)
            key = sorted(APIS)[number % len(APIS)]
            line.socket.sendall(framed(header(key, APIS[key].max_version) + body))
    with Line(shared_node.kafka) as line:
        assert line.ask(ApiVersionsRequest("a", "1")).error_code == 0
    assert "request failed" not in shared_node.stderr and "Traceback" not in shared_node.stderr


def test_a_frame_byte_by_byte_is_a_frame(kafka: str) -> None:
    with Line(kafka) as line:
        for byte in raw.request_bytes(ApiVersionsRequest("a", "1"), 3, 42):
            line.socket.sendall(bytes([byte]))
        number, answer = raw.response_of(APIS[18], 3, line.receive_frame())
        assert (number, answer.error_code) == (42, 0)


def test_api_versions_of_a_version_to_come_is_answered_in_the_oldest_form(kafka: str) -> None:
    with Line(kafka) as line:
        line.socket.sendall(framed(header(18, 99) + b"\0whatever comes"))
        number, answer = raw.response_of(APIS[18], 0, line.receive_frame())
        assert (number, answer.error_code) == (7, UNSUPPORTED_VERSION)
        assert (18, 0, APIS[18].max_version) in [
            (one.api_key, one.min_version, one.max_version) for one in answer.api_keys
        ]
        assert line.ask(ApiVersionsRequest("a", "1"), 0).error_code == 0, "the client may go on"


def test_pipelined_requests_are_answered_in_their_order(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        sent = []
        for number in range(200):
            if number % 10 == 3:
                sent.append(line.send(raw.fetch_from(topic, 2, 0, max_wait_ms=20), 12))
            elif number % 2:
                sent.append(line.send(raw.produce_to(topic, 0, raw.batch(b"%d" % number)), 9))
            else:
                sent.append(line.send(MetadataRequest([], False)))
        found = [line.receive() for _ in sent]
        assert [number for number, _ in found] == sent
        placed = [
            answer.responses[0].partition_responses[0].base_offset
            for _, answer in found
            if type(answer).__name__ == "ProduceResponse"
        ]
        assert placed == list(range(80))


def test_a_produce_without_acks_has_no_answer(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        line.send(raw.produce_to(topic, 1, raw.batch(b"quiet"), acks=0), 9)
        assert line.ask(raw.offsets_of(topic, 1, -1)).topics[0].partitions[0].offset == 1


def test_a_client_that_does_not_read_its_answers_costs_little(shared_node: NodeProcess, topic: str) -> None:
    with Line(shared_node.kafka) as line:
        for _ in range(40):
            line.ask(raw.produce_to(topic, 0, raw.batch(os.urandom(500_000))), 9)
    before = shared_node.rss_bytes()
    lines = [Line(shared_node.kafka) for _ in range(10)]
    for line in lines:
        line.socket.settimeout(0.2)
        try:
            for _ in range(200):
                line.send(raw.fetch_from(topic, 0, 0), 12)
        except TimeoutError:
            pass  # the node stopped reading, as it should
    with Line(shared_node.kafka) as other:
        assert other.ask(ApiVersionsRequest("a", "1")).error_code == 0
    grown = shared_node.rss_bytes() - before
    for line in lines:
        line.close()
    assert grown < 100 * 1024 * 1024
