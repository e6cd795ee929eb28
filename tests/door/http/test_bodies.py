"""Bodies of requests: they count when they have come, have to go on, and are never more framing than body."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import MIB
from tests.door.http.raw import Line, counted, refused
from tests.waiting import wait_until

POST = b"POST /topics/t/messages HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MESSAGE = b'{"messages":[{"value":"v"}]}'


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that waits for nobody."""
    settings = {f"GOQUEUE_{door}_BODY_STALL_MS": "300ms" for door in ("REST", "SQS")}
    with NodeProcess(tmp_path_factory.mktemp("hasty") / "data", settings=settings) as running:
        httpx.post(f"{running.url}/topics", json={"name": "t"}).raise_for_status()
        yield running


def publish(url: str, size: int) -> httpx.Response:
    return httpx.post(f"{url}/topics/t/messages", json={"messages": [{"value": "x" * size}]}, timeout=60)


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def test_announced_bodies_that_never_come_take_no_room(node: NodeProcess) -> None:
    """Each may be 64 MiB and all of them together 256 MiB; these announce 320 MiB."""
    httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
    lines = [Line(node.url).send(POST + b"Content-Length: 67108864\r\n\r\n{") for _ in range(5)]
    for _ in range(20):
        assert publish(node.url, 1_000_000).status_code == 200
    for line in lines:
        line.close()


def test_bodies_that_stand_still_make_room_for_those_that_go_on(tmp_path: Path) -> None:
    settings = {"GOQUEUE_REST_BODY_BYTES_MAX": "1MiB", "GOQUEUE_REST_BODY_BYTES_TOTAL_MAX": "2MiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        lines = [Line(node.url).send(POST + b"Content-Length: 1000000\r\n\r\n", b" " * 999_999) for _ in range(2)]
        wait_until(lambda: publish(node.url, 500_000).status_code == 200)  # after a second, not after twenty
        wait_until(lambda: publish(node.url, 900_000).status_code == 200)
        assert [line.problem() for line in lines[:1]] == [(503, "overloaded")]
        for line in lines:
            line.close()


@pytest.mark.parametrize("door", ["rest", "sqs"])
def test_a_body_that_stops_is_ended(hasty: NodeProcess, door: str) -> None:
    before = refused(hasty, door, "body-time")
    with Line(hasty.url if door == "rest" else hasty.sqs) as line:
        line.send(POST + b"Content-Length: 1000\r\n\r\n", b"{")
        assert line.problem()[0] == (408 if door == "rest" else 503)
        assert line.read_to_end() == b""
    counted(hasty, door, "body-time", before + 1)


def test_a_body_that_trickles_is_ended(hasty: NodeProcess) -> None:
    before = refused(hasty, "rest", "body-time")
    with Line(hasty.url) as line:
        line.send(POST + b"Content-Length: 100000\r\n\r\n")
        wait_until(lambda: bool(line.send(b" ")) and refused(hasty, "rest", "body-time") > before)
        assert b" 408 " in line.read_to_end()


def test_a_body_in_tiny_chunks_is_refused(hasty: NodeProcess) -> None:
    with Line(hasty.url) as line:
        line.send(CHUNKED, chunk(b" ") * 100_000)
        assert line.problem() == (400, "malformed-request")
    counted(hasty, "rest", "body-framing")


def test_endless_extensions_of_chunks_are_refused(hasty: NodeProcess) -> None:
    with Line(hasty.url) as line:
        line.send(CHUNKED, b"5;", b"e" * 2_000_000)
        assert line.problem() == (400, "malformed-request")


def test_endless_trailers_are_refused(hasty: NodeProcess) -> None:
    with Line(hasty.url) as line:
        line.send(CHUNKED, chunk(MESSAGE), b"0\r\n", b"Trailer: x\r\n" * 200)
        assert line.problem() == (431, "head-too-large")
    with Line(hasty.url) as line:
        line.send(CHUNKED, chunk(MESSAGE), b"0\r\n", b"Trailer: ", b"x" * 2_000_000)
        assert line.problem() == (400, "malformed-request")


def test_chunks_extensions_and_trailers_within_reason_are_read(hasty: NodeProcess) -> None:
    pieces = [MESSAGE[at : at + 3] for at in range(0, len(MESSAGE), 3)]
    with Line(hasty.url) as line:
        line.send(CHUNKED, *(chunk(piece, b";name=value") for piece in pieces), b"0\r\nTraceparent: x\r\n\r\n")
        assert line.answer()[0] == 200
        line.send(CHUNKED + chunk(MESSAGE) + b"0\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 200
        assert line.answer()[2] == b'{"status":"ok"}\n'


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(hasty: NodeProcess) -> None:
    with Line(hasty.url) as line:
        line.send(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(MESSAGE))
        assert line.answer()[0] == 100
        line.send(MESSAGE)
        assert line.answer()[0] == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_asked_for(hasty: NodeProcess) -> None:
    with Line(hasty.url) as line:
        line.send(POST + b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n")
        assert line.problem() == (413, "body-too-large")


def test_a_refused_body_is_not_read_for_ever(tmp_path: Path) -> None:
    settings = {"GOQUEUE_REST_BODY_BYTES_MAX": "64KiB"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, Line(node.url) as line:
        line.send(POST + b"Content-Length: 99999999999\r\n\r\n")
        assert line.problem() == (413, "body-too-large")
        line.send(*[b" " * 65_536] * 200)
        assert line.read_to_end() == b""
        counted(node, "rest", "body-unwanted")


def test_a_compressed_body_is_refused_as_what_it_is(hasty: NodeProcess) -> None:
    headers = {"Content-Encoding": "gzip"}
    url = f"{hasty.url}/topics/t/messages"
    answer = httpx.post(url, content=gzip.compress(MESSAGE), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-encoding")


MANY = {
    "messages": b'{"messages":[' + b"{}," * 5_000_000 + b"{}]}",
    "headers": b'{"messages":[{"headers":{' + b'"a":null,' * 2_000_000 + b'"a":null}}]}',
    "one header's values": b'{"messages":[{"headers":{"a":[' + b"null," * 2_000_000 + b"null]}}]}",
}


@pytest.mark.parametrize("what", MANY)
def test_millions_of_tiny_values_are_refused_before_they_are_decoded(hasty: NodeProcess, what: str) -> None:
    before = hasty.rss_bytes()
    answer = httpx.post(f"{hasty.url}/topics/t/messages", content=MANY[what], timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert hasty.rss_bytes() - before < 100 * MIB


def test_commas_in_text_are_no_values(hasty: NodeProcess) -> None:
    text = 'a "quoted\\" part, and more, \\\\' * 100_000
    answer = httpx.post(f"{hasty.url}/topics/t/messages", json={"messages": [{"value": text}]}, timeout=60)
    assert answer.status_code == 200


def test_json_of_any_depth_is_refused_not_followed(hasty: NodeProcess) -> None:
    for body in (b"[" * 1_000_000, b'{"messages":' + b"[" * 1_000_000, b'{"a":' * 200_000):
        answer = httpx.post(f"{hasty.url}/topics/t/messages", content=body)
        assert answer.status_code == 400
